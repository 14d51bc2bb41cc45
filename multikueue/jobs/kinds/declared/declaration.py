"""The declaration of a job kind that needs no code: where the fields are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from multikueue.jobs.framework.adapter import Runtimes
from multikueue.jobs.kinds.declared.pod_sets import PodsOf
from multikueue.jobs.kinds.declared.state_rules import StateRule
from multikueue.jobs.trees import paths

__all__ = ["Declaration", "Rule", "Sized"]

Tree = dict[str, Any]


class Rule(msgspec.Struct, frozen=True):
    """A state that a job in a queue must not have (or must have, if `is_needed`), and the reason, for its user."""

    state: StateRule
    why: str
    is_needed: bool = False

    def problem(self, job: Tree) -> str | None:
        return f"{self.state.at}: {self.why}" if self.state.is_true(job) != self.is_needed else None


class Sized(msgspec.Struct, frozen=True):
    """The parts of a job whose size may change while it runs: a list, the field that names each item, and those that say
    how large it is."""

    at: str
    name_at: str
    fields: tuple[str, ...]

    def patch(self, ours: Tree, theirs: Tree) -> Tree:
        """The merge patch that gives the second object the sizes of the first; empty if it has them."""
        keys = paths.keys_of(self.at)
        wanted = {each.get(self.name_at): each for each in paths.found(ours, f"{self.at}[*]") if isinstance(each, dict)}
        found = list(paths.found(theirs, f"{self.at}[*]"))
        resized = [self._resized(each, wanted) for each in found]
        return {} if resized == found else paths.nested(keys, resized)

    def _resized(self, item: Any, wanted: dict[Any, Tree]) -> Any:
        if not isinstance(item, dict) or item.get(self.name_at) not in wanted:
            return item
        ours = wanted[item[self.name_at]]
        size = {field: ours[field] for field in self.fields if field in ours}
        return {key: value for key, value in item.items() if key not in self.fields or key in size} | size


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. All paths start at the object.

    `framework` is the name of its integration in Kueue's configuration. `managers` are the values of managedBy that are
    no choice of the user. A kind without managedBy, `managed_by` empty, is always managed by us, so its own controller
    must not run on the manager cluster. `succeeded` and `failed` are its ends; `active_counts` count the running pods,
    `active_states` show that some run. All pods are ready in the state `ready`, or when the sum of the `ready_counts`
    reaches the sum of the values at `ready_of`; without either, as soon as some run. `priority` is the path of a
    PriorityClass that takes precedence over those of the pods. `dropped` fields, and items of lists, are left out of the
    copy. `rules` are checked by the webhook for a job in a queue. `runtimes` describes the pods of jobs that only name such
    an object. `sized` is what may change while a job runs, where Kueue makes slices of it. `why_one_place` is why a queue whose
    workers are others and the manager cluster can have no jobs of it (`Adapter.why_one_place`).
    """

    framework: str
    group: str
    version: str
    plural: str
    kind: str
    pods: tuple[PodsOf, ...]
    suspend: str = "spec.suspend"
    managed_by: str = "spec.managedBy"
    managers: tuple[str, ...] = ()
    succeeded: StateRule | None = None
    failed: StateRule | None = None
    active_counts: tuple[str, ...] = ()
    active_states: tuple[StateRule, ...] = ()
    ready: StateRule | None = None
    ready_counts: tuple[str, ...] = ()
    ready_of: str = ""
    priority: str = ""
    dropped: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    runtimes: Runtimes | None = None
    sized: Sized | None = None
    why_one_place: str = "nobody has said that its controller leaves a suspended job alone that ends on a worker"

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid path."""
        fields = (self.suspend, *filter(None, (self.managed_by,)))
        places = {path: paths.keys_of(path) for path in fields} | {path: paths.place_of(path) for path in self.dropped}
        for path, place in places.items():
            if place[0] != "spec" or len(place) == 1:
                raise ValueError(f"expected a field of the spec, got {path}")
        for path in self._paths():
            paths.only({}, path)
        for rule in self.rules:
            if not rule.state.at.startswith("spec."):
                raise ValueError(f"expected a field of the spec, got {rule.state.at}")

    def _paths(self) -> Iterator[str]:
        for pods in self.pods:
            yield from pods.paths()
        for state in (
            self.succeeded,
            self.failed,
            self.ready,
            *self.active_states,
            *(rule.state for rule in self.rules),
        ):
            yield from state.paths() if state is not None else ()
        yield from (*self.active_counts, *self.ready_counts)
        yield from filter(None, (self.priority, self.ready_of))
