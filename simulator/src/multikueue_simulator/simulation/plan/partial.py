"""Faults of a part: a server, a program or a name works but for one thing. One file, a class for each kind of fault.

They come from a random generator of their own, so that all other plans stay as they are. Half of the plans with faults of a
part have no other trouble; where the fault is a worker's they are compared with the same run in which that worker is of no use.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.plan import Adversity, Event, JobPlan, Plan
from multikueue_simulator.world.world import MANAGER, Share

__all__ = [
    "DropField",
    "FailObservers",
    "FailWebhook",
    "FillLog",
    "Nameless",
    "Partial",
    "RefuseVerb",
    "ShareField",
    "TakenOver",
    "with_partial_faults",
]

SHARE, ALONE = 0.08, 0.5
"""The share of plans with faults of a part, and that of those without other trouble."""

BESIDE, TAKEN, MANY = 0.25, 0.02, 0.004
"""The shares: of plans beside a Kueue with a person who owns a field of Kueue's; of all plans whose copies another manager has
made; and of all plans with more workers than a Workload may name."""

SHORT, PATIENCE = 20.0, 120.0
"""Seconds that a worker may keep a job which it refuses, and one which it neither takes nor refuses: 30 s of tries, the last of
which is waited out for a minute and a call."""

LONG = 300.0
"""Seconds of some faults of workers: longer than anybody has patience."""

READS = ("list", "watch")

WEBHOOK_TIMEOUT = 10.0
"""Seconds after which an API server gives a webhook up, by default."""

FIELDS: Mapping[str, tuple[str, str]] = {
    "nominations": ("workloads/status", "/status/nominatedClusterNames"),
    "winner": ("workloads/status", "/status/clusterName"),
    "requeue state": ("workloads/status", "/status/requeueState"),
    "checks": ("workloads/status", "/status/admissionChecks"),
    "reachability": ("multikueueclusters/status", "/status/conditions"),
    "ready pods": ("jobs/status", "/status/ready"),
    "priority": ("workloads", "/spec/priority"),
}
"""What a server may not keep: the resource, with its subresource, and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial(Adversity):
    """A fault of a part."""

    @property
    def patience(self) -> float:
        return SHORT

    @property
    def is_at_home(self) -> bool:
        """Whether it is a fault of the manager cluster."""
        return False

    @property
    def mutes(self) -> bool:
        """Whether managers may be unable to say what they wait for."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfHost(Partial):
    host: str

    @property
    def concerned(self) -> str:
        """The resource, with its subresource."""
        raise NotImplementedError

    @property
    def is_at_home(self) -> bool:
        return self.host == MANAGER

    @property
    def mutes(self) -> bool:
        return self.is_at_home and self.concerned in ("events", "workloads", "workloads/status")

    def control(self) -> tuple[Event, ...] | None:
        """At most as bad as a worker without a Kueue; what a fault of the manager cluster costs is unknown."""
        if self.host == MANAGER:
            return None
        return (plans.RestartKueue(at=self.at, lasts=self.lasts, worker=self.host),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseVerb(_OfHost):
    """The server answers managers with `code` to one verb on one resource (a plural, perhaps with `/status`): 403 as without
    the right; 429, 500, 503 and 504 say neither yes nor no."""

    kind: str
    verb: str
    code: int = 403

    @property
    def concerned(self) -> str:
        return self.kind

    @property
    def patience(self) -> float:
        return SHORT if self.code == 403 else PATIENCE

    def control(self) -> tuple[Event, ...] | None:
        if self.host != MANAGER and self.verb in READS:
            return (plans.Outage(at=self.at, lasts=self.lasts, host=self.host),)
        return super(RefuseVerb, self).control()

    def describe(self) -> str:
        return f"{self.host} answers managers {self.code} to {self.verb} {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWebhook(_OfHost):
    """A webhook of the cluster for writes of one resource does not answer: the connection is refused, or it takes too long."""

    kind: str
    operations: tuple[str, ...]
    is_late: bool = False

    @property
    def concerned(self) -> str:
        return self.kind

    @property
    def patience(self) -> float:
        return PATIENCE if self.is_late else SHORT

    def control(self) -> tuple[Event, ...] | None:
        """Where the worker's own Kueue may be unable to write, a job that it took stays there."""
        return None if "UPDATE" in self.operations else super(FailWebhook, self).control()

    def describe(self) -> str:
        how = "does not answer in time" if self.is_late else "is not there"
        return f"the webhook of {self.host} for {', '.join(self.operations)} {self.kind} {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropField(_OfHost):
    """A webhook of the cluster takes a field out of what managers write (one of FIELDS), or has another value there."""

    what: str

    @property
    def concerned(self) -> str:
        return FIELDS[self.what][0]

    def describe(self) -> str:
        return f"{self.host} does not keep what managers write into {self.what} of {FIELDS[self.what][0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nameless(_OfHost):
    """Nobody answers who looks up the name of a worker: what is open goes on, and nothing new begins."""

    @property
    def concerned(self) -> str:
        return ""

    def control(self) -> tuple[Event, ...]:
        return (plans.Outage(at=self.at, lasts=self.lasts, host=self.host),)

    def describe(self) -> str:
        return f"nobody answers managers who look up the name of {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailObservers(Partial):
    """All of a manager's metrics raise an error."""

    replica: str

    def describe(self) -> str:
        return f"whatever {self.replica} counts raises an error"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillLog(Partial):
    """The managers' logs go to a pipe whose reader is gone, or that nobody reads."""

    what: Literal["gone", "unread"]

    def describe(self) -> str:
        return f"the logs of managers go to a pipe {'whose reader is gone' if self.what == 'gone' else 'nobody reads'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareField(Partial):
    """Beside a Kueue: a person applies the `clusterName` that the workload has, and so owns it as well."""

    job: str

    def control(self) -> None:
        return None

    def describe(self) -> str:
        return f"an admin applies the clusterName that the workload of {self.job} has"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver(Partial):
    """While no manager runs, the winner's objects become such as Kueue's own MultiKueue makes: without a mark of the
    attempt, by a clock that is `behind` seconds behind the manager cluster's."""

    job: str
    behind: float
    down: float = 3.0

    def control(self) -> None:
        return None

    def describe(self) -> str:
        return f"what {self.job} has on its worker was made by another MultiKueue, {self.behind:g} s before its reservation"


