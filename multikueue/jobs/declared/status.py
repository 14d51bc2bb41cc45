"""What the status of a declared kind says: that a job is over, say, or that its pods are ready."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from multikueue.api.meta import Condition, encode
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import tree_of

__all__ = ["State", "condition", "state_of", "told"]

Tree = dict[str, Any]

_CONDITION = "status.conditions[type="


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A place that has one of these values; any that is not empty, if none is named.

    `message` is where it is said what happened. It holds only where `given` does too, and not while `unless` does.
    """

    at: str
    values: tuple[Any, ...] = ()
    message: str = ""
    given: State | None = None
    unless: State | None = None

    def holds(self, job: Tree) -> bool:
        if self.given is not None and not self.given.holds(job):
            return False
        if self.unless is not None and self.unless.holds(job):
            return False
        return any(value in self.values if self.values else bool(value) for value in paths.found(job, self.at))

    def paths(self) -> Iterator[str]:
        yield from filter(None, (self.at, self.message))
        for other in (self.given, self.unless):
            yield from other.paths() if other is not None else ()


def condition(type_: str) -> State:
    """That the condition of this type is true."""
    place = f"{_CONDITION}{type_}]"
    return State(at=f"{place}.status", values=("True",), message=f"{place}.message")


def state_of(text: str) -> State | None:
    """A state as settings write it: the type of a condition, or PATH=VALUE|VALUE; None for an empty text."""
    at, is_path, values = text.rpartition("=")
    if not is_path:
        return condition(text) if text else None
    return State(at=at, values=tuple(values.split("|")))


def told(status: Tree, state: State, end: Condition) -> Tree:
    """The status with the words of an end in it, as far as it is clear where they go."""
    if state.given is not None:
        status = told(status, state.given, end)
    if state.unless is not None:
        status = _without(status, state.unless)
    type_ = _type(state)
    if type_:
        said = tree_of(encode(msgspec.structs.replace(end, type=type_, observed_generation=0)))
        status = _without(status, state)
        return status | {"conditions": [*status.get("conditions", ()), said]}
    status = _with(status, state.at, state.values[0])
    return _with(status, state.message, end.message) if state.message else status


def _type(state: State) -> str:
    """The type of the condition that the state is about; empty if it is about something else."""
    return state.at.removeprefix(_CONDITION).partition("]")[0] if state.at.startswith(_CONDITION) else ""


def _without(status: Tree, state: State) -> Tree:
    """The status without the condition that the state is about."""
    kept = [each for each in status.get("conditions") or () if each.get("type") != _type(state)]
    return status | ({"conditions": kept} if "conditions" in status else {})


def _with(status: Tree, path: str, value: Any) -> Tree:
    raw = paths.with_value(msgspec.Raw(encode(status)), paths.keys_of(path)[1:], value)
    return tree_of(encode(raw))
