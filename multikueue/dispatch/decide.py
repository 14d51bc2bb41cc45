"""The decision on one workload (contract 3): one file, a function for each phase.

A decision is the new local status, and the desired state on each worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from multikueue.api.event import Event
from multikueue.api.foreign import excerpt, moment
from multikueue.api.meta import LONGEST_MESSAGE, Condition, find_condition, with_condition, without_condition
from multikueue.api.workload import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FAILED_ON,
    FINISHED,
    FITS_NO_WORKER,
    MAX_CONDITIONS,
    NOMINATED,
    OUT_OF_SYNC,
    OUT_OF_TIME,
    QUOTA_RESERVED,
    Admission,
    AdmissionCheckState,
    WorkloadStatus,
    without_nomination,
)
from multikueue.dispatch import preemption_gates, words
from multikueue.dispatch.consult import Answer
from multikueue.dispatch.fit import lacks, note
from multikueue.dispatch.group import MAX_NOMINATED, Group, Remote
from multikueue.dispatch.patience import gives_up_at, gives_up_for
from multikueue.dispatch.phases import Phase, View, has_won, named_clusters, phase_of, view
from multikueue.dispatch.plan import (
    Absent,
    Alone,
    Copied,
    Desired,
    Found,
    InStep,
    Plan,
    Running,
    Scaled,
    Stopped,
    Ungated,
)
from multikueue.dispatch.question import failure_note, failures, usable
from multikueue.strategy import Nomination

ASKED_AGAIN = timedelta(seconds=1)
"""Shortest wait before a worker counts as lost: it is asked once more first, and may not have answered yet."""

SHORTEST_ATTEMPT = timedelta(seconds=2)
"""Shortest time from a reservation to Retry: attempts are distinguished by the second of their reservation, which may
come from another clock than ours."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""Time of an event without a timestamp: its waits are over."""

STUCK_AFTER = timedelta(seconds=5)
"""How long a copy must be inadmissible on its worker before the workload says so."""


HELD_UP_AFTER = timedelta(minutes=1)
"""How long a job's deletion, or the end of its pods, may take before the workload reports what it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The desired local status (None if the workload is gone); the desired state on the workers, in order, to carry out
    once that status is written; and when to decide again."""

    status: WorkloadStatus | None
    desired: tuple[Desired, ...] = ()
    again_after: timedelta | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Outcome):
    """An outcome, with the phase that it was decided in."""

    phase: Phase


def decide(group: Group, now: datetime) -> Decision:
    """Decide on a workload's group. Idempotent: another decision on the result changes nothing."""
    seen = view(group, now)
    phase = phase_of(seen)
    outcome = HANDLERS[phase](seen)
    if phase is not Phase.UNREADABLE and any(remote.asked is not None for remote in group.remotes):
        outcome = _with_questions(outcome, group, now)
    return _decision(phase, outcome)


def _decision(phase: Phase, outcome: Outcome) -> Decision:
    return Decision(
        phase=phase,
        status=outcome.status,
        desired=outcome.desired,
        again_after=outcome.again_after,
        events=outcome.events,
    )


def plan(group: Group, decision: Decision, now: datetime) -> Plan:
    """The plan of a decision whose status is written; `group` has the workload with that status."""
    local = group.local
    recorded = local is None or bool(local.status.cluster_name and not group.slice.stays)
    return Plan(
        local=local,
        attempt=group.attempt,
        at=now,
        desired=decision.desired,
        choice="" if recorded else group.choice,
        ready=has_won(group),
        slice=group.slice,
        origin=group.origin,
        lost=frozenset(r.cluster for r in group.remotes if r.lost(now, group.lost_after)),
        gated=group.one_preempts and not group.slice.stays,
    )


def nominate(group: Group, now: datetime) -> Decision:
    """The nomination alone, for Kueue's own MultiKueue, which does the rest (contract 4.3).

    Only `nominatedClusterNames` and our own condition with the reason change. An answer `give_back` has no effect:
    Kueue owns the quota there.
    """
    seen = view(group, now)
    phase = phase_of(seen)
    if phase is not Phase.NOMINATING or seen.local.status.cluster_name or _gives_back(group):
        return _decision(phase, _same(seen))
    outcome = _nominating(replace(seen, group=replace(group, patience=None)))
    wanted = outcome.status or seen.local.status
    status = msgspec.structs.replace(
        seen.local.status,
        nominated_cluster_names=wanted.nominated_cluster_names,
        conditions=_with_nominated(seen.local.status.conditions, wanted.conditions),
    )
    return _decision(phase, replace(outcome, status=status, desired=()))


def _gives_back(group: Group) -> bool:
    return group.answer is not None and group.answer.nomination is not None and group.answer.nomination.give_back


