"""Bundles of options: what several commands ask alike, and what belongs together, is one value of a command's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, get_type_hints

__all__ = ["bundled"]


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a dataclass replaced by that class's fields, in its place.

    Typer reads options from a signature, and knows no bundles. The fields are annotated as parameters are, and their names
    must not occur twice.
    """
    parameters: list[inspect.Parameter] = []
    bundles: dict[str, tuple[type[Any], list[str]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(parameter)
            continue
        hints = get_type_hints(kind, include_extras=True)
        fields = [each.replace(annotation=hints[each.name]) for each in inspect.signature(kind).parameters.values()]
        bundles[parameter.name] = (kind, [each.name for each in fields])
        parameters += fields

    @wraps(command)
    def expanded(**given: Any) -> None:
        made = {name: of(**{each: given.pop(each) for each in names}) for name, (of, names) in bundles.items()}
        command(**given, **made)

    keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    expanded.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded
