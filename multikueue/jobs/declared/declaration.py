"""What is said of a kind of jobs that needs no code: where in the object things are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from multikueue.jobs.declared.pod_sets import PodsOf
from multikueue.jobs.declared.status import State
from multikueue.jobs.framework.adapter import Runtimes
from multikueue.jobs.trees import paths

__all__ = ["Declaration", "Rule"]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """That a job in a queue must not be in this state (or must, if it is `needed`), and why, for its user."""

    state: State
    why: str
    needed: bool = False

    def problem(self, job: Tree) -> str | None:
        return f"{self.state.at}: {self.why}" if self.state.holds(job) != self.needed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One kind. All paths start at the object.

    `framework` is the name of its integration in Kueue's configuration; `managers` are the values of managedBy that nobody
    chose; a kind that has no managedBy, `managed_by` empty, is always ours, so its own controller must not run here.
    `succeeded` and `failed` say when it is over; `active_counts` count the pods that run, `active_states` say that
    some do. Its pods are all ready in the state `ready`, or when the `ready_counts` together reach the sum of what is found
    at `ready_of`; where nothing is said of it, as soon as something runs. `priority` is where a PriorityClass is named,
    before those of the pods count. `dropped` is what no copy gets. `rules` are what the webhook holds a job in a queue to.
    `runtimes`: where its jobs only name what says what their pods are like.
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
    succeeded: State | None = None
    failed: State | None = None
    active_counts: tuple[str, ...] = ()
    active_states: tuple[State, ...] = ()
    ready: State | None = None
    ready_counts: tuple[str, ...] = ()
    ready_of: str = ""
    priority: str = ""
    dropped: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    runtimes: Runtimes | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for what is no path."""
        for path in (self.suspend, *filter(None, (self.managed_by,)), *self.dropped):
            if paths.keys_of(path)[0] != "spec":
                raise ValueError(f"expected a field of the spec, got {path}")
        for path in self._paths():
            paths.only({}, path)

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
