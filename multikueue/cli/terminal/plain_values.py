"""Values of options without pydantic, which typer asks even whether a text is a text.

Loading it takes a sixth of the CPU of a short command. Plain values alone are taken here; the rest, and all messages about
wrong ones, are typer's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import typer.core

__all__ = ["take_plainly"]


def take_plainly() -> None:
    """Let the options and arguments of all commands take plain values as they are."""
    parameters: Any = typer.core._TyperParameter  # private, so tests count what commands load
    typers = parameters.get_runtime_param
    if typers.__module__ == typer.core.__name__:
        parameters.get_runtime_param = lambda parameter: _Plain(parameter, typers)


class _Plain:
    """In the place of typer's way from a word to the value of a parameter, which loads pydantic."""

    def __init__(self, parameter: Any, typers: Callable[[Any], Any]) -> None:
        self._parameter, self._typers = parameter, typers

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind, is_many = param.type_descriptor, param.multiple or param.nargs == -1
        parser = kind.parameter_info.parser
        if value is None:
            return () if is_many else None
        if parser is not None and not is_many:
            with suppress(Exception):
                return parser(value)
        elif type(value) is kind.annotation and _is_plain(value, kind):
            return value
        elif kind.annotation == list[str] and isinstance(value, list | tuple):
            return list(value)
        return self._typers(self._parameter).coerce(value, param=param, ctx=ctx)


def _is_plain(value: object, kind: Any) -> bool:
    if isinstance(value, int):
        least, most = kind.parameter_info.min, kind.parameter_info.max
        return (least is None or value >= least) and (most is None or value <= most)
    return isinstance(value, str) and not kind.is_path
