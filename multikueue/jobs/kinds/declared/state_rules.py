"""The states that a declared kind reads from a job's status: an end, for example, or that the pods are ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from multikueue.api.meta import Condition, encode
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import tree_of

__all__ = ["StateRule", "condition", "state_of", "with_end"]

Tree = dict[str, Any]

_CONDITION = "status.conditions[type="


class StateRule(msgspec.Struct, frozen=True, kw_only=True):
    """A path whose value is one of `values`, or any non-empty value if there are no `values`.

    `message` is the path of the explanation, `words` the explanation of a kind that gives none. The state holds only if
    `given` holds too, and `unless` does not.
    """

    at: str
    values: tuple[Any, ...] = ()
    message: str = ""
    words: str = ""
    given: StateRule | None = None
    unless: StateRule | None = None

    def is_true(self, job: Tree) -> bool:
        if self.given is not None and not self.given.is_true(job):
            return False
        if self.unless is not None and self.unless.is_true(job):
            return False
        return any(value in self.values if self.values else bool(value) for value in paths.found(job, self.at))

    def paths(self) -> Iterator[str]:
        yield from filter(None, (self.at, self.message))
        for other in (self.given, self.unless):
            yield from other.paths() if other is not None else ()


def condition(type_: str) -> StateRule:
    """The state that the condition of this type is True."""
    place = f"{_CONDITION}{type_}]"
    return StateRule(at=f"{place}.status", values=("True",), message=f"{place}.message")


def state_of(text: str) -> StateRule | None:
    """A state as settings write it: the type of a condition, or PATH=VALUE|VALUE; None for an empty text."""
    at, is_path, values = text.rpartition("=")
    if not is_path:
        return condition(text) if text else None
    return StateRule(at=at, values=tuple(values.split("|")))


def with_end(status: Tree, state: StateRule, end: Condition) -> Tree:
    """The status with an end written into it, as far as the state says where."""
    if state.given is not None:
        status = with_end(status, state.given, end)
    if state.unless is not None:
        status = _without(status, state.unless)
    type_ = _type(state)
    if type_:
        said = tree_of(encode(msgspec.structs.replace(end, type=type_, observed_generation=0)))
        if state.at.endswith(".reason"):  # why what the condition promises will not come
            said |= {"status": "False", "reason": state.values[0]}
        status = _without(status, state)
        return status | {"conditions": [*status.get("conditions", ()), said]}
    status = _with(status, state.at, state.values[0])
    return _with(status, state.message, end.message) if state.message else status


def _type(state: StateRule) -> str:
    """The type of the condition that the state reads; empty if it reads something else."""
    return state.at.removeprefix(_CONDITION).partition("]")[0] if state.at.startswith(_CONDITION) else ""


def _without(status: Tree, state: StateRule) -> Tree:
    """The status without the condition that the state reads."""
    kept = [each for each in status.get("conditions") or () if each.get("type") != _type(state)]
    return status | ({"conditions": kept} if "conditions" in status else {})


def _with(status: Tree, path: str, value: Any) -> Tree:
    raw = paths.with_value(msgspec.Raw(encode(status)), paths.keys_of(path)[1:], value)
    return tree_of(encode(raw))
