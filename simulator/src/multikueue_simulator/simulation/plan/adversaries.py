"""Harmful events, deliberate or not: of hostile tenants, hostile workers and clumsy administrators: one file, a class for each.

A share of the runs has some. They come from a random generator of their own, so that the rest of a plan stays the same.
Half of those runs have no other faults; they are compared with the same run without adversaries (`control`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.plan import Adversity, Event, Plan

__all__ = [
    "Choose",
    "DropCheck",
    "Flood",
    "HandMade",
    "Impersonate",
    "Impose",
    "Mangle",
    "Mislay",
    "MixUp",
    "OddAnswers",
    "OddCluster",
    "OddJob",
    "SecondName",
    "Slander",
    "Squat",
    "beset",
    "control",
    "decided",
]

BESET = 0.16
"""The share of runs with adversaries."""

ALONE = 0.5
"""The share of those runs without other faults."""

ASKED_TO_WAIT = 125.0
"""The longest pause in seconds that a worker can impose on managers by a Retry-After."""

CHOOSES = 0.2
"""The share, of runs whose workers a Placement chooses, with a tenant who would rather choose."""

ODD_CLUSTER = 0.02
"""The share of runs with a kubeconfig that must not be used, or not be shown."""

IMPERSONATES = 0.03
"""The share of runs in which a worker shows the identity of another one."""

WITHIN = 25.0
"""The time in seconds from the start in which adversaries begin."""


# --- hostile tenants -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfTenant(Adversity):
    name: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OddJob(_OfTenant):
    def describe(self) -> str:
        return f"a hostile tenant has a Job {self.name} with {ODD_JOBS[self.what]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandMade(_OfTenant):
    def describe(self) -> str:
        return f"a hostile tenant makes a Workload {self.name} by hand, with {HAND_MADE[self.what]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Squat(Adversity):
    """The tenant harms only their own job; jobs whose names share 53 characters collide like this by accident."""

    name: str

    def describe(self) -> str:
        return f"a hostile tenant has a Workload of somebody else's in the place that their Job {self.name} is about to need"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood(Adversity):
    """Ends after `lasts`."""

    name: str

    def describe(self) -> str:
        return f"a hostile tenant patches their Job {self.name} without pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose(Adversity):
    """The admin's Placement never decides for that worker."""

    name: str
    worker: str

    def describe(self) -> str:
        return f"a hostile tenant has a Job {self.name} that names a Placement of their own, for {self.worker}"


ODD_JOBS = {
    "digits": "a quantity of 5,000 digits",
    "exponent": "a quantity of 1e20000",
    "tiny": "a quantity of 1e-20000",
    "negative": "a negative quantity of 5,000 digits",
    "deep": "managedFields 9,900 levels deep",
    "deep-plain": "managedFields 9,900 levels deep, and no queue",
    "deep-template": "an affinity 9,900 levels deep",
    "owners": "49 controllers of a kind that is none",
    "labels": "labels and annotations of ours and of Kueue that are not theirs to write",
    "strategy": "a strategy, options and a Placement that are none",
    "large": "a million bytes of annotations and environment",
    "many": "2,147,483,647 pods",
    "priority": "a priority class that is none, and a maximum time that is no number",
}

HAND_MADE = {
    "winner": "a clusterName that nobody nominated",
    "nominations": "nominations of clusters that are none",
    "ready": "a reservation and a check that is Ready",
    "year": "conditions of the year 9999",
    "long": "texts of 32,768 characters",
    "digits": "quantities of 5,000 digits and 1e20000",
    "deep": "managedFields 9,900 levels deep",
    "copy": "the labels and annotations of a copy of ours",
}