# --- from a seed -------------------------------------------------------------------------------------------------------------


def with_partial_faults(plan: Plan) -> Plan:
    """The plan with faults of a part, if its seed draws any."""
    luck = random.Random(f"part {plan.seed}")  # noqa: S311  # not a secret
    share = luck.random()
    if plan.adversaries or any(job.room for job in plan.jobs) or plan.has_dispatcher:
        return plan
    if share < MANY:
        return _of_many(plan, luck)
    if share < MANY + TAKEN:
        return _taken_over(plan, luck)
    if plan.layout.core and luck.random() < BESIDE:
        return _beside_a_person(plan, luck)
    return _of_parts(plan, luck) if share < MANY + TAKEN + SHARE else plan


def _of_parts(plan: Plan, luck: random.Random) -> Plan:
    kept = () if luck.random() < ALONE else plan.events
    draft = _Draft(replace(plan, events=kept), luck)
    acts = [act for _ in range(luck.choice((1, 1, 2))) for act in draft.acts()]
    return replace(plan, events=kept, adversaries=tuple(sorted(acts, key=lambda act: act.at)))


def _of_many(plan: Plan, luck: random.Random) -> Plan:
    """Beside a Kueue, which names 20 workers at most; one of the others is the only one with room."""
    few = tuple(Share(f"worker{number}", 1) for number in range(1, 22))
    layout = replace(plan.layout, core=True, is_reviewed=True, workers=(*few, Share("worker22", 4)))
    job = JobPlan(name="job0", at=1.0, queue=layout.queues[0].name, cpu=2, seconds=round(luck.uniform(3.0, 12.0), 3))
    return replace(
        plan, layout=replace(layout, placement=()), strategy="all-at-once", options={}, jobs=(job,), events=()
    )


def _taken_over(plan: Plan, luck: random.Random) -> Plan:
    long = JobPlan(name="long", at=1.0, queue=plan.layout.queues[0].name, seconds=60.0)
    at, behind = round(luck.uniform(8.0, 30.0), 3), luck.choice((-60.0, 1.0, 1.0, 5.0, 300.0))
    act = TakenOver(at=at, job="long", behind=behind)
    return replace(plan, jobs=(*plan.jobs, long), events=(), adversaries=(act,))


def _beside_a_person(plan: Plan, luck: random.Random) -> Plan:
    """The worker evicts it soon after, so that its winner has to be cleared."""
    job = luck.choice([job.name for job in plan.jobs])
    long = tuple(replace(each, seconds=max(each.seconds, 30.0)) if each.name == job else each for each in plan.jobs)
    at = round(next(each.at for each in long if each.name == job) + luck.uniform(2.0, 12.0), 3)
    evicts = plans.Preempt(at=at + round(luck.uniform(0.5, 5.0), 3), job=job, worker=f"@{job}")
    return replace(plan, jobs=long, events=(evicts,), adversaries=(ShareField(at=at, job=job),))


