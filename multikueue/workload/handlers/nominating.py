"""Phase NOMINATING: carry out the nomination of the strategy. And SLICE_PINNED, whose worker is given."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.unadmitted import NEVER_ADMITTED
from multikueue.api.kueue.workload import NOMINATED, QUOTA_RESERVED
from multikueue.api.meta import Condition, without_condition
from multikueue.api.values.foreign import excerpt
from multikueue.dispatch.copies import preemption_gates
from multikueue.dispatch.copies.plan import Copied, Desired, Ungated
from multikueue.dispatch.remote import Remote
from multikueue.strategy import Nomination, Strategy
from multikueue.workload.case import MAX_NOMINATED, Case
from multikueue.workload.handlers.doubts import may_hold_unseen, until_lost
from multikueue.workload.handlers.outcome import Outcome, sooner, unchanged, with_check, with_own_condition
from multikueue.workload.handlers.removal import removals
from multikueue.workload.handlers.retrying import retry
from multikueue.workload.nomination.request import usable
from multikueue.workload.strategy_call import PLACEMENTS, NominationResult

STUCK_AFTER = timedelta(seconds=5)
"""How long a copy must be inadmissible on its worker before the workload says so."""


_NAMED = 10
"""Workers in that message: a fleet may have hundreds."""


def nominating(case: Case) -> Outcome:
    """Carry out the strategy's nomination. Without a result for the present state nothing changes: each change that makes
    a result stale has the strategy called again."""
    result, end = case.nomination_result, give_back_at(case)
    if result is None:
        return unchanged(case)
    is_over = end is not None and end <= case.now
    if result.nomination is None:
        return retry(case, give_back_message(case)) if is_over else _report_problem(case, result, end)
    if result.request.fleet.workers is not case.shown.workers and result.request.fleet.names != usable(case):
        return unchanged(case)
    if result.nomination.give_back:
        return retry(case, result.nomination.reason or f"Strategy {_name(result)} gives the quota back")
    if is_over:
        return retry(case, give_back_message(case))
    return _nominated(case, result, result.nomination, end)


def _report_problem(case: Case, result: NominationResult, end: datetime | None) -> Outcome:
    """The strategy refused or failed: report it. Existing copies stay and may still win."""
    reason = "StrategyRefused" if result.by is None else "StrategyFailed"
    event = Event("Warning", reason, result.problem)
    status, after = with_check(case, "Pending", result.problem), sooner(_until(case, result), _until_end(case, end))
    return replace(unchanged(case, after=after), status=status, events=(event,))


def _nominated(case: Case, result: NominationResult, nomination: Nomination, end: datetime | None) -> Outcome:
    barred = _barred(case, nomination)
    meant = tuple([n for n in nomination.clusters if n not in barred or n in case.local.status.nominated_cluster_names])
    wanted = _in_order(case, meant + _kept(case, nomination))
    named = frozenset(wanted) - barred
    recorded = _recorded_of(case, wanted)
    conditions = _with_note(case, result, wanted)
    status = replace(case.local.status, nominated_cluster_names=recorded, cluster_name=None, conditions=conditions)
    there = tuple([r.cluster for r in case.remotes if r.cluster in named and r.is_configured])
    stuck, stuck_after = _stuck(case, there)
    status = with_check(case, "Pending", stuck if there else _why_nobody(case, nomination), status)
    yielding = frozenset(nomination.yielding)
    opened, gate_after = _gate(case, yielding)
    desired = (*removals(there, case.remotes), *_copies(case, there, yielding), *opened)
    after = sooner(_until(case, result), stuck_after, gate_after, _until_unfit_is_over(case), _until_end(case, end))
    return replace(unchanged(case, desired=desired, after=after), status=status)


def _barred(case: Case, nomination: Nomination) -> frozenset[str]:
    """The workers that get no copy, whatever a strategy names: it is known why the workload cannot run there. What is of this
    attempt there already stays.

    None of them gets a nomination. One that has one keeps it: it may be somebody else's to change.
    """
    unusable = frozenset(nomination.clusters).difference(usable(case))
    if not unusable:  # nearly always
        return unusable
    return frozenset(
        r.cluster for r in case.remotes if r.cluster in unusable and r.is_reachable and not case.has_something(r)
    )


def _gate(case: Case, yielding: frozenset[str]) -> tuple[tuple[Desired, ...], timedelta | None]:
    """The worker that may preempt now, and when the next one may. Never one whose copy yields."""
    if not case.rules.is_preemption_sequential:
        return (), None
    found = (r for r in case.remotes if r.cluster not in yielding)
    copies = [r for r in found if r.is_reachable and case.is_current(r.workload)]
    cluster, after = preemption_gates.to_open(copies, case.opening, case.now)
    return (Ungated(cluster=cluster, why="it is the first that would preempt"),) if cluster else (), after


def _until_end(case: Case, end: datetime | None) -> timedelta | None:
    return max(end - case.now, timedelta()) if end is not None else None


def _until(case: Case, result: NominationResult) -> timedelta | None:
    """The wait until the strategy is called again; None as well if that time has come: it is being called then."""
    return result.again_at - case.now if result.again_at is not None and result.again_at > case.now else None


def _name(result: NominationResult) -> str:
    return result.by.name if result.by else ""


def _with_note(case: Case, result: NominationResult, wanted: tuple[str, ...]) -> tuple[Condition, ...]:
    """The conditions with our condition NOMINATED, which tells the strategy at its next call, and users, since when and
    why. Only a nomination with a reason or `revisit_after` needs it.

    Its time is that of the newest nominated cluster, rounded up to seconds: a round must not end early.
    """
    nomination, conditions, old = result.nomination, case.local.status.conditions, case.local.condition(NOMINATED)
    if not wanted or nomination is None or (nomination.revisit_after is None and not nomination.reason):
        is_others = old is not None and (old.reason != _camel(_name(result)) or _follows(result))
        stays = is_others and wanted == case.local.status.nominated_cluster_names  # its author nominates, and we follow
        return conditions if stays else without_condition(conditions, NOMINATED)
    since = old.last_transition_time if old else None
    known = {*case.local.status.nominated_cluster_names, *result.request.workload.nominated_clusters}
    if since is None or set(wanted) - known:
        since = case.now + timedelta(microseconds=999_999)
    message = nomination.reason or f"Nominated by the strategy {_name(result)}"
    return with_own_condition(case, NOMINATED, conditions, reason=_camel(_name(result)), message=message, since=since)


def _follows(result: NominationResult) -> bool:
    """Whether the strategy could follow a Placement, and leaves the nomination to its author since none is named. That may be
    another manager with a strategy of the same name."""
    reads = result.by.reads if result.by is not None else frozenset()
    return PLACEMENTS in reads and result.request.fleet.placement is None


def _camel(name: str) -> str:
    """A strategy's name as the reason of a condition: `all-at-once` is AllAtOnce."""
    words = "".join(part[:1].upper() + part[1:] for part in re.split("[^A-Za-z0-9]+", name))
    return words[:200] if words[:1].isalpha() else f"Strategy{words[:200]}"