def _with_nominated(conditions: tuple[Condition, ...], wanted: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """`conditions` with our condition NOMINATED taken from `wanted`."""
    new = find_condition(wanted, NOMINATED)
    if new == find_condition(conditions, NOMINATED):
        return conditions
    kept = without_condition(conditions, NOMINATED)
    return kept if new is None else (*kept, new)


def _with_questions(outcome: Outcome, group: Group, now: datetime) -> Outcome:
    """Add a read for each job whose request got no answer, once a read can tell its result. Not where `outcome`
    requests the job again: that request tells."""
    asked_anew = {each.cluster for each in outcome.desired if isinstance(each, Running)}
    doubtful = [r for r in group.remotes if r.asked and r.reachable and r.job is None and r.cluster not in asked_anew]
    later = {r.cluster: r.asked.until - now for r in doubtful if r.asked is not None and r.asked.until > now}
    questions = tuple(
        Found(cluster=r.cluster, why="it was asked for, and no answer came") for r in doubtful if r.cluster not in later
    )
    after = sooner(outcome.again_after, *later.values())
    return replace(outcome, desired=(*outcome.desired, *questions), again_after=after)


def is_holding(group: Group, now: datetime) -> bool:
    """Whether some pods of an evicted workload still run or may run, so that its quota must stay reserved; or its job
    has ended there, and the local job is not told yet. As in Kueue a result of the attempt counts more than its
    eviction, and is lost once the quota is given back.

    A lost worker does not count: that is the meaning of `worker_lost_timeout`.
    """
    return any(_holds(group, remote) for remote in group.remotes if not remote.lost(now, group.lost_after))


def _holds(group: Group, remote: Remote) -> bool:
    if remote.asked is not None:
        return True
    if remote.reachable:
        return remote.running or _is_result_untold(group, remote)
    status = group.local.status if group.local is not None else WorkloadStatus()
    recorded = status.cluster_name == remote.cluster
    # A predecessor may have made the job there just before it died, and the nomination is the only trace of it.
    unseen = not remote.link.known and remote.cluster in status.nominated_cluster_names
    return recorded or unseen or remote.job is not None


def _is_result_untold(group: Group, remote: Remote) -> bool:
    """Whether the job of this attempt has ended there and the local job is not told. The watch may show the end of the
    copy first; a suspended job gets none any more (`_given_up_at`)."""
    if group.job_finished or not group.is_current(remote.job):
        return False
    return remote.job_ended or (remote.has_result and not remote.held)


# Handlers, one per phase.


def _same(v: View, *, desired: Iterable[Desired] = (), after: timedelta | None = None) -> Outcome:
    status = v.group.local.status if v.group.local else None
    return Outcome(status=status, desired=tuple(desired), again_after=after)


def _remove_all(v: View) -> Outcome:
    """Remove the workload from all workers, but keep the objects that a later slice of the job takes over."""
    return _same(v, desired=_removals(v.group.slice.heir, v.group.remotes))


def _finished(v: View) -> Outcome:
    """Remove the workload from all workers, but for a retained copy and job.

    A job may finish before its win is recorded, if the process died in between. The win is recorded now if the worker
    is still nominated: Kueue's webhook accepts no other `clusterName`."""
    is_untold = not v.ready and _is_untold(v)
    left = _retained_for(v) if v.ready or is_untold else None
    kept = (v.won.cluster,) if left else ()
    outcome = _same(v, desired=_removals((*v.group.slice.heir, *kept), v.group.remotes), after=left)
    if not is_untold:
        return outcome
    recorded = _recorded(v, outcome.desired)
    return replace(recorded, again_after=sooner(recorded.again_after, left))


def _is_untold(v: View) -> bool:
    return (
        v.winner is not None
        and v.group.is_current(v.won.job)
        and v.won.cluster in v.local.status.nominated_cluster_names
    )


def _retained_for(v: View) -> timedelta | None:
    """How much longer a finished job stays on its worker, with its pods and their logs; None: remove it."""
    finished = v.local.condition(FINISHED)
    is_over = v.winner is not None and v.won.ended and v.group.is_current(v.won.workload)
    if not is_over or finished is None or finished.last_transition_time is None:
        return None
    left = finished.last_transition_time + v.group.copy_retention - v.now
    return left if left > timedelta() else None


def _unreserved(v: View) -> Outcome:
    """Without quota, clear nominations and `clusterName`: a stale name would block the next winner (CX-17)."""
    status = msgspec.structs.replace(without_nomination(v.local.status), cluster_name=None)
    return replace(_waiting(v), status=status)


def _waiting(v: View) -> Outcome:
    """Remove the workload from all workers, except that a slice not yet admitted leaves the job of the slice before it
    running. An evicted slice has no such job to keep."""
    keeps = v.group.slice.elastic and not v.local.has(EVICTED) and not v.local.has(ADMITTED)
    inherited = tuple(r.cluster for r in v.group.remotes if r.job_state.inherited) if keeps else ()
    return _same(v, desired=_removals(inherited, v.group.remotes))


def _slice_pinned(v: View) -> Outcome:
    """A slice goes to the worker of the slice before it, where the job runs, without a strategy (contract 3.10 step
    4)."""
    stays = v.group.slice.stays
    remote = v.group.remote(stays)
    assert remote is not None, "or it would be lost"
    if not remote.reachable:
        return _same(v, after=_until_lost(v, (remote,)))
    stuck, after = _stuck(v, (stays,))
    desired = (*_removals((stays,), v.group.remotes), *_copies(v, (stays,)))
    return replace(_same(v, desired=desired, after=after), status=_with_check(v, "Pending", stuck))


def _slice_pin_lost(v: View) -> Outcome:
    return _retry(v, words.lost(v.group, v.group.slice.stays))


def _evicted(v: View) -> Outcome:
    """Stop the jobs that run on workers, and remove the copies of the others."""
    evicted = v.local.condition(EVICTED)
    running = [r for r in v.group.remotes if r.reachable and r.running]
    since = evicted.last_transition_time if evicted else None
    return _held_up(v, running, since, _same(v, desired=_stops(v), after=_until_lost(v, v.group.remotes)))


def _held_up(v: View, by: list[Remote], since: datetime | None, decision: Outcome) -> Outcome:
    """Report a job of an earlier attempt that delays the next one, since no job may run twice.

    After HELD_UP_AFTER the workload names the worker and the cause: only people can resolve a foreign finalizer or a
    dead node."""
    begun = {r.cluster: min(_left_since(r) or since or v.now, v.now) for r in by if r.job is not None}
    late = [r for r in by if r.cluster in begun and begun[r.cluster] + HELD_UP_AFTER <= v.now]
    waits = (decision.again_after, *(at + HELD_UP_AFTER - v.now for at in begun.values()))
    after = min((wait for wait in waits if wait is not None and wait > timedelta()), default=None)
    decision = replace(decision, again_after=after)
    if not late or v.state != "Pending":
        return decision
    text = f"Waiting for what is left of an earlier attempt: {', '.join(map(_left_there, late))}"
    status = _with_check(v, "Pending", text)
    told = () if status == v.local.status else (Event("Warning", "MultiKueue", text),)
    return replace(decision, status=status, events=(*decision.events, *told))


def _left_since(remote: Remote) -> datetime | None:
    return moment(remote.job.metadata.deletion_timestamp) if remote.job is not None else None


def _left_there(remote: Remote) -> str:
    assert remote.job is not None
    meta = remote.job.metadata
    words = f'{type(remote.job).__name__} {remote.job.key} on worker cluster "{remote.cluster}"'
    if meta.deletion_timestamp is None:
        return f"{words} still has pods: see to their nodes, or delete them there"
    if not meta.finalizers:
        return f"{words} is being deleted: see to its pods and their nodes there"
    return f"{words} is held by {excerpt(', '.join(meta.finalizers))}: see to who has to take it away there"


def _stops(v: View) -> Iterator[Desired]:
    for remote in v.group.remotes:
        if remote.reachable and (remote.workload is not None or remote.job_state.inherited):
            yield Stopped(cluster=remote.cluster, why="evicted on the manager")


def _undispatchable(v: View) -> Outcome:
    status = _with_check(v, "Rejected", words.with_state_before(v.group, v.group.problem))
    return replace(_same(v), status=status, events=(Event("Warning", "MultiKueue", v.group.problem),))


def _nominating(v: View) -> Outcome:
    """Act on the strategy's answer. Without an answer to the present state nothing changes: each change that makes an
    answer stale has the strategy asked again."""
    answer, end = v.group.answer, gives_up_at(v.group)
    if answer is None:
        return _same(v)
    is_over = end is not None and end <= v.now
    if answer.nomination is None:
        return _retry(v, gives_up_for(v.group)) if is_over else _unanswered(v, answer)
    if answer.question.fleet.workers is not v.group.shown.workers and answer.question.fleet.names != usable(v.group):
        return _same(v)
    if answer.nomination.give_back:
        return _retry(v, answer.nomination.reason or f"Strategy {_name(answer)} gives the quota back")
    if is_over:
        return _retry(v, gives_up_for(v.group))
    return _nominated(v, answer, answer.nomination)


def _unanswered(v: View, answer: Answer) -> Outcome:
    """The strategy refused or failed: report it. Existing copies stay and may still win."""
    reason = "StrategyRefused" if answer.by is None else "StrategyFailed"
    event = Event("Warning", reason, answer.problem)
    status, after = _with_check(v, "Pending", answer.problem), sooner(_until(v, answer), _until_given_up(v))
    return replace(_same(v, after=after), status=status, events=(event,))


def _nominated(v: View, answer: Answer, nomination: Nomination) -> Outcome:
    wanted = _in_order(v, nomination.clusters + _kept(v, nomination))
    named = frozenset(wanted)
    recorded = _recorded_of(v, wanted)
    conditions = _with_note(v, answer, wanted)
    status = msgspec.structs.replace(
        v.local.status, nominated_cluster_names=recorded, cluster_name=None, conditions=conditions
    )
    there = tuple(r.cluster for r in v.group.remotes if r.cluster in named and r.configured)
    stuck, stuck_after = _stuck(v, there)
    status = _with_check(v, "Pending", stuck if there else _why_nobody(v, nomination), status)
    opened, gate_after = _gate(v)
    desired = (*_removals(there, v.group.remotes), *_copies(v, there), *opened)
    after = sooner(_until(v, answer), stuck_after, gate_after, _until_unfit_is_over(v), _until_given_up(v))
    return replace(_same(v, desired=desired, after=after), status=status)


def _gate(v: View) -> tuple[tuple[Desired, ...], timedelta | None]:
    """The worker that may preempt now, and when the next one may."""
    if not v.group.one_preempts:
        return (), None
    cluster, after = preemption_gates.to_open(v.group, v.now)
    return (Ungated(cluster=cluster, why="it is the first that would preempt"),) if cluster else (), after


def _fits_nowhere(v: View) -> Outcome:
    """A workload that fits no worker gives its quota back at once. It is retried after its back-off, or as soon as it
    may fit (`fit.may_fit_now`). One event reports it."""
    found = note(lacks(v.group), v.group.fleet.missing)
    message = f"No worker can ever hold it: {found}"
    outcome = _retry(v, message)
    if outcome.status is None or outcome.status is v.local.status:
        return outcome
    old = v.local.condition(FITS_NO_WORKER)
    is_known = old is not None and old.message == found
    since = old.last_transition_time if is_known and old is not None else None
    conditions = _with_own(
        v, FITS_NO_WORKER, outcome.status.conditions, reason="TooLarge", message=found, since=since or v.now
    )
    status = msgspec.structs.replace(outcome.status, conditions=conditions)
    events = () if is_known else (Event("Warning", "FitsNoWorker", message),)
    return replace(outcome, status=status, events=events)


def sooner(*waits: timedelta | None) -> timedelta | None:
    """The shortest wait; None if all are None."""
    return min((wait for wait in waits if wait is not None), default=None)


def _until_given_up(v: View) -> timedelta | None:
    end = gives_up_at(v.group)
    return max(end - v.now, timedelta()) if end is not None else None


def _until(v: View, answer: Answer) -> timedelta | None:
    """The wait until the strategy is asked again; None as well if that time has come: it is being asked then."""
    return answer.again_at - v.now if answer.again_at is not None and answer.again_at > v.now else None


def _name(answer: Answer) -> str:
    return answer.by.name if answer.by else ""


def _with_note(v: View, answer: Answer, wanted: tuple[str, ...]) -> tuple[Condition, ...]:
    """The conditions with our condition NOMINATED, which tells the strategy at its next call, and users, since when and
    why. Only a nomination with a reason or `revisit_after` needs it.

    Its time is that of the newest nominated cluster, rounded up to seconds: a round must not end early.
    """
    nomination, conditions, old = answer.nomination, v.local.status.conditions, v.local.condition(NOMINATED)
    if not wanted or nomination is None or (nomination.revisit_after is None and not nomination.reason):
        is_others = old is not None and old.reason != _camel(_name(answer))
        stays = is_others and wanted == v.local.status.nominated_cluster_names  # its author nominates, and we follow
        return conditions if stays else without_condition(conditions, NOMINATED)
    since = old.last_transition_time if old else None
    known = {*v.local.status.nominated_cluster_names, *answer.question.workload.nominated_clusters}
    if since is None or set(wanted) - known:
        since = v.now + timedelta(microseconds=999_999)
    message = nomination.reason or f"Nominated by the strategy {_name(answer)}"
    return _with_own(v, NOMINATED, conditions, reason=_camel(_name(answer)), message=message, since=since)


def _with_own(
    v: View, type_: str, conditions: tuple[Condition, ...], *, reason: str, message: str, since: datetime
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
        observed_generation=v.local.metadata.generation,
    )
    return conditions if new in conditions else (*others, new)


def _camel(name: str) -> str:
    """A strategy's name as the reason of a condition: `all-at-once` is AllAtOnce."""
    words = "".join(part[:1].upper() + part[1:] for part in re.split("[^A-Za-z0-9]+", name))
    return words[:200] if words[:1].isalpha() else f"Strategy{words[:200]}"


def _stuck(v: View, wanted: tuple[str, ...]) -> tuple[str, timedelta | None]:
    """A message on copies that have been inadmissible for STUCK_AFTER, and when to look at the others again.

    A copy is inadmissible with QuotaReserved=False, reason Inadmissible (a queue is missing or stopped on its worker).
    The message is delayed: most workloads are admitted elsewhere at once, and it would cost each of them a write.
    """
    found = {r.cluster: c for r in v.group.remotes if r.cluster in wanted and (c := _inadmissible(r))}
    due = {name: min(c.last_transition_time or v.now, v.now) + STUCK_AFTER for name, c in found.items()}
    shown = ", ".join(f"{name}: {excerpt(found[name].message)}" for name in found if due[name] <= v.now)
    later = min((when - v.now for when in due.values() if when > v.now), default=None)
    return (f"Waiting for admission; not possible on {shown}" if shown else ""), later


def _inadmissible(remote: Remote) -> Condition | None:
    condition = remote.condition(QUOTA_RESERVED)
    return condition if condition and condition.status == "False" and condition.reason == "Inadmissible" else None


def _why_nobody(v: View, nomination: Nomination) -> str:
    reasons = [f"{worker.name}: {worker.why}" for worker in v.group.shown.workers if not worker.usable]
    return "No worker can be nominated: " + (
        nomination.reason or ", ".join(reasons) or "the MultiKueueConfig names no cluster"
    )


def _until_unfit_is_over(v: View) -> timedelta | None:
    ends = [r.unfit.until for r in v.group.remotes if r.configured and r.unfit is not None]
    return min((end - v.now for end in ends if end > v.now), default=None)


def _recorded_of(v: View, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """As many as Kueue's API takes. Those that may hold a job unseen are not cut off: the nomination is the only trace."""
    if len(wanted) <= MAX_NOMINATED:
        return wanted
    unseen = {r.cluster for r in v.group.remotes if not r.reachable and _may_hold_unseen(v, r)}
    first = (name for name in wanted if name in unseen and name in v.local.status.nominated_cluster_names)
    return tuple(dict.fromkeys((*first, *wanted)))[:MAX_NOMINATED]


def _in_order(v: View, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The recorded nomination if only the order differs: a worker that flaps must not cost each workload two writes."""
    recorded = v.local.status.nominated_cluster_names
    return recorded if set(recorded) == set(wanted) else wanted


def _kept(v: View, nomination: Nomination) -> tuple[str, ...]:
    """Nominated workers that stay nominated without being named again:

    - An unreachable worker: its copy still exists, and may win once the worker is back.
    - A worker that can never hold the workload: the status of the copy is the only evidence of that.
    - A worker that may hold an unseen job, even if the configuration dropped it: the nomination is the only trace of
      it.
    """
    away = {r.cluster for r in v.group.remotes if not r.reachable and r.configured and r.unfit is None}
    unseen = {r.cluster for r in v.group.remotes if not r.reachable and _may_hold_unseen(v, r)}
    staying = away | unseen | lacks(v.group).keys()
    return tuple(n for n in v.local.status.nominated_cluster_names if n in staying and n not in nomination.clusters)


def _copies(v: View, wanted: tuple[str, ...]) -> Iterator[Desired]:
    named = frozenset(wanted)
    return (Copied(cluster=r.cluster, why="nominated") for r in v.group.remotes if r.cluster in named and r.reachable)


def _winner_lost(v: View) -> Outcome:
    return _retry(v, words.lost(v.group, v.won.cluster))


def _winner_unreachable(v: View) -> Outcome:
    return _same(v, desired=_losers(v), after=_until_lost(v, (v.won,)))


def _winner_gone(v: View) -> Outcome:
    if v.winner is None:
        return _retry(v, "Admission check is Ready but no admitting cluster is recorded")
    return _retry(v, words.gone(v.group, v.won.cluster))


def _declined_by_all(v: View) -> Outcome:
    names = ", ".join(named_clusters(v.group))
    return _retry(v, f'Workload deactivated on worker clusters: "{names}", resetting for re-admission')


def _evicted_remotely(v: View) -> Outcome:
    evicted = v.won.condition(EVICTED)
    if evicted is not None and evicted.reason == f"{DEACTIVATED}DueTo{OUT_OF_TIME}":
        return _out_of_time(v)
    message = f'Workload evicted on worker cluster: "{v.won.cluster}", resetting for re-admission'
    return _retry(v, words.with_state_before(v.group, message, always=True, mark="."), whole=True)


def _out_of_time(v: View) -> Outcome:
    """A worker deactivated its copy for `maximumExecutionTimeSeconds`: deactivate the workload. The worker's clock may
    be ahead of ours, which must not give the job a second run of full length."""
    target = Condition(
        type=DEACTIVATION_TARGET,
        status="True",
        reason=OUT_OF_TIME,
        message="exceeding the maximum execution time",
        observed_generation=v.local.metadata.generation,
    )
    conditions = with_condition(v.local.status.conditions, target, v.now)
    return replace(_same(v), status=msgspec.structs.replace(v.local.status, conditions=conditions))


def _out_of_sync(v: View) -> Outcome:
    """Only Succeeded and Failed are results. A copy that finished for another reason is dispatched again (CX-16)."""
    condition = v.won.condition(FINISHED)
    reason = excerpt(condition.reason) if condition else ""
    how = "is out of sync with its user job" if reason == OUT_OF_SYNC else f"ended as {reason}"
    message = f'Remote workload on worker cluster "{v.won.cluster}" {how}, resetting for re-dispatch'
    return _retry(v, message, type_="Warning")


def _retry(v: View, message: str, *, type_: Literal["Normal", "Warning"] = "Normal", whole: bool = False) -> Outcome:
    """End the attempt by the check state Retry, not before SHORTEST_ATTEMPT: objects of this attempt must never count
    as those of the next. A message that is `whole` says by itself in which state the check was."""
    reserved = v.local.condition(QUOTA_RESERVED)
    if reserved is not None and reserved.last_transition_time is not None:
        left = reserved.last_transition_time + SHORTEST_ATTEMPT - v.now
        if left > timedelta(0):
            return _same(v, after=left)
    text = message if whole else words.with_state_before(v.group, message)
    conditions = without_condition(_with_failure(v), FITS_NO_WORKER)
    status = msgspec.structs.replace(_with_check(v, "Retry", text), conditions=conditions)
    if not v.state:
        status = _without_check(v, status, text)
    return replace(_same(v), status=status, events=(Event(type_, "MultiKueue", text),))


def _without_check(v: View, status: WorkloadStatus, text: str) -> WorkloadStatus:
    """Evict a workload whose ClusterQueue dropped our check: no check state would end the attempt."""
    evicted = Condition(
        type=EVICTED,
        status="True",
        reason="AdmissionCheck",
        message=text,
        observed_generation=v.local.metadata.generation,
    )
    conditions = with_condition(status.conditions, evicted, v.now)
    return msgspec.structs.replace(without_nomination(status), conditions=conditions, cluster_name=None)


def _with_failure(v: View) -> tuple[Condition, ...]:
    """The conditions with the worker where the attempt failed, so that the strategy can choose another one next
    time."""
    conditions = v.local.status.conditions
    if v.winner is None:
        return conditions
    old = v.local.condition(FAILED_ON)
    note = failure_note(failures(old.message) if old else {}, v.winner.cluster, v.now)
    return _with_own(v, FAILED_ON, conditions, reason="AttemptFailed", message=note, since=v.now)


def _admitted(v: View) -> Outcome:
    losers = tuple(_losers(v))
    in_step = (InStep(cluster=v.won.cluster, why="it runs there"),) if v.won.workload else ()
    if v.won.job_state.incomplete and v.group.is_current(v.won.job):
        return _same(v, desired=(*losers, *in_step, *_completion(v)), after=_until_fit(v, v.won))
    if v.ready:
        # Beside Kueue a separate write after the win clears the condition: the process may have died in between.
        settled = _won(v) if v.state == "Pending" else without_nomination(v.local.status)
        return replace(_same(v, desired=(*losers, *in_step, _scaled(v))), status=settled)
    if v.group.is_current(v.won.job):
        return _recorded(v, (*losers, *in_step, _scaled(v)))
    if _takes_over(v, v.won):
        return _same(v, desired=(*losers, *in_step, _scaled(v)))
    left = [r for r in v.group.remotes if r.job is not None and r.reachable]
    if left:  # one left from an earlier attempt must be gone first (I1)
        goes = _job_removal(v.won, "left from an earlier attempt") if v.won.job is not None else in_step
        reserved = v.local.condition(QUOTA_RESERVED)
        since = reserved.last_transition_time if reserved else None
        return _held_up(v, left, since, _same(v, desired=(*losers, *goes)))
    away = [r for r in v.group.remotes if _may_hold_unseen(v, r) or _holds_out_of_reach(v, r)]
    if away:
        return _same(v, desired=in_step, after=_until_lost(v, away))
    if not v.group.job_may_be_copied and v.group.slice.stays:
        return _winner_gone(v)  # the slice was to take over that job; only a new attempt stops the local one
    if not v.group.job_may_be_copied:
        return _same(v, desired=(*losers, *in_step))  # the local job is not seen yet, or not fully stopped
    run = Running(cluster=v.won.cluster, why="first to admit")
    return _same(v, desired=(*losers, *in_step, run))


def _takes_over(v: View, remote: Remote) -> bool:
    """Whether the job there is the one of the slice before it, to take over; else it is left from an earlier
    attempt."""
    return remote.job_state.inherited and remote.cluster == v.group.slice.stays


def _scaled(v: View) -> Desired:
    """Scale the winner's job to its copy, whose pod counts are the admitted ones."""
    return Scaled(cluster=v.won.cluster, why="the elastic job was scaled")


def _completion(v: View) -> Iterator[Desired]:
    """Create the missing members of a pod group on the winner. If the worker refused one, remove the others, so that
    the workload can go elsewhere, unless it runs already."""
    if v.won.unfit is None:
        yield Running(cluster=v.won.cluster, why="a part of it is missing")
    elif not v.ready:
        yield from _job_removal(v.won, "it cannot be whole there")


def _until_fit(v: View, remote: Remote) -> timedelta | None:
    return remote.unfit.until - v.now if remote.unfit is not None else None


def _may_hold_unseen(v: View, remote: Remote) -> bool:
    """Whether a worker not seen since the start of the process may hold a job: a nominated one, if the previous process
    created the job just before it died; one where an attempt failed, if the job could not be removed."""
    if remote.link.known or remote.lost(v.now, v.group.lost_after):
        return False
    named, failed = v.local.status.nominated_cluster_names, v.local.condition(FAILED_ON)
    nominated = remote.cluster in named or (remote.configured and len(named) == MAX_NOMINATED)
    return nominated or (failed is not None and remote.cluster in failures(failed.message))


def _holds_out_of_reach(v: View, remote: Remote) -> bool:
    """Whether an unreachable worker has a job of an earlier attempt that could not be removed: it may still start."""
    return not remote.reachable and remote.job is not None and not remote.lost(v.now, v.group.lost_after)


def _completing(v: View) -> Outcome:
    """Record the winner if a crash prevented it; finish once the local job's status is final (I8)."""
    losers = tuple(_losers(v))
    if not v.ready:
        return replace(_recorded(v, losers), again_after=timedelta())
    # Not while its request is unanswered: the watch may show the copy before the job.
    job_is_gone = not v.group.is_current(v.won.job) and not v.won.is_asked_for(v.group.attempt)
    if not v.group.job_finished and not job_is_gone:
        given_up_at = _given_up_at(v)
        if given_up_at is None or v.now < given_up_at:
            return _same(v, desired=losers, after=None if given_up_at is None else given_up_at - v.now)
        if v.won.read_at is None or v.won.read_at < given_up_at:
            look = Found(cluster=v.won.cluster, why="it is held, and its workload is finished")
            return _same(v, desired=(*losers, look))
    remote = v.won.condition(FINISHED)
    assert remote is not None
    finished = Condition(
        type=FINISHED,
        status="True",
        reason=remote.reason,
        message=remote.message,
        observed_generation=v.local.metadata.generation,
    )
    conditions = with_condition(v.local.status.conditions, finished, v.now)
    return replace(_same(v, desired=losers), status=msgspec.structs.replace(v.local.status, conditions=conditions))


def _given_up_at(v: View) -> datetime | None:
    """When to give up a suspended job whose copy is finished; None for other jobs.

    A cluster restored from a backup may have lost the end of the job. The watch may also be late: so the job is read
    once more at that time, since the elapsed time alone proves nothing after a suspend of the process or a stalled
    watch.
    """
    finished = v.won.condition(FINISHED)
    if finished is None or not v.won.reachable or not v.won.held:
        return None
    return min(finished.last_transition_time or LONG_AGO, v.now) + v.group.lost_after


def _unrecorded(v: View) -> Outcome:
    """Record the win, though the ClusterQueue has dropped our check: the job stays where it runs (contract 3.1 E2), and
    the workload is never Admitted without a cluster, for which its job would be stopped, or start here too."""
    return _recorded(v, _losers(v))


def _recorded(v: View, desired: Iterable[Desired]) -> Outcome:
    """Record the win in one write. A stale `clusterName` is cleared in a write before it."""
    if v.local.status.cluster_name not in (None, v.won.cluster):
        stale = msgspec.structs.replace(v.local.status, cluster_name=None)
        return replace(_same(v, desired=desired, after=timedelta()), status=stale)
    told = Event("Normal", "MultiKueue", words.won(v.group, v.won.cluster), of_each=True)
    return replace(_same(v, desired=desired), status=_won(v), events=(told,))


def _won(v: View) -> WorkloadStatus:
    """The status of a win: check Ready, `clusterName`, no nominations, delayed topology requests Ready."""
    status = _with_check(v, "Ready", words.won(v.group, v.won.cluster), without_nomination(v.local.status))
    conditions = without_condition(status.conditions, FITS_NO_WORKER)
    return msgspec.structs.replace(
        status, cluster_name=v.won.cluster, admission=_with_topology(v), conditions=conditions
    )


def _with_topology(v: View) -> Admission | None:
    """The local admission, with delayed topology requests Ready that the worker has assigned (contract 3.9)."""
    admission = v.local.status.admission
    theirs = v.won.workload.status.admission if v.won.workload else None
    if admission is None or theirs is None:
        return admission
    placed = {a.name for a in theirs.pod_set_assignments if a.topology_assignment is not msgspec.UNSET}
    assignments = tuple(
        msgspec.structs.replace(a, delayed_topology_request="Ready")
        if a.delayed_topology_request == "Pending" and a.name in placed
        else a
        for a in admission.pod_set_assignments
    )
    return msgspec.structs.replace(admission, pod_set_assignments=assignments)


def _with_check(v: View, state: str, message: str, status: WorkloadStatus | None = None) -> WorkloadStatus:
    status, message = status or v.local.status, message[:LONGEST_MESSAGE]

    def changed(old: AdmissionCheckState) -> AdmissionCheckState:
        if old.name != v.group.check or (old.state == state and old.message == message):
            return old
        since = old.last_transition_time if old.state == state else v.now.replace(microsecond=0)
        return msgspec.structs.replace(
            old, state=state, message=message, last_transition_time=since, requeue_after_seconds=None
        )

    return msgspec.structs.replace(status, admission_checks=tuple(changed(c) for c in status.admission_checks))


def _removals(keep: tuple[str, ...], remotes: tuple[Remote, ...]) -> Iterator[Desired]:
    """Removals on all remotes but those in `keep`. A kept UID stays under every name: two names may lead to one
    cluster, and a UID exists on one cluster only."""
    kept, names = _kept_uids(keep, remotes), frozenset(keep)
    for remote in remotes:
        uids = _uids(remote)
        if remote.cluster not in names and remote.reachable and uids and kept.isdisjoint(uids):
            yield Absent(cluster=remote.cluster, why="not wanted there", uids=uids)


def _losers(v: View) -> Iterator[Desired]:
    keep = (v.won.cluster,)
    yield from _removals(keep, v.group.remotes)
    yield Alone(cluster=v.won.cluster, why="somebody else won", kept=_kept_uids(keep, v.group.remotes))


def _kept_uids(keep: tuple[str, ...], remotes: tuple[Remote, ...]) -> frozenset[str]:
    names = frozenset(keep)
    return frozenset(uid for remote in remotes if remote.cluster in names for uid in _uids(remote))


def _uids(remote: Remote) -> frozenset[str]:
    return frozenset(item.metadata.uid for item in (remote.workload, remote.job) if item is not None)


def _job_removal(remote: Remote, why: str) -> Iterator[Desired]:
    if remote.job is not None:
        yield Absent(cluster=remote.cluster, why=why, uids=frozenset({remote.job.metadata.uid}))


def _until_lost(v: View, remotes_: tuple[Remote, ...] | list[Remote]) -> timedelta | None:
    """The wait until the first of these workers, now unreachable, may count as lost."""
    timeout = v.group.lost_after
    due = (r.link.since + timeout - v.now for r in remotes_ if r.link.since is not None and not r.lost(v.now, timeout))
    return min((max(d, ASKED_AGAIN) for d in due), default=None)


HANDLERS: dict[Phase, Callable[[View], Outcome]] = {
    Phase.UNREADABLE: _same,
    Phase.GONE: _remove_all,
    Phase.FINISHED: _finished,
    Phase.UNRESERVED: _unreserved,
    Phase.UNCHECKED: _waiting,
    Phase.REJECTED: _remove_all,
    Phase.EVICTED: _evicted,
    Phase.RETRY_PENDING: _same,
    Phase.UNRECORDED: _unrecorded,
    Phase.UNDISPATCHABLE: _undispatchable,
    Phase.WAITING: _waiting,
    Phase.SLICE_TOO_EARLY: _same,
    Phase.SLICE_PINNED: _slice_pinned,
    Phase.SLICE_PIN_LOST: _slice_pin_lost,
    Phase.DECLINED_BY_ALL: _declined_by_all,
    Phase.FITS_NOWHERE: _fits_nowhere,
    Phase.NOMINATING: _nominating,
    Phase.WINNER_LOST: _winner_lost,
    Phase.WINNER_UNREACHABLE: _winner_unreachable,
    Phase.COMPLETING: _completing,
    Phase.OUT_OF_SYNC: _out_of_sync,
    Phase.EVICTED_REMOTELY: _evicted_remotely,
    Phase.WINNER_GONE: _winner_gone,
    Phase.ADMITTED: _admitted,
}
