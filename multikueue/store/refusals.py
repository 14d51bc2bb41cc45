"""What API servers refuse, or leave without an answer, try after try: reported once, and counted while it lasts.

Where a status is refused for its length, the bound of its definition is learned, and the next one is cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import fields, replace

from multikueue.api.meta import ObjectKey

__all__ = ["LASTING", "Bounds", "Refusal", "Refusals", "StatusKey"]

LASTING = timedelta(seconds=30)
"""From when on it is reported that a write fails which may succeed at the next try."""

TOLD_AGAIN = timedelta(minutes=50)
"""When the same is reported again: an API server keeps events for an hour, and commands read them."""


class StatusKey(NamedTuple):
    """The key of the status of an object of that kind (`Kind.name`)."""

    kind: str
    key: ObjectKey


class Refusal(msgspec.Struct, frozen=True):
    """Since when a write fails, what it is, the latest words, and when they were last reported; None: not yet."""

    since: datetime
    what: str
    words: str
    told: datetime | None = None

    @property
    def is_told(self) -> bool:
        return self.told is not None


class Refusals:
    """By the key of what is written, and the cluster (empty: the manager's)."""

    def __init__(self) -> None:
        self._of: dict[Hashable, dict[str, Refusal]] = {}

    def fails(self, key: Hashable, what: str, why: str, now: datetime, *, cluster: str = "", is_sure: bool) -> bool:
        """A write fails. Returns whether to report them: they are new, or were reported long ago.
        `is_sure`: the same write would fail again; else it is reported once that lasts."""
        before, words = self.get(key, cluster=cluster), f"{what}: {why}"
        if before is None or before.what != what:
            before = Refusal(now, what, words)
        is_due = is_sure or before.is_told or now >= before.since + LASTING
        is_news = before.told is None or before.words != words or now >= before.told + TOLD_AGAIN
        told = now if is_due and is_news else before.told
        self._of.setdefault(key, {})[cluster] = Refusal(before.since, what, words, told)
        return is_due and is_news

    def get(self, key: Hashable, *, cluster: str = "") -> Refusal | None:
        found = self._of.get(key)
        return found.get(cluster) if found else None

    def told(self, key: Hashable, cluster: str) -> str:
        """The words that were reported of that cluster; empty if none were."""
        found = self.get(key, cluster=cluster) if self._of else None
        return found.words if found is not None and found.is_told else ""

    def over(self, key: Hashable, *, cluster: str = "", what: str = "") -> bool:
        """The write (empty: whichever) succeeded, or is not wanted any more. Returns whether its failure had been reported."""
        ended = self.get(key, cluster=cluster) if self._of else None
        if ended is None or what not in ("", ended.what):
            return False
        del self._of[key][cluster]
        if not self._of[key]:
            del self._of[key]
        return ended.is_told

    def clusters(self, key: Hashable) -> tuple[str, ...]:
        """Where writes of that key fail."""
        return tuple(self._of.get(key, ())) if self._of else ()

    def count(self, now: datetime) -> Counter[tuple[str, str]]:
        """The number of failures that are sure or last, by the kind of key, and cluster."""
        return Counter(
            ("workload" if cluster else "status" if isinstance(key, StatusKey) else "job", cluster)
            for key, found in self._of.items()
            for cluster, each in found.items()
            if each.is_told or now >= each.since + LASTING
        )


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
        said = _TOO_LONG.findall(words)
        found = {tuple(_INDEX.sub(".[]", where).split(".")): int(most) for where, most in said}
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
