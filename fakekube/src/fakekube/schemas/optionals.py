"""CEL's optional fields, `object.?spec.?size.orValue(1)`, in the words of the CEL that knows none.

Plain paths of fields and keys with a plain value for what is absent are known: no calls within, and nothing but `orValue`
at the end. Whatever else there is stays as it is, and compiling it says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["without_optionals"]

_STEP = r"\.\??[A-Za-z_]\w*|\[\??'[^'\\]*'\]"
_OPTIONAL = re.compile(rf"\b([A-Za-z_]\w*)((?:{_STEP})+?)\.orValue\(('[^'\\]*'|[\w.+-]+)\)")
_STEPS = re.compile(_STEP)


def without_optionals(expression: str) -> str:
    """The expression with each optional path as a question whether all of it is there."""
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
    """What must hold so that the step can be taken, if that is in doubt."""
    if step.startswith(".?"):
        yield f"has({after})"
    elif step.startswith("[?"):
        yield f"{step[2:-1]} in {path}"