# --- hostile workers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfWorker(Adversity):
    worker: str
    what: str

    @property
    def liar(self) -> str:
        return self.worker

    def control(self) -> tuple[Event, ...]:
        """At most as bad as a worker without a Kueue."""
        return (plans.RestartKueue(at=self.at, lasts=self.lasts, worker=self.worker),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slander(_OfWorker):
    """The worker admits no workload meanwhile; `what` selects the odd status of its copies."""

    def describe(self) -> str:
        return f"{self.worker} has in all copies that it does not admit {SLANDERS[self.what]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddAnswers(_OfWorker):
    def control(self) -> tuple[Event, ...]:
        """At most as bad as an outage of the worker."""
        return (plans.Outage(at=self.at, lasts=self.lasts + self.echo, host=self.worker),)

    @property
    def echo(self) -> float:
        """Seconds after the event in which managers may avoid the worker, as its answers asked them to."""
        return ASKED_TO_WAIT if self.what.startswith("retry") else 0.0

    def describe(self) -> str:
        return f"{self.worker} answers the managers with {ANSWERS[self.what]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impose(Adversity):
    """The objects last until the event ends or a manager removes them."""

    worker: str
    count: int

    def describe(self) -> str:
        return f"{self.worker} has {self.count} Workloads and Jobs with our origin that nobody made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonate(Adversity):
    """From the start and for ever, as a cluster does that was restored from a backup of the other one. It costs nobody
    anything."""

    worker: str
    other: str

    def describe(self) -> str:
        return f"{self.worker} shows the identity of {self.other}"


SLANDERS = {
    "long": "a message of 32,768 characters",
    "year": "a time in the year 9999",
    "check": "a check's message of 32,768 characters",
    "digits": "a quantity of 5,000 digits",
    "exponent": "a quantity of 1e20000",
    "deep": "managedFields 9,900 levels deep",
    "wild": "numbers that make no sense",
}

ANSWERS = {
    "endless": "pages without an end",
    "retry": "429, and Retry-After 999999999",
    "retry-details": "429, and retryAfterSeconds 1e300",
    "error": "an error of a million characters",
    "deep": "JSON 9,900 levels deep",
    "no-json": "bytes that are no JSON",
    "other": "JSON of another shape",
}


# --- clumsy admins ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondName(Adversity):
    worker: str
    configured: bool

    def describe(self) -> str:
        where = "in the MultiKueueConfig too" if self.configured else "which no config names"
        return f"an admin has a second MultiKueueCluster for {self.worker}, {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddCluster(Adversity):
    """No MultiKueueConfig names the cluster, so that it costs others nothing."""

    worker: str
    what: str

    def describe(self) -> str:
        return (
            f"an admin has another MultiKueueCluster for {self.worker}, whose kubeconfig has {KUBECONFIGS[self.what]}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCheck(Adversity):
    queue: str

    def control(self) -> None:
        return None

    def describe(self) -> str:
        return f"an admin takes the MultiKueue check out of ClusterQueue {self.queue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixUp(Adversity):
    """The managers are down for `down` seconds meanwhile."""

    worker: str
    other: str
    down: float

    def control(self) -> None:
        return None

    def describe(self) -> str:
        return f"an admin gives {self.worker} the kubeconfig of {self.other} while the managers are down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mislay(Adversity):
    """The object is recreated after `lasts`."""

    what: str

    def control(self) -> None:
        return None

    def describe(self) -> str:
        return f"an admin deletes the {self.what} that is in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mangle(Adversity):
    """The field is repaired after `lasts`."""

    what: str

    def control(self) -> None:
        return None

    def describe(self) -> str:
        return f"an admin spoils the {self.what} that is in use"


KUBECONFIGS = {
    "aliases": "1 KB of YAML aliases for 600 KB",
    "proxy": "the password of a proxy",
}

IN_USE = ("ClusterQueue", "LocalQueue", "ResourceFlavor", "AdmissionCheck", "MultiKueueConfig")
SPOILED = ("quota", "weight", "config", "strategy", "limit range", "flavor")


# --- from a seed -------------------------------------------------------------------------------------------------------------


def beset(plan: Plan) -> Plan:
    """The plan with adversaries, if its seed draws any."""
    return _with_impostor(_with_odd_cluster(_with_choice(_with_adversaries(plan))))


def _with_adversaries(plan: Plan) -> Plan:
    luck = random.Random(f"adversaries {plan.seed}")  # noqa: S311  # not a secret
    if plan.layout.core or luck.random() >= BESET:
        return plan
    kept = () if luck.random() < ALONE else plan.events
    draft = _Draft(replace(plan, events=kept), luck)
    acts = sorted((draft.act() for _ in range(luck.choice((1, 1, 2, 3)))), key=lambda act: act.at)
    return replace(plan, events=kept, adversaries=tuple(acts))


def _with_choice(plan: Plan) -> Plan:
    """Drawn apart, as few plans have a Placement to compete with."""
    luck = random.Random(f"choice {plan.seed}")  # noqa: S311  # not a secret
    others = [worker for worker in plan.workers if worker not in decided(plan)]
    is_chosen = plan.strategy == "external" and not (plan.has_dispatcher or plan.layout.core)
    if not is_chosen or not others or luck.random() >= CHOOSES:
        return plan
    return _with(plan, Choose(at=_moment(luck), name="chooser", worker=luck.choice(others)))


def _with_odd_cluster(plan: Plan) -> Plan:
    """Drawn apart, so that other plans stay the same."""
    luck = random.Random(f"odd cluster {plan.seed}")  # noqa: S311  # not a secret
    if plan.layout.core or luck.random() >= ODD_CLUSTER:
        return plan
    what = luck.choice(list(KUBECONFIGS))
    return _with(plan, OddCluster(at=_moment(luck), lasts=60.0, worker=luck.choice(plan.workers), what=what))


def _with_impostor(plan: Plan) -> Plan:
    """Drawn apart, so that other plans stay the same; where nothing else changes what names stand for."""
    luck = random.Random(f"impostor {plan.seed}")  # noqa: S311  # not a secret
    is_of_names = any(isinstance(each, (*_OF_NAMES, SecondName, MixUp)) for each in (*plan.events, *plan.adversaries))
    if is_of_names or len(plan.workers) < 2 or luck.random() >= IMPERSONATES:
        return plan
    one, other = luck.sample(plan.workers, 2)
    return _with(plan, Impersonate(at=0.0, worker=one, other=other))


def _moment(luck: random.Random) -> float:
    return round(luck.uniform(0, WITHIN), 3)


def _with(plan: Plan, act: Adversity) -> Plan:
    return replace(plan, adversaries=tuple(sorted((*plan.adversaries, act), key=lambda each: each.at)))


def decided(plan: Plan) -> frozenset[str]:
    """The workers that the admin's Placement decides for at some time."""
    changes = (event.clusters for event in plan.events if isinstance(event, plans.Decide))
    return frozenset(plan.layout.placement).union(*changes)


def control(plan: Plan) -> Plan | None:
    """The same run without adversaries, except for faults as costly as each of them may be to others; None if there is
    nothing to compare."""
    if not plan.adversaries or plan.events:
        return None
    allowed: list[Event] = []
    for act in plan.adversaries:
        costs = act.control()
        if costs is None:
            return None
        allowed += costs
    return replace(plan, adversaries=(), events=tuple(allowed))


class _Draft:
    """Adversaries under construction."""

    def __init__(self, plan: Plan, luck: random.Random) -> None:
        self.plan, self.luck = plan, luck
        self._names = self._fresh()

    def _fresh(self) -> Iterator[str]:
        number = 0
        while True:
            yield f"odd{number}"
            number += 1

    def act(self) -> Adversity:
        kinds = self.kinds()
        return self.luck.choices(list(kinds), weights=list(kinds.values()))[0](_moment(self.luck))

    def kinds(self) -> dict[Callable[[float], Adversity], float]:
        """The possible adversaries and their weights."""
        always: dict[Callable[[float], Adversity], float] = {
            self.odd_job: 6,
            self.hand_made: 4,
            self.squat: 2,
            self.flood: 1,
            self.slander: 4,
            self.odd_answers: 5,
            self.impose: 2,
        }
        # Other events must not change the names of clusters meanwhile: it would be undefined which of two names is
        # right.
        if any(isinstance(event, _OF_NAMES) for event in self.plan.events):
            return always
        return always | {self.second_name: 4, self.drop_check: 4, self.mix_up: 4, self.mislay: 2, self.mangle: 2}

    def odd_job(self, at: float) -> Adversity:
        return OddJob(at=at, name=next(self._names), what=self.luck.choice(list(ODD_JOBS)))

    def hand_made(self, at: float) -> Adversity:
        return HandMade(at=at, name=next(self._names), what=self.luck.choice(list(HAND_MADE)))

    def squat(self, at: float) -> Adversity:
        return Squat(at=at, name=next(self._names))

    def flood(self, at: float) -> Adversity:
        return Flood(at=at, lasts=self.luck.choice((2.0, 5.0)), name=next(self._names))

    def slander(self, at: float) -> Adversity:
        return Slander(at=at, lasts=self.long(), worker=self.worker(), what=self.luck.choice(list(SLANDERS)))

    def odd_answers(self, at: float) -> Adversity:
        lasts = self.luck.choice((3.0, 10.0, self.long()))
        return OddAnswers(at=at, lasts=lasts, worker=self.worker(), what=self.luck.choice(list(ANSWERS)))

    def impose(self, at: float) -> Adversity:
        return Impose(at=at, lasts=self.long(), worker=self.worker(), count=self.luck.choice((3, 30)))

    def second_name(self, at: float) -> Adversity:
        return SecondName(at=at, lasts=self.long(), worker=self.worker(), configured=self.luck.random() < 0.7)

    def drop_check(self, at: float) -> Adversity:
        return DropCheck(at=at, lasts=self.long(), queue=self.plan.layout.queues[0].name)

    def mix_up(self, at: float) -> Adversity:
        one, other = self.luck.sample(self.plan.workers, 2)
        return MixUp(at=at, lasts=self.long(), worker=one, other=other, down=2.0)

    def mislay(self, at: float) -> Adversity:
        return Mislay(at=at, lasts=self.long(), what=self.luck.choice(IN_USE))

    def mangle(self, at: float) -> Adversity:
        return Mangle(at=at, lasts=self.long(), what=self.luck.choice(SPOILED))

    def worker(self) -> str:
        return self.luck.choice(self.plan.workers)

    def long(self) -> float:
        return self.luck.choice((10.0, 30.0, 60.0))


_OF_NAMES = (plans.ForgetCluster, plans.LoseSecret, plans.Revoke, plans.Restore, plans.LeaveConfig)