def _stuck(case: Case, wanted: tuple[str, ...]) -> tuple[str, timedelta | None]:
    """A message on copies that have been inadmissible for STUCK_AFTER and on workers that get none since the queue there is
    closed, and when to look at the other copies again.

    A copy is inadmissible if a queue is missing or stopped on its worker: QuotaReserved=False says so by its reason.
    The message is delayed: most workloads are admitted elsewhere at once, and it would cost each of them a write.
    """
    copies = [r for r in case.remotes if r.workload is not None and r.cluster in wanted]
    found = {r.cluster: c for r in copies if (c := _inadmissible(r))}
    if not found and not case.closed:
        return "", None
    due = {name: min(c.last_transition_time or case.now, case.now) + STUCK_AFTER for name, c in found.items()}
    told = {name: found[name].message for name in found if due[name] <= case.now}
    told |= {name: why for name, why in case.closed.items() if name in case.fleet.order and name not in wanted}
    shown = ", ".join(f"{name}: {excerpt(told[name])}" for name in [*told][:_NAMED])
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    later = min((when - case.now for when in due.values() if when > case.now), default=None)
    return (f"Waiting for admission; not possible on {shown}{more}" if shown else ""), later


def _inadmissible(remote: Remote) -> Condition | None:
    condition = remote.condition(QUOTA_RESERVED)
    return condition if condition and condition.status == "False" and condition.reason in NEVER_ADMITTED else None


def _why_nobody(case: Case, nomination: Nomination) -> str:
    reasons = [f"{worker.name}: {worker.why}" for worker in case.shown.workers if not worker.usable]
    return "No worker can be nominated: " + (
        nomination.reason or ", ".join(reasons) or "the MultiKueueConfig names no cluster"
    )


