"""The plan of one workload: what was decided about it last, kept until the next decision (design 5.6).

The reconcile of the workload makes it, after what it rests on is written. Each worker's outbox compares its part with what
is on that worker, and looks at no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from multikueue.api.meta import Object
from multikueue.api.workload import ATTEMPT_ANNOTATION, Workload
from multikueue.dispatch.group import is_of_attempt
from multikueue.dispatch.slices import NO_SLICE, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What shall be of the workload on one worker. Where nothing is desired, what is there stays as it is."""

    cluster: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent(Desired):
    """None of these: of what comes later, the next plan has to say something."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(Desired):
    """No copy on any other worker, not even one that is still being made. What is `kept` is the same by another name."""

    kept: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Desired):
    """A copy of this attempt, in step with the workload, and nothing of an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Desired):
    """Nothing that runs, nor what cannot run: the worker's Kueue evicts the copy, or it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InStep(Desired):
    """The winner's copy in step with the workload; what runs is never removed for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Desired):
    """The winner's job, with all its parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(Desired):
    """The winner's job, of an elastic workload, as that of this slice in its present size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Desired):
    """Word of a job: of one that was asked for, without an answer, or of which no news come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is desired, of the workload as it was `at` that time.

    `local` is the object as last written (None: it is gone). `choice` is the worker chosen among those that admitted in this
    `attempt`, until that is recorded: news of an earlier admission may come late, and must not turn the choice around. `ready`
    says that somebody has won for good. `lost` are the workers whose job of ours, if they hold one, counts no more.
    """

    local: Workload | None
    attempt: str
    at: datetime
    desired: tuple[Desired, ...] = ()
    choice: str = ""
    ready: bool = False
    slice: Slice = NO_SLICE
    origin: str = "multikueue"
    lost: frozenset[str] = frozenset()

    alone: Alone | None = field(init=False, repr=False, compare=False, default=None)
    _on: dict[str, list[Desired]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.desired:
            if isinstance(each, Alone):
                object.__setattr__(self, "alone", each)
            else:
                self._on.setdefault(each.cluster, []).append(each)

    def on(self, cluster: str) -> Sequence[Desired]:
        return self._on.get(cluster, ())

    def runs_on(self, cluster: str) -> bool:
        return any(isinstance(each, Running) for each in self.on(cluster))

    def is_too_late(self, copy: Workload, cluster: str) -> bool:
        """Whether a copy that the plan knows nothing of is not to be there, as somebody else has won."""
        alone = self.alone
        if alone is None or cluster == alone.cluster or cluster in self._on:
            return False
        return copy.metadata.uid not in alone.kept

    def gives_up(self, copy: Workload, cluster: str) -> bool:
        """Whether that very copy is to go, whatever it says meanwhile."""
        return any(isinstance(each, Absent) and copy.metadata.uid in each.uids for each in self.on(cluster))

    def is_of(self, local: Workload | None) -> bool:
        """Whether it was made for the workload as it is now."""
        if local is None or self.local is None:
            return local is self.local
        mine, other = self.local.metadata, local.metadata
        return (mine.uid, mine.resource_version) == (other.uid, other.resource_version)

    def is_current(self, item: Object | None) -> bool:
        """Whether a remote object belongs to its attempt."""
        return self.local is not None and is_of_attempt(item, self.local, self.attempt)

    def expects(self, copy: Workload, cluster: str) -> bool:
        """Whether a copy that comes there, and says nothing yet, is what it asked for."""
        mark = copy.metadata.annotations.get(ATTEMPT_ANNOTATION)
        wanted = any(isinstance(each, Copied) for each in self.on(cluster))
        return wanted and mark == self.attempt and not copy.status.conditions
