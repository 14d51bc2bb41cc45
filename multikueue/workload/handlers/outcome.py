"""The result of a handler, and the changes to a status that several handlers make."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import MAX_CONDITIONS, AdmissionCheckState, WorkloadStatus
from multikueue.api.meta import LONGEST_MESSAGE, Condition, without_condition
from multikueue.dispatch.copies.plan import Desired
from multikueue.workload.case import Case
from multikueue.workload.phases import Phase


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided about a workload.

    - `case`, `phase`: on what, and in which phase.
    - `status`: to write if it differs; None: the workload is gone.
    - `should_deactivate`: `spec.active` becomes false once the status is written.
    - `desired`: the desired state on the workers, in order, to carry out once the status is written.
    - `reads`: the workers whose queues are to be read.
    - `priority`: the value for `spec.priority`, which follows its class; None: it stays.
    - `should_release`: our finalizer is to go.
    - `again_after`: when time alone makes another decision due; None: never.
    """

    case: Case
    phase: Phase = Phase.UNREADABLE
    status: WorkloadStatus | None
    should_deactivate: bool = False
    desired: tuple[Desired, ...] = ()
    reads: tuple[str, ...] = ()
    priority: int | None = None
    should_release: bool = False
    again_after: timedelta | None = None
    events: tuple[Event, ...] = ()


def unchanged(case: Case, *, desired: Iterable[Desired] = (), after: timedelta | None = None) -> Outcome:
    status = case.workload.status if case.workload else None
    return Outcome(case=case, status=status, desired=tuple(desired), again_after=after)


def sooner(*waits: timedelta | None) -> timedelta | None:
    """The shortest wait; None if all are None."""
    soonest: timedelta | None = None
    for wait in waits:
        if wait is not None and (soonest is None or wait < soonest):
            soonest = wait
    return soonest


def with_check(case: Case, state: str, message: str, status: WorkloadStatus | None = None) -> WorkloadStatus:
    status, message = status or case.local.status, message[:LONGEST_MESSAGE]

    def changed(old: AdmissionCheckState) -> AdmissionCheckState:
        if old.name != case.check or (old.state == state and old.message == message):
            return old
        since = old.last_transition_time if old.state == state else case.now.replace(microsecond=0)
        return msgspec.structs.replace(
            old, state=state, message=message, last_transition_time=since, requeue_after_seconds=None
        )

    return msgspec.structs.replace(status, admission_checks=tuple(map(changed, status.admission_checks)))


def with_own_condition(
    case: Case, type_: str, conditions: tuple[Condition, ...], *, reason: str, message: str, since: datetime
) -> tuple[Condition, ...]:
    """`conditions` with one of our own, unless MAX_CONDITIONS are used up: conditions of others matter more."""
    others = without_condition(conditions, type_)
    if len(others) >= MAX_CONDITIONS:
        return others
    new = Condition(
        type=type_,
        status="True",
        reason=reason,
        message=message,
        last_transition_time=since.replace(microsecond=0),
        observed_generation=case.local.metadata.generation,
    )
    return conditions if new in conditions else (*others, new)
