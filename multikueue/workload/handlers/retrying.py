"""Phases that end the attempt by the check state Retry: the winner was lost, gave up, or there never was one."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FAILED_ON,
    FINISHED,
    FITS_NO_WORKER,
    OUT_OF_SYNC,
    OUT_OF_TIME,
    QUOTA_RESERVED,
    WorkloadStatus,
    without_nomination,
)
from multikueue.api.meta import Condition, with_condition, without_condition
from multikueue.api.values.foreign import answer_or, excerpt
from multikueue.dispatch.remote import Remote
from multikueue.workload import words
from multikueue.workload.case import Case
from multikueue.workload.fit import note
from multikueue.workload.handlers.outcome import Outcome, unchanged, with_check, with_own_condition
from multikueue.workload.nomination.request import failure_note, failures

SHORTEST_ATTEMPT = timedelta(seconds=2)
"""Shortest time from a reservation to Retry: attempts are distinguished by the second of their reservation, which may
come from another clock than ours."""


def winner_lost(case: Case) -> Outcome:
    return retry(case, words.lost(case, case.won.cluster))


def winner_gone(case: Case) -> Outcome:
    if case.winner is None:
        return retry(case, "Admission check is Ready but no admitting cluster is recorded")
    return retry(case, words.gone(case, case.won.cluster))


def declined_by_all(case: Case) -> Outcome:
    names = ", ".join(case.named)
    return retry(case, f'Workload deactivated on worker clusters: "{names}", resetting for re-admission')


def slice_pin_lost(case: Case) -> Outcome:
    return retry(case, words.lost(case, case.slice.stays))


def fits_nowhere(case: Case) -> Outcome:
    """A workload that fits no worker gives its quota back at once. It is retried after its back-off, or as soon as it
    may fit (`fit.may_fit_now`). One event reports it."""
    found = note(case.lacks, case.fleet.missing)
    message = f"No worker can ever hold it: {found}"
    outcome = retry(case, message)
    if outcome.status is None or outcome.status is case.local.status:
        return outcome
    old = case.local.condition(FITS_NO_WORKER)
    known = old if old is not None and old.message == found else None
    since = known.last_transition_time if known is not None else None
    conditions = with_own_condition(
        case, FITS_NO_WORKER, outcome.status.conditions, reason="TooLarge", message=found, since=since or case.now
    )
    status = replace(outcome.status, conditions=conditions)
    events = (Event("Warning", "FitsNoWorker", message),) if known is None else ()
    return replace(outcome, status=status, events=events)


def evicted_remotely(case: Case) -> Outcome:
    evicted = case.won.condition(EVICTED)
    assert evicted is not None
    if evicted.reason == f"{DEACTIVATED}DueTo{OUT_OF_TIME}":
        return _out_of_time(case)
    message = f'Workload evicted on worker cluster: "{case.won.cluster}", resetting for re-admission'
    return retry(case, words.with_state_before(case, message, is_required=True, mark="."), is_complete=True)


def _out_of_time(case: Case) -> Outcome:
    """A worker deactivated its copy for `maximumExecutionTimeSeconds`: deactivate the workload. The worker's clock may
    be ahead of ours, which must not give the job a second run of full length."""
    target = Condition(
        type=DEACTIVATION_TARGET,
        status="True",
        reason=OUT_OF_TIME,
        message="exceeding the maximum execution time",
        observed_generation=case.local.metadata.generation,
    )
    conditions = with_condition(case.local.status.conditions, target, case.now)
    return replace(unchanged(case), status=replace(case.local.status, conditions=conditions))


def out_of_sync(case: Case) -> Outcome:
    """Only Succeeded and Failed are results. A copy that finished for another reason is dispatched again (CX-16)."""
    condition = case.won.condition(FINISHED)
    assert condition is not None
    reason = excerpt(condition.reason)
    how = "is out of sync with its user job" if reason == OUT_OF_SYNC else f"ended as {reason}"
    message = f'Remote workload on worker cluster "{case.won.cluster}" {how}, resetting for re-dispatch'
    differs = _difference(case.won) if reason == OUT_OF_SYNC else ""
    return retry(case, f"{message}: {differs}" if differs else message, type_="Warning")


def _difference(remote: Remote) -> str:
    """What a policy or webhook of the worker has changed in the job, in words; empty if that is not seen."""
    job, copy = remote.job, remote.workload
    if job is None or copy is None:
        return ""
    return excerpt(answer_or(lambda: remote.job_state.difference(job, copy), otherwise=""))


def retry(
    case: Case, message: str, *, type_: Literal["Normal", "Warning"] = "Normal", is_complete: bool = False
) -> Outcome:
    """End the attempt by the check state Retry, not before SHORTEST_ATTEMPT: objects of this attempt must never count
    as those of the next. A message that `is_complete` already has the previous state of the check."""
    if left := _left(case):
        return unchanged(case, after=left)
    text = message if is_complete else words.with_state_before(case, message)
    conditions = without_condition(_with_failure(case), FITS_NO_WORKER)
    status = replace(with_check(case, "Retry", text), conditions=conditions)
    if not case.state:
        status = _without_check(case, status, text)
    return replace(unchanged(case), status=status, events=(Event(type_, "MultiKueue", text),))


def _left(case: Case) -> timedelta:
    """What is left of SHORTEST_ATTEMPT. Who reserved may have a clock ahead of ours by a second or two; one that is
    ahead by more says nothing, and then the attempt counts from the win, which has our own time."""
    reserved = case.local.condition(QUOTA_RESERVED)
    won = case.check_state if case.state == "Ready" else None
    for known in (reserved, won):
        since = known.last_transition_time if known is not None else None
        if since is not None and (left := since + SHORTEST_ATTEMPT - case.now) <= 2 * SHORTEST_ATTEMPT:
            return min(max(left, timedelta()), SHORTEST_ATTEMPT)
    return timedelta()


def _without_check(case: Case, status: WorkloadStatus, text: str) -> WorkloadStatus:
    """Evict a workload whose ClusterQueue dropped our check: no check state would end the attempt."""
    evicted = Condition(
        type=EVICTED,
        status="True",
        reason="AdmissionCheck",
        message=text,
        observed_generation=case.local.metadata.generation,
    )
    conditions = with_condition(status.conditions, evicted, case.now)
    return replace(without_nomination(status), conditions=conditions, cluster_name=None)


def _with_failure(case: Case) -> tuple[Condition, ...]:
    """The conditions with the worker where the attempt failed, so that the strategy can choose another one next
    time."""
    conditions = case.local.status.conditions
    if case.winner is None:
        return conditions
    old = case.local.condition(FAILED_ON)
    note = failure_note(failures(old.message) if old else {}, case.winner.cluster, case.now)
    return with_own_condition(case, FAILED_ON, conditions, reason="AttemptFailed", message=note, since=case.now)
