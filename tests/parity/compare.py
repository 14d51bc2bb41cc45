"""Where what was decided is not what the story expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.parity.story import Object, Step

NOTHING = object()

WORDS = {"workloads": "workload", "clusterQueues": "ClusterQueue", "localQueues": "LocalQueue", "cohorts": "Cohort"}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One field of one object after a step, which counts from 1. `is_hint`: it does not count."""

    story: str
    step: int
    action: str
    object: str
    field: str
    expected: Any
    got: Any
    is_hint: bool = False

    def __str__(self) -> str:
        where = f"{self.story}, step {self.step} ({self.action}), {self.object}, {self.field}"
        return f"{'hint: ' if self.is_hint else ''}{where}: expected {_shown(self.expected)}, got {_shown(self.got)}"


def _shown(value: Any) -> str:
    return "nothing" if value is NOTHING else msgspec.json.encode(value).decode()


def differences(expected: Object, got: Object) -> Iterator[tuple[str, str, Any, Any]]:
    """Object, field, what is expected and what there is, in the order of kinds, names and fields."""
    for kind, word in WORDS.items():
        wanted, found = expected.get(kind, {}), got.get(kind, {})
        if kind == "cohorts":  # told only where they have a share
            found = {name: told for name, told in found.items() if told or name in wanted}
        for name in sorted(wanted.keys() | found.keys()):
            for field, one, other in _fields(kind, wanted.get(name), found.get(name)):
                yield f"{word} {name}", field, one, other


def _fields(kind: str, wanted: Object | None, found: Object | None) -> Iterator[tuple[str, Any, Any]]:
    if wanted is None or found is None:
        yield "exists", wanted is not None, found is not None
        return
    if kind == "clusterQueues":  # usage is told only where it differs
        wanted = {"usage": wanted.get("reservation", {}), **wanted}
    if kind == "localQueues" and "active" not in wanted:
        found = {field: value for field, value in found.items() if field != "active"}
    one, other = dict(_leaves(wanted)), dict(_leaves(found))
    for field in dict.fromkeys((*one, *other)):
        if one.get(field, NOTHING) != other.get(field, NOTHING):
            yield field, one.get(field, NOTHING), other.get(field, NOTHING)


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, f"{path}{key}.")
        else:
            yield f"{path}{key}", inner


def disagreements(
    story: str, number: int, step: Step, *, got: Object, completed: tuple[str, ...], messages: Mapping[str, str]
) -> Iterator[Disagreement]:
    """After one step: what was decided, whose evictions there were to complete, and last, as hints, the texts."""
    if step.completed is not None and completed != step.completed:
        yield Disagreement(story, number, step.action, "evictions", "completed", step.completed, completed)
    for item, field, one, other in differences(step.expect, got):
        yield Disagreement(story, number, step.action, item, field, one, other)
    for name, text in step.messages.items():
        if (ours := messages.get(name, NOTHING)) != text:
            yield Disagreement(story, number, step.action, f"workload {name}", "message", text, ours, is_hint=True)