class _Draft:
    """Faults of a part under construction."""

    def __init__(self, plan: Plan, luck: random.Random) -> None:
        self.plan, self.luck = plan, luck

    def acts(self) -> tuple[Partial, ...]:
        at = max(0.0, round(self.luck.choice(self.plan.jobs).at + self.luck.uniform(-3.0, 2.0), 3))
        when = {"at": at, "lasts": self.luck.choice((4.0, 15.0, 40.0, 75.0))}
        return self.luck.choices(list(_KINDS), weights=list(_KINDS.values()))[0](self, when)

    def refuse_verb(self, when: Any) -> tuple[Partial, ...]:
        luck = self.luck
        kind, verb = luck.choice(("jobs", "workloads")), luck.choice(("create", "patch", "delete", "get", *READS))
        code = luck.choice((403, 403, 403, 429, 500, 503, 504))
        when |= {"lasts": luck.choice((when["lasts"], LONG))}
        return (RefuseVerb(**when, host=self.worker(), kind=kind, verb=verb, code=code),)

    def refuse_verb_at_home(self, when: Any) -> tuple[Partial, ...]:
        luck = self.luck
        kind, verb = luck.choice(_AT_HOME)
        return (RefuseVerb(**when, host=MANAGER, kind=kind, verb=verb, code=luck.choice((403, 403, 500))),)

    def fail_webhook(self, when: Any) -> tuple[Partial, ...]:
        kind, operations = self.luck.choice(("jobs", "jobs", "workloads")), self.luck.choice(_OPERATIONS)
        is_late = self.luck.random() < 0.3
        when |= {"lasts": self.luck.choice((when["lasts"], LONG))}
        return (FailWebhook(**when, host=self.worker(), kind=kind, operations=operations, is_late=is_late),)

    def fail_webhook_at_home(self, when: Any) -> tuple[Partial, ...]:
        kind = self.luck.choice(("jobs", "jobs/status", "workloads", "workloads/status", "events"))
        return (FailWebhook(**when, host=MANAGER, kind=kind, operations=self.luck.choice(_OPERATIONS)),)

    def drop_field(self, when: Any) -> tuple[Partial, ...]:
        what = self.luck.choice([name for name in FIELDS if name != "priority"])
        return (DropField(**when, host=MANAGER, what=what),)

    def drop_field_there(self, when: Any) -> tuple[Partial, ...]:
        return (DropField(**when, host=self.worker(), what="priority"),)

    def nameless(self, when: Any) -> tuple[Partial, ...]:
        """Of all workers but one, or fewer."""
        workers = self.luck.sample(self.plan.workers, self.luck.randint(1, len(self.plan.workers) - 1))
        return tuple(Nameless(**when, host=worker) for worker in workers)

    def fail_observers(self, when: Any) -> tuple[Partial, ...]:
        """From soon after the start."""
        when |= {"at": max(0.2, when["at"])}
        return (FailObservers(**when, replica=self.luck.choice(self.plan.replicas).name),)

    def fill_log(self, when: Any) -> tuple[Partial, ...]:
        return (FillLog(**when, what=self.luck.choice(("gone", "gone", "unread"))),)

    def worker(self) -> str:
        return self.luck.choice(self.plan.workers)


_OPERATIONS = (("CREATE",), ("CREATE",), ("CREATE", "UPDATE"), ("UPDATE",), ("CREATE", "UPDATE", "DELETE"))

_AT_HOME = (
    ("jobs", "patch"),
    ("jobs/status", "patch"),
    ("jobs", "list"),
    ("jobs", "watch"),
    ("workloads", "create"),
    ("workloads", "patch"),
    ("workloads/status", "patch"),
    ("workloads", "delete"),
    ("workloads", "list"),
    ("events", "create"),
    ("secrets", "get"),
    ("secrets", "watch"),
    ("multikueueclusters/status", "patch"),
    ("clusterqueues/status", "patch"),
    ("localqueues/status", "patch"),
    ("admissionchecks/status", "patch"),
)

_KINDS: Mapping[Callable[[_Draft, Any], tuple[Partial, ...]], float] = {
    _Draft.refuse_verb: 5,
    _Draft.refuse_verb_at_home: 3,
    _Draft.fail_webhook: 6,
    _Draft.fail_webhook_at_home: 2,
    _Draft.drop_field: 4,
    _Draft.drop_field_there: 1,
    _Draft.nameless: 2,
    _Draft.fail_observers: 4,
    _Draft.fill_log: 2,
}
"""The kinds of faults, and their weights."""
