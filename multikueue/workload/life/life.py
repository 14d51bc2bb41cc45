"""The next status of a workload, in the making.

A rule is a function of one of these: it looks at the status as it is so far, and may replace it. `workload.life.rules` has them
in their order, so that several changes end in one write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FITS_NO_WORKER,
    OWNER_NOT_FOUND,
    QUOTA_RESERVED,
    Finish,
    WorkloadSpec,
    WorkloadStatus,
    put_condition,
)
from multikueue.api.meta import find_condition
from multikueue.workload import fit
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import DecisionRules
from multikueue.workload.handlers.doubts import may_hold_unseen
from multikueue.workload.handlers.evicting import is_holding
from multikueue.workload.life import transitions

__all__ = ["Life"]

_EVENT_LENGTH = 1024
"""Characters in the message of an Event, as in Kueue (quota-engine 3.1)."""
_FIRST_LOOK = timedelta(seconds=2)
"""The time after its creation in which a workload is usually judged; one behind the head of its queue may never be."""


ORPHANED = Finish(reason=OWNER_NOT_FOUND, message="The workload's owner no longer exists")
"""The end of a workload whose job is gone, in Kueue's words, once nothing of it runs on a worker any more."""


@dataclass(slots=True)
class Life:
    """`due`: when time alone makes another look due. `deactivate`: `spec.active` becomes false once the status is written.
    `rules`, `now` and `generation` are the case's."""

    case: Case
    spec: WorkloadSpec
    status: WorkloadStatus
    rules: DecisionRules
    now: datetime
    generation: int
    deactivate: bool = False
    due: list[datetime] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def is_holding(self) -> bool:
        """Whether something of the workload runs, or may: until that ends an evicted workload keeps its quota."""
        return self.case.job.may_run or is_holding(self.case)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The nominated workers that were not seen since the start of the process, and are not lost."""
        may_hold = {remote.cluster for remote in self.case.remotes if may_hold_unseen(self.case, remote)}
        return tuple(name for name in self.status.nominated_cluster_names if name in may_hold)

    @property
    def end(self) -> Finish | None:
        """How the workload has ended, if it has. A job starts once its workload is admitted, so it cannot fail to before."""
        job, local = self.case.job, self.case.local
        if told := job.finished or (job.failed_start(local) if ADMITTED in self.case.true else None):
            return told
        is_over = job.is_let_go and self.rules.compatibility.has_orphan_ends and not self.is_holding
        return ORPHANED if is_over else None

    @property
    def may_fit_now(self) -> bool:
        """Whether it is held back since it fits no worker, and that may have changed, so its wait is over."""
        if FITS_NO_WORKER not in self.case.true or QUOTA_RESERVED in self.case.true:
            return False
        return fit.may_fit_now(self.case.local, self.case.shown.usable, has_news=self.case.has_ceiling_news)

    @property
    def requeue_at(self) -> datetime | None:
        state = self.status.requeue_state
        return state.requeue_at if state is not None else None

    @property
    def first_look_until(self) -> datetime | None:
        created = self.case.local.metadata.creation_timestamp
        return created + _FIRST_LOOK if created else None

    def has(self, type_: str) -> bool:
        for condition in self.status.conditions:  # as `is_true`, on the spot
            if condition.type == type_:
                return condition.status == "True"
        return False

    def is_waiting_for(self, when: datetime | None) -> bool:
        """Whether that time is still to come; if so, another look is due then."""
        if when is None or when <= self.now:
            return False
        self.due.append(when)
        return True

    def put(self, type_: str, value: Literal["True", "False"], *, reason: str, message: str) -> None:
        self.status = put_condition(
            self.status, type_, value, reason=reason, message=message, generation=self.generation, now=self.now
        )

    def evict(self, reason: str, message: str, *, cause: str = "") -> None:
        self.status = transitions.evict(
            self.status,
            reason=reason,
            message=message,
            cause=cause,
            unseen=self.unseen,
            generation=self.generation,
            now=self.now,
        )
        evicted = find_condition(self.status.conditions, EVICTED)
        assert evicted is not None
        self.tell("Normal", f"EvictedDueTo{evicted.reason}", message)

    def target(self, reason: str, message: str, *, event: str = "") -> None:
        """Have the workload deactivated. The condition keeps the reason, and makes sure that it happens even after a
        crash."""
        self.put(DEACTIVATION_TARGET, "True", reason=reason, message=message)
        self.deactivate = True
        if event:
            self.tell("Warning", event, message)

    def tell(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.events.append(Event(type_, reason, message[:_EVENT_LENGTH]))

    def seconds_since(self, since: datetime | None) -> int:
        return max(0, int((self.now - since).total_seconds())) if since else 0
