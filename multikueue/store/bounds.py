"""How long lists and texts of a status may be, as the definitions that are installed have it: learned when one is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar, cast

import msgspec
from msgspec.structs import fields, replace

__all__ = ["Bounds"]

T = TypeVar("T", bound=msgspec.Struct)

_TOO_LONG = re.compile(
    r"status\.([\w.\[\]]+): Too (?:many|long): .*?(?:must have at most|may not be (?:more|longer) than) (\d+)"
)
"""`status.flavorsReservation: Too many: 20: must have at most 16 items`, and the same of texts; several with commas between."""

_INDEX = re.compile(r"\[\d*\]")


class Bounds:
    """By the name of a kind and the path below its status, as `flavorsUsage.[].resources`. A definition that is replaced by one
    with larger bounds counts from the next start on."""

    def __init__(self) -> None:
        self._most: dict[str, dict[tuple[str, ...], int]] = {}

    def learn(self, kind: str, words: str) -> bool:
        """Takes in why the API server refused a status of that kind. Returns whether it said a bound that is news."""
        known = self._most.setdefault(kind, {})
        found = {_path(where): int(most) for where, most in _TOO_LONG.findall(words)}
        news = {path: most for path, most in found.items() if most < known.get(path, most + 1)}
        known |= news
        return bool(news)

    def cut(self, kind: str, status: T) -> tuple[T, tuple[str, ...]]:
        """The status within the known bounds, and in words what it lacks. Lists keep their beginning."""
        lacking: list[str] = []
        for path, most in self._most.get(kind, {}).items():
            shorter = _cut(status, path, most)
            if shorter != status:
                lacking.append(f"{'.'.join(path).replace('.[]', '[]')}: only the first {most}")
                status = cast("T", shorter)
        return status, tuple(lacking)


def _path(where: str) -> tuple[str, ...]:
    return tuple(_INDEX.sub(".[]", where).split("."))


def _cut(value: object, path: Sequence[str], most: int) -> object:
    if not path:
        return value[:most] if isinstance(value, (tuple, str)) else value
    name, *rest = path
    if name == "[]":
        return tuple(_cut(each, rest, most) for each in value) if isinstance(value, tuple) else value
    if not isinstance(value, msgspec.Struct):
        return value
    attribute = next((each.name for each in fields(value) if each.encode_name == name), None)
    return value if attribute is None else replace(value, **{attribute: _cut(getattr(value, attribute), rest, most)})
