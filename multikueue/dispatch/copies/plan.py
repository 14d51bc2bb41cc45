"""The plan of one workload: its last decision, kept until the next one.

The reconcile of the workload makes it, after the status it rests on is written. Each worker's outbox compares its part
with the objects on that worker. It asks about other workers only before it starts a job (`State.may_run_beside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, Workload
from multikueue.api.meta import Object
from multikueue.dispatch.copies.remote import LOWEST, copy_body
from multikueue.dispatch.remote import Remote, is_of_attempt, is_taken_over
from multikueue.dispatch.slices import NO_SLICE, Slice


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """The desired state of the workload on one worker. Without one, the objects there stay as they are."""

    cluster: str
    why: str


class Absent(Desired, frozen=True, kw_only=True):
    """None of the objects with these UIDs. Objects that come later are left to the next plan."""

    uids: frozenset[str]


class Alone(Desired, frozen=True, kw_only=True):
    """No copy on any other worker, not even one still being created. The UIDs `kept` are the winner's: the same cluster
    may be reached under another name too."""

    kept: frozenset[str]


class Copied(Desired, frozen=True, kw_only=True):
    """A copy of this attempt that matches the workload, and nothing of an earlier attempt. One that `yields` has the lowest
    priority of all as long as it waits."""

    yields: bool = False


class Ungated(Desired, frozen=True, kw_only=True):
    """A copy that may preempt there."""


class Stopped(Desired, frozen=True, kw_only=True):
    """Nothing running: the worker's Kueue evicts a copy that runs; any other copy is deleted."""


class InStep(Desired, frozen=True, kw_only=True):
    """The winner's copy matches the workload; a running copy is never removed for that."""


class Running(Desired, frozen=True, kw_only=True):
    """The winner's job, complete."""


class Scaled(Desired, frozen=True, kw_only=True):
    """The winner's job of an elastic workload, with the marks and present size of this slice."""


class Found(Desired, frozen=True, kw_only=True):
    """A live read of a job, if its creation got no answer, or if it has no events."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The desired states, for the workload as it was `at` that time.

    `local` is the object as last written (None: deleted). `choice` is the worker chosen among those that admitted in
    this `attempt`, until it is recorded: an event of an earlier admission may arrive late, and must not change the
    choice. `is_ready`: a worker has won for good. `lost` are the workers whose job of ours, if they have one, no longer
    counts. `is_gated`: copies are made with a preemption gate, and preempt nothing while it is closed.
    """

    local: Workload | None
    attempt: str
    at: datetime
    desired: tuple[Desired, ...] = ()
    choice: str = ""
    is_ready: bool = False
    slice: Slice = NO_SLICE
    origin: str = "multikueue"
    lost: frozenset[str] = frozenset()
    is_gated: bool = False

    alone: Alone | None = None
    """Computed, as `on`."""
    on: Mapping[str, Sequence[Desired]] = {}
    """What is desired, by cluster."""

    def __post_init__(self) -> None:
        alone: Alone | None = None
        on: dict[str, list[Desired]] = {}
        for each in self.desired:
            if isinstance(each, Alone):
                alone = each
            else:
                on.setdefault(each.cluster, []).append(each)
        msgspec.structs.force_setattr(self, "alone", alone)
        msgspec.structs.force_setattr(self, "on", on)

    @property
    def opening(self) -> str:
        """The worker whose gate it opens; empty if none."""
        return next((each.cluster for each in self.desired if isinstance(each, Ungated)), "")

    @cached_property
    def copy(self) -> dict[str, Any]:
        """The body of each copy that does not yield, for a workload that is there: all workers get the same."""
        return self._copy()

    @cached_property
    def yielding_copy(self) -> dict[str, Any]:
        return self._copy(LOWEST)

    def _copy(self, priority: int | None = None) -> dict[str, Any]:
        assert self.local is not None
        local, mark = self.local, self.attempt
        return copy_body(local, origin=self.origin, attempt=mark, is_gated=self.is_gated, priority=priority)

    def is_running_on(self, cluster: str) -> bool:
        return any(isinstance(each, Running) for each in self.on.get(cluster, ()))

    def is_too_late(self, copy: Workload, cluster: str) -> bool:
        """Whether a copy that is not in the plan must go, since another worker has won."""
        alone = self.alone
        if alone is None or cluster == alone.cluster or cluster in self.on:
            return False
        return copy.metadata.uid not in alone.kept

    def is_given_up(self, copy: Workload, cluster: str) -> bool:
        """Whether the plan removes this copy in any case."""
        return any(isinstance(each, Absent) and copy.metadata.uid in each.uids for each in self.on.get(cluster, ()))

    def is_of(self, local: Workload | None) -> bool:
        """Whether the plan is of this version of the workload."""
        if local is None or self.local is None:
            return local is self.local
        mine, other = self.local.metadata, local.metadata
        return (mine.uid, mine.resource_version) == (other.uid, other.resource_version)

    def is_current(self, item: Object | None, remote: Remote | None = None) -> bool:
        """Whether an object, one of `remote`, belongs to the plan's attempt."""
        if self.local is None:
            return False
        return is_of_attempt(item, self.local, self.attempt) or (
            remote is not None and is_taken_over(item, self.local, self.attempt, remote)
        )

    def is_expected(self, copy: Workload, cluster: str) -> bool:
        """Whether a new copy there, without conditions yet, is one that the plan asked for."""
        mark = copy.metadata.annotations.get(ATTEMPT_ANNOTATION)
        wanted = any(isinstance(each, Copied) for each in self.on.get(cluster, ()))
        return wanted and mark == self.attempt and not copy.status.conditions
