"""The plan of one workload: its last decision, kept until the next one (design 5.6).

The reconcile of the workload makes it, after the status it rests on is written. Each worker's outbox compares its part
with the objects on that worker, and reads no other worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, Workload
from multikueue.api.meta import Object
from multikueue.dispatch.group.group import is_of_attempt
from multikueue.dispatch.group.slices import NO_SLICE, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The desired state of the workload on one worker. Without one, the objects there stay as they are."""

    cluster: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent(Desired):
    """None of the objects with these UIDs. Objects that come later are left to the next plan."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(Desired):
    """No copy on any other worker, not even one still being created. The UIDs `kept` are the winner's: the same cluster
    may be reached under another name too."""

    kept: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Desired):
    """A copy of this attempt that matches the workload, and nothing of an earlier attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungated(Desired):
    """A copy that may preempt there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Desired):
    """Nothing running: the worker's Kueue evicts a copy that runs; any other copy is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InStep(Desired):
    """The winner's copy matches the workload; a running copy is never removed for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Desired):
    """The winner's job, complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(Desired):
    """The winner's job of an elastic workload, with the marks and present size of this slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Desired):
    """A live read of a job: one whose creation got no answer, or one without events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The desired states, for the workload as it was `at` that time.

    `local` is the object as last written (None: deleted). `choice` is the worker chosen among those that admitted in
    this `attempt`, until it is recorded: an event of an earlier admission may arrive late, and must not change the
    choice. `is_ready`: a worker has won for good. `lost` are the workers whose job of ours, if they have one, no longer
    counts. `is_gated`: copies are made behind a gate, where they preempt nobody.
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

    alone: Alone | None = field(init=False, repr=False, compare=False, default=None)
    _on: dict[str, list[Desired]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.desired:
            if isinstance(each, Alone):
                object.__setattr__(self, "alone", each)
            else:
                self._on.setdefault(each.cluster, []).append(each)

    @property
    def opening(self) -> str:
        """The worker whose gate it opens; empty if none."""
        return next((each.cluster for each in self.desired if isinstance(each, Ungated)), "")

    def on(self, cluster: str) -> Sequence[Desired]:
        return self._on.get(cluster, ())

    def is_running_on(self, cluster: str) -> bool:
        return any(isinstance(each, Running) for each in self.on(cluster))

    def is_too_late(self, copy: Workload, cluster: str) -> bool:
        """Whether a copy that is not in the plan must go, since another worker has won."""
        alone = self.alone
        if alone is None or cluster == alone.cluster or cluster in self._on:
            return False
        return copy.metadata.uid not in alone.kept

    def is_given_up(self, copy: Workload, cluster: str) -> bool:
        """Whether the plan removes this very copy, whatever its status becomes."""
        return any(isinstance(each, Absent) and copy.metadata.uid in each.uids for each in self.on(cluster))

    def is_of(self, local: Workload | None) -> bool:
        """Whether the plan is of this version of the workload."""
        if local is None or self.local is None:
            return local is self.local
        mine, other = self.local.metadata, local.metadata
        return (mine.uid, mine.resource_version) == (other.uid, other.resource_version)

    def is_current(self, item: Object | None) -> bool:
        """Whether a remote object belongs to the plan's attempt."""
        return self.local is not None and is_of_attempt(item, self.local, self.attempt)

    def is_expected(self, copy: Workload, cluster: str) -> bool:
        """Whether a new copy there, without conditions yet, is one that the plan asked for."""
        mark = copy.metadata.annotations.get(ATTEMPT_ANNOTATION)
        wanted = any(isinstance(each, Copied) for each in self.on(cluster))
        return wanted and mark == self.attempt and not copy.status.conditions
