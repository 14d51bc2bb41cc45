"""Deviations of a simulated Kueue from one that has room, admits at once and evicts no workload.

A question about a workload is repeated, also by the next process after a crash, and must get the same answer each time.
So answers depend only on the workload, and random ones on its UID.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    AdmissionCheckState,
    CheckState,
    Workload,
    WorkloadStatus,
    put_condition,
)
from multikueue.workload.life.transitions import evict

__all__ = [
    "PROMPT",
    "Behaviour",
    "CheckAnswer",
    "CheckRule",
    "Delay",
    "Scripted",
    "always",
    "drawn",
    "held_until",
    "scripted",
]

Delay = Callable[[Workload], timedelta]

_ZERO = timedelta()
_PREEMPTION = (
    "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to prioritization in the ClusterQueue"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """The answer of an admission check's controller for a workload, and its delay."""

    after: timedelta = _ZERO
    state: CheckState = "Ready"
    message: str = ""
    requeue_after_seconds: int | None = None


CheckRule = Callable[[Workload, str], CheckAnswer]
"""Called with the workload and the name of the check."""


def always(delay: timedelta) -> Delay:
    """A delay that is equal for all workloads."""
    return lambda _workload: delay


def drawn(seed: int, *, shortest: timedelta, longest: timedelta) -> Delay:
    """A delay uniformly distributed from `shortest` to `longest`, for each workload and each of its attempts."""

    def delay(workload: Workload) -> timedelta:
        stats = workload.status.scheduling_stats
        attempt = sum(eviction.count for eviction in stats.evictions) if stats else 0
        luck = random.Random(f"{seed}/{workload.metadata.uid}/{attempt}")  # noqa: S311  # not a secret
        return shortest + (longest - shortest) * luck.random()

    return delay


def _at_once(_workload: Workload) -> timedelta:
    return _ZERO


def _admits(_workload: Workload) -> str:
    return ""


def _never(_workload: Workload) -> timedelta | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The acts of a simulated Kueue beyond quota, queues and users.

    - `admission_delay`: time from a workload's creation or last requeueing until it is considered;
    - `refusal`: the reason to refuse available quota; empty: no refusal;
    - `preempted_after`: time from admission until the workload is preempted; None: never;
    - `checks`: answers of the controllers of admission checks, by the controller's name; these checks become active
      too. Checks of other controllers are left to them;
    - `cannot_clear`: fields of a Workload's status that another client applies as well, so that leaving them out clears
      nothing.
    """

    admission_delay: Delay = _at_once
    refusal: Callable[[Workload], str] = _admits
    preempted_after: Callable[[Workload], timedelta | None] = _never
    checks: Mapping[str, CheckRule] = field(default_factory=dict)
    cannot_clear: frozenset[str] = frozenset()


PROMPT = Behaviour()


def held_until(workload: Workload, behaviour: Behaviour) -> datetime | None:
    """The time before which a pending workload is not considered; None: no wait."""
    delay = behaviour.admission_delay(workload)
    if not delay or workload.has(QUOTA_RESERVED) or workload.has(FINISHED):
        return None
    requeued = workload.condition(REQUEUED)
    since = requeued.last_transition_time if requeued else workload.metadata.creation_timestamp
    return since + delay if since else None


@dataclass(frozen=True, slots=True)
class Scripted:
    """A status after the scripted acts, and the time of the next one: now, if this one changed anything."""

    status: WorkloadStatus
    due: datetime | None = None


def scripted(workload: Workload, behaviour: Behaviour, controllers: Mapping[str, str], now: datetime) -> Scripted:
    """Scripted acts of other controllers on a workload. `controllers` has the controller of each admission check."""
    if workload.has(FINISHED) or workload.has(EVICTED) or not workload.has(QUOTA_RESERVED):
        return Scripted(workload.status)
    dues: list[datetime] = []
    status = workload.status
    if behaviour.checks:
        checks = tuple(_answered(workload, c, behaviour, controllers, now, dues) for c in status.admission_checks)
        status = status if checks == status.admission_checks else replace(status, admission_checks=checks)
    after, admitted = behaviour.preempted_after(workload), workload.condition(ADMITTED)
    runs = admitted is not None and admitted.status == "True"
    if after is not None and admitted and runs and _is_over(admitted.last_transition_time, after, now, dues):
        status = _preempted(workload, status, now)
    if status is not workload.status:
        dues.append(now)
    return Scripted(status, min(dues, default=None))


def _answered(
    workload: Workload,
    check: AdmissionCheckState,
    behaviour: Behaviour,
    controllers: Mapping[str, str],
    now: datetime,
    dues: list[datetime],
) -> AdmissionCheckState:
    rule = behaviour.checks.get(controllers.get(check.name, ""))
    if rule is None or check.state != "Pending":
        return check
    answer = rule(workload, check.name)
    if not _is_over(check.last_transition_time, answer.after, now, dues):
        return check
    return replace(
        check,
        state=answer.state,
        message=answer.message,
        requeue_after_seconds=answer.requeue_after_seconds,
        last_transition_time=now.replace(microsecond=0),
    )


def _preempted(workload: Workload, status: WorkloadStatus, now: datetime) -> WorkloadStatus:
    generation = workload.metadata.generation
    status = evict(status, reason=PREEMPTED, message=_PREEMPTION, generation=generation, now=now)
    return put_condition(
        status, PREEMPTED, "True", reason="InClusterQueue", message=_PREEMPTION, generation=generation, now=now
    )


def _is_over(since: datetime | None, span: timedelta, now: datetime, dues: list[datetime]) -> bool:
    """Whether a span of time is over; if not, add its end to `dues`."""
    if since is None or since + span <= now:
        return True
    dues.append(since + span)
    return False
