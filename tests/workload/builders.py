"""Cases for the decision tests: a local workload and what its workers hold."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import Workload, WorkloadStatus
from multikueue.api.meta import encode, render_time
from multikueue.dispatch.copies.effects import Action, effects
from multikueue.dispatch.copies.preemption_gates import BLOCKED, GATE
from multikueue.dispatch.remote import Asked, JobState, Link, Reach, Remote, Unfit, attempt_of
from multikueue.errors import StrategyError
from multikueue.strategy import Fleet as ShownFleet
from multikueue.strategy import Nomination
from multikueue.strategy import Worker as ShownWorker
from multikueue.strategy import Workload as StrategyWorkload
from multikueue.workload.case import Case, Fleet
from multikueue.workload.decide import decide, plan
from multikueue.workload.decision_rules import DecisionRules
from multikueue.workload.handlers.outcome import Outcome
from multikueue.workload.nomination.request import nomination_request
from multikueue.workload.phases import Phase, phase_of
from multikueue.workload.strategy_call import LoadedStrategy, NominationResult, again_at, call_strategy
from tests.builders import NOW, job, workload
from tests.builders.workloads import JobBuilder, WorkloadBuilder

EARLIER = "2025-12-31T00:00:00Z"
RESERVED = NOW - timedelta(minutes=1)
CHECK = "mk"


class Everywhere:
    """The strategy of these tests: every usable worker."""

    def nominate(self, workload: StrategyWorkload, fleet: ShownFleet) -> Nomination:
        return Nomination(fleet.names)


def pending() -> WorkloadBuilder:
    return workload("wl").queue("main").request(cpu=1).owner_job("job")


def reserved() -> WorkloadBuilder:
    return pending().reserved("cq", at=RESERVED).check(CHECK)


def won(cluster: str = "w1") -> WorkloadBuilder:
    return reserved().check(CHECK, "Ready").admitted().cluster_name(cluster)


ATTEMPT = attempt_of(reserved().build())


def copy(attempt: str = ATTEMPT) -> WorkloadBuilder:
    return pending().origin().attempt(attempt)


def admitted_copy(attempt: str = ATTEMPT, *, at: datetime = NOW) -> WorkloadBuilder:
    return copy(attempt).reserved("remote", at=at).admitted(at=at)


def remote_job(attempt: str = ATTEMPT) -> JobBuilder:
    return job("job").queue("main").origin().prebuilt("wl").attempt(attempt)


def worker(
    name: str, workload_: Workload | WorkloadBuilder | None = None, job_: Job | JobBuilder | None = None, **more: Any
) -> Remote:
    """What is built here has a UID of that worker's own."""
    built = _of(name, workload_).build() if isinstance(workload_, WorkloadBuilder) else workload_
    built_job = _of(name, job_).build() if isinstance(job_, JobBuilder) else job_
    return but(Remote(cluster=name, workload=built, job=built_job), **more)


def but(remote: Remote, **changes: Any) -> Remote:
    """The same with these changes of it, of its link, or of the state of its job. `asked` is an attempt, `unfit` words, for
    the time from now that goes with them, or none at all."""
    of_link = {name: changes.pop(name) for name in LINK & changes.keys()}
    of_job = {name: changes.pop(name) for name in JOB_STATE & changes.keys()}
    until = changes.pop("until", NOW)
    if "asked" in changes:
        changes["asked"] = Asked(changes["asked"], until) if changes["asked"] else None
    if "unfit" in changes:
        changes["unfit"] = Unfit(changes["unfit"], until) if changes["unfit"] else None
    link, state = replace(remote.link, **of_link), replace(remote.job_state, **of_job)
    return replace(remote, link=link, job_state=state, **changes)


LINK, JOB_STATE = (set(type_.__struct_fields__) for type_ in (Link, JobState))


B = TypeVar("B", WorkloadBuilder, JobBuilder)


def _of(worker: str, builder: B) -> B:
    return builder.uid(f"{builder.build().metadata.uid}-on-{worker}")


