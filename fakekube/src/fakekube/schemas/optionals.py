"""Rewrites CEL's optional fields, `object.?spec.?size.orValue(1)`, for a CEL library without optionals.

Supported are plain paths of fields and keys, without calls, that end in `orValue` with a plain value. Any other
expression stays unchanged, and fails to compile with a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["without_optionals"]

_STEP = r"\.\??[A-Za-z_]\w*|\[\??'[^'\\]*'\]"
_OPTIONAL = re.compile(rf"\b([A-Za-z_]\w*)((?:{_STEP})+?)\.orValue\(('[^'\\]*'|[\w.+-]+)\)")
_STEPS = re.compile(_STEP)


def without_optionals(expression: str) -> str:
    """The expression with each optional path as a conditional on the presence of all its steps."""
    return _OPTIONAL.sub(_asked, expression) if ".orValue(" in expression else expression


def _asked(found: re.Match[str]) -> str:
    root, steps, absent = found.groups()
    if "?" not in steps:
        return found.group()
    path = root
    there: list[str] = []
    for step in _STEPS.findall(steps):
        after = path + step.replace("?", "", 1) if step[1] == "?" else path + step
        there += _doubts(path, step, after)
        path = after
    return f"({' && '.join(there)} ? {path} : {absent})"


def _doubts(path: str, step: str, after: str) -> Iterator[str]:
    """The condition for a step that may be missing."""
    if step.startswith(".?"):
        yield f"has({after})"
    elif step.startswith("[?"):
        yield f"{step[2:-1]} in {path}"