def _until_unfit_is_over(case: Case) -> timedelta | None:
    ends = [r.unfit.until for r in case.remotes if r.is_configured and r.unfit is not None]
    return min((end - case.now for end in ends if end > case.now), default=None)


def _recorded_of(case: Case, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """At most as many as Kueue's API takes. Workers that may hold an unseen job stay: the nomination is its only trace."""
    if len(wanted) <= MAX_NOMINATED:
        return wanted
    unseen = {r.cluster for r in case.remotes if not r.is_reachable and may_hold_unseen(case, r)}
    first = (name for name in wanted if name in unseen and name in case.local.status.nominated_cluster_names)
    return tuple(dict.fromkeys((*first, *wanted)))[:MAX_NOMINATED]


def _in_order(case: Case, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The recorded nomination if only the order differs: a worker that flaps must not cost each workload two writes."""
    recorded = case.local.status.nominated_cluster_names
    return recorded if set(recorded) == set(wanted) else wanted


def _kept(case: Case, nomination: Nomination) -> tuple[str, ...]:
    """Workers that are nominated without being named again. Of the nominated ones:

    - An unreachable worker: its copy still exists, and may win once the worker is back.
    - A worker that can never hold the workload: the status of the copy is the only evidence of that.
    - A worker that may hold an unseen job, even if the configuration dropped it: the nomination is the only trace of
      it.

    Also an unreachable worker with a requested job, nominated or not: the next process must wait for it too.
    """
    unreachable = [r for r in case.remotes if not r.is_reachable]
    if not unreachable and not case.lacks:
        return ()
    away = {r.cluster for r in unreachable if r.is_configured and r.unfit is None}
    unseen = {r.cluster for r in unreachable if may_hold_unseen(case, r)}
    staying = away | unseen | case.lacks.keys()
    asked = (r.cluster for r in unreachable if r.asked is not None and not r.is_lost(case.now, case.rules.lost_after))
    kept = (*(n for n in case.local.status.nominated_cluster_names if n in staying), *asked)
    return tuple(dict.fromkeys(n for n in kept if n not in nomination.clusters))


def _copies(case: Case, wanted: tuple[str, ...], yielding: frozenset[str] = frozenset()) -> list[Desired]:
    named = frozenset(wanted)
    return [
        Copied(cluster=r.cluster, why="nominated", yields=r.cluster in yielding)
        for r in case.remotes
        if r.cluster in named and r.is_reachable
    ]


def slice_pinned(case: Case) -> Outcome:
    """A slice goes to the worker of the slice before it, where the job runs, without a strategy (contract 3.10 step
    4)."""
    stays = case.slice.stays
    remote = case.remote(stays)
    assert remote is not None, "or it would be lost"
    if not remote.is_reachable:
        return unchanged(case, after=until_lost(case, (remote,)))
    stuck, after = _stuck(case, (stays,))
    desired = (*removals((stays,), case.remotes), *_copies(case, (stays,)))
    return replace(unchanged(case, desired=desired, after=after), status=with_check(case, "Pending", stuck))


def give_back_after_of(strategy: Strategy | None, default: timedelta | None) -> timedelta | None:
    """The strategy's option `give_back_after`, if it has one that is set; else the default."""
    own = getattr(strategy, "give_back_after", None)
    return own if isinstance(own, timedelta) and own > timedelta() else default


def give_back_at(case: Case) -> datetime | None:
    """When its quota is given back if no worker has admitted it by then; None: never.

    A strategy that wants to be called again has more to nominate, or gives back by itself. Otherwise the time counts from
    the latest of three events: the reservation of quota, the nomination, and a change of another check. A time that is
    still to come by our clock is not believed as long as there is another one.

    Then the workload is evicted, to let others go first, and requeued.
    """
    local, nomination = case.workload, case.nomination
    if case.give_back_after is None or local is None or case.slice.stays:
        return None
    if nomination is not None and nomination.revisit_after is not None:
        return None
    told = local.condition(QUOTA_RESERVED), local.condition(NOMINATED)
    others = [check for check in local.status.admission_checks if check.name != case.check]
    since = [each.last_transition_time for each in (*told, *others) if each is not None and each.last_transition_time]
    past = [each for each in since if each <= case.now]
    return max(past or since) + case.give_back_after if since else None


def give_back_message(case: Case) -> str:
    """The message of the eviction."""
    return f"No worker admitted it within {case.give_back_after}"