def at_gate(name: str, *, since: datetime = NOW, opened: datetime | None = None) -> Remote:
    """A worker whose copy would have to preempt."""
    built = copy().uid(f"copy-on-{name}").condition(BLOCKED, "True", reason="PreemptionGated", at=since).build()
    gates = [{"name": GATE, "position": "Open", "lastTransitionTime": render_time(opened)}] if opened else []
    return worker(name, with_gates(built, gates) if gates else built)


def with_gates(built: Workload, gates: object) -> Workload:
    status = msgspec.structs.replace(built.status, preemption_gates=msgspec.Raw(encode(gates)))
    return msgspec.structs.replace(built, status=status)


def away(remote: Remote, *, since: datetime = NOW, reach: Reach = Reach.ISOLATED) -> Remote:
    return but(remote, reach=reach, since=since)


def case_of(local: WorkloadBuilder | None, *remotes: Remote, now: datetime = NOW, **more: Any) -> Case:
    """A case with what is known besides: fields of it, or of its rules."""
    rules = DecisionRules(**{name: more.pop(name) for name in RULES & more.keys()})
    known: dict[str, Any] = {"check": CHECK} | more
    if "slice" in known:
        found = known.pop("slice")
        known["slice_of"] = lambda _workload: found
    workers = known.get("fleet") or tuple(shown(remote) for remote in remotes if remote.is_configured)
    known["fleet"] = Fleet(workers)
    built = local.build() if local else None
    return Case(now=now, key=pending().build().key, workload=built, remotes=remotes, rules=rules, **known)


RULES = set(DecisionRules.__struct_fields__)


def shown(remote: Remote) -> ShownWorker:
    """A worker as its remote tells: nothing keeps it from taking workloads but that it is away."""
    return unusable(remote.cluster, "" if remote.is_reachable else "not connected")


def unusable(name: str, why: str) -> ShownWorker:
    return ShownWorker(name=name, usable=not why, why=why)


class Decided(Outcome, frozen=True, kw_only=True):
    """An outcome with what the outboxes do then, all of them at once."""

    actions: tuple[Action, ...]


def decided(local: WorkloadBuilder | None, *remotes: Remote, now: datetime = NOW, **more: Any) -> Decided:
    return carried_out(with_nomination(case_of(local, *remotes, now=now, **more)))


def carried_out(case: Case) -> Decided:
    outcome, after = decide(case), case
    if case.workload is not None and outcome.status is not None:
        after = case.after(msgspec.structs.replace(case.workload, status=outcome.status))
    made = plan(after, outcome)
    actions = tuple(action for remote in case.remotes for action in effects(made, remote, case.now))
    return Decided(**{name: getattr(outcome, name) for name in outcome.__struct_fields__}, actions=actions)


EVERYWHERE = LoadedStrategy("everywhere", Everywhere())


def with_nomination(seen: Case, *, by: LoadedStrategy = EVERYWHERE) -> Case:
    """The case with the result of its strategy, as the reconcile of the workload has it."""
    if phase_of(seen) is not Phase.NOMINATING:
        return replace(seen, nomination_result=None)
    request = nomination_request(seen)
    try:
        nomination = call_strategy(by.strategy, request.workload, request.fleet)
    except StrategyError as error:
        again = seen.now + timedelta(seconds=30)
        return replace(
            seen,
            nomination_result=NominationResult(request=request, by=by, problem=str(error), failures=1, again_at=again),
        )
    return replace(
        seen,
        nomination_result=NominationResult(
            request=request, by=by, nomination=nomination, again_at=again_at(nomination, seen.now)
        ),
    )


def told(decision: Decided) -> list[str]:
    """The actions in short: `CreateWorkload w1`."""
    return [f"{type(action).__name__} {action.cluster}" for action in decision.actions]


def check_of(status: WorkloadStatus | None) -> tuple[str, str]:
    assert status is not None
    return status.admission_checks[0].state, status.admission_checks[0].message


def unchecked() -> WorkloadBuilder:
    """A workload that was nominated, and whose ClusterQueue has dropped the check since."""
    return pending().reserved("cq", at=RESERVED).nominated("w1", "w2")


def with_status(local: Workload | None, status: WorkloadStatus | None) -> Workload:
    assert local is not None
    assert status is not None
    return msgspec.structs.replace(local, status=status)


BOTH = (worker("w1"), worker("w2"))
LATE = NOW + timedelta(minutes=16)
