"""Random histories of one workload over three workers: one file, one state machine and its rules.

A model of the world stands in for the clusters: what is there (`truth`), what the manager last saw, a core that evicts and
reserves. Each step is one event of chance. Seeds make every history replayable: a failure prints its story.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, NOMINATED, QUOTA_RESERVED, Workload
from multikueue.dispatch.copies.effects import (
    Action,
    CreateJob,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    FindJob,
    PatchStatus,
    effects,
)
from multikueue.dispatch.remote import Asked, Link, Reach, Remote
from multikueue.strategy import Fleet, Nomination, Strategy
from multikueue.strategy import Workload as StrategyWorkload
from multikueue.testing import NOW
from multikueue.workload.case import Case
from multikueue.workload.case import Fleet as GroupFleet
from multikueue.workload.decide import decide, plan
from multikueue.workload.decision_rules import DecisionRules
from multikueue.workload.handlers.evicting import is_holding
from multikueue.workload.phases import Phase
from multikueue.workload.strategy_call import LoadedStrategy, NominationResult
from multikueue_strategies.incremental import Incremental
from tests.workload.builders import CHECK, EVERYWHERE, copy, pending, remote_job, shown, with_nomination

LOST_AFTER, GIVEN_UP, CARRIED_OUT = timedelta(minutes=15), timedelta(seconds=10), timedelta(minutes=1)
WORKERS = ("w1", "w2", "w3")


@dataclass
class Side:
    """One worker: what is there, and what the manager knows of it."""

    workload: Workload | None = None
    job: Job | None = None
    finished: bool = False
    deactivated: bool = False
    away_since: datetime | None = None
    seen_workload: Workload | None = None
    seen_job: Job | None = None
    known: bool = True
    silent: bool = False
    asked: str = ""
    asked_until: datetime = NOW
    under_way: str = ""
    """A request for a job that was given up, and may still be carried out."""

    def look(self) -> None:
        if self.away_since is None:
            self.seen_workload, self.seen_job, self.known = self.workload, self.job, True
            if self.job is not None:
                self.asked = ""


@dataclass
class World:
    chance: random.Random
    now: datetime = NOW
    local: Workload | None = None
    sides: dict[str, Side] = field(default_factory=lambda: {name: Side() for name in WORKERS})
    starts: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    phases: set[tuple[Phase, Phase]] = field(default_factory=set)
    phase: Phase = Phase.GONE
    uids: int = 0
    choice: tuple[str, str] = ("", "")
    nomination_result: NominationResult | None = None
    strategy: LoadedStrategy = EVERYWHERE

    def __post_init__(self) -> None:
        self.local = pending().build()
        self.reserve()

    # The manager.

    def case(self) -> Case:
        remotes = tuple(self._remote(name, side) for name, side in self.sides.items())
        case = Case(
            key=pending().build().key,
            now=self.now,
            workload=self.local,
            rules=DecisionRules(lost_after=LOST_AFTER),
            check=CHECK,
            remotes=remotes,
            fleet=GroupFleet(tuple(map(shown, remotes))),
        )
        case = replace(case, is_job_finished=self._is_told(case))
        attempt, choice = self.choice
        return (
            replace(case, choice=choice, nomination_result=self.nomination_result) if attempt == case.attempt else case
        )

    def _is_told(self, case: Case) -> bool:
        """Whether the jobs controller has copied a result: of the winner, or of the job of this attempt."""
        winner = self.local.status.cluster_name if self.local else None
        ended = {name: side for name, side in self.sides.items() if side.finished}
        return winner in ended or any(case.is_current(side.seen_job) for side in ended.values())

    def _remote(self, name: str, side: Side) -> Remote:
        return Remote(
            cluster=name,
            link=Link(
                reach=Reach.CONNECTED if side.away_since is None else Reach.ISOLATED,
                since=side.away_since,
                is_known=side.known,
                is_silent=side.silent,
            ),
            workload=side.seen_workload,
            job=side.seen_job,
            asked=Asked(side.asked, side.asked_until) if side.asked else None,
        )

    def manage(self) -> None:
        """One look: write the status, then perform the actions, of which any may fail or lose its answer."""
        case = with_nomination(self.case(), by=self.strategy)
        self.choice, self.nomination_result = (case.attempt, case.chosen), case.nomination_result
        decision = decide(case)
        self.phases.add((self.phase, decision.phase))
        self.phase = decision.phase
        if decision.again_after is not None and decision.again_after <= timedelta():
            assert decision.status not in (None, self.local and self.local.status), "at once, and nothing changes"
        if self.local is not None and decision.status is not None:
            self.local = msgspec.structs.replace(self.local, status=decision.status)
        after = case.after(self.local) if self.local is not None else case
        made = plan(after, decision)
        for remote in self.case().remotes:
            for action in effects(made, remote, self.now):
                self.perform(action)

    def perform(self, action: Action) -> None:
        side = self.sides[action.cluster]
        assert side.away_since is None, f"{action} for a worker out of reach"
        if side.silent or self.chance.random() < 0.15:
            return
        match action:
            case CreateWorkload() if side.workload is not None:
                side.look()  # the name is taken: by ours, which is adopted
            case CreateWorkload():
                mark = action.body["metadata"]["annotations"]["multikueue.dev/attempt"]
                side.deactivated = False
                side.workload = copy(mark).uid(self.uid()).created(self.now).build()
            case DeleteWorkload():
                if side.workload is not None and side.workload.metadata.uid == action.uid:
                    side.workload = None
            case CreateJob():
                self.create_job(action, side)
            case DeleteJob():
                if side.job is not None and side.job.metadata.uid == action.uid:
                    side.job, side.finished = None, False
            case FindJob():
                assert self.now >= side.asked_until, "it may still be carried out"
                side.look()
                side.asked = ""
            case PatchStatus():
                self.worker_evicts(side)
                side.deactivated = True
        if self.chance.random() < 0.9:
            side.look()

    def create_job(self, action: CreateJob, side: Side) -> None:
        side.asked, side.asked_until = action.attempt, self.now + GIVEN_UP + CARRIED_OUT
        if self.chance.random() < 0.2:
            side.under_way = action.attempt
        else:
            self.make_job(action.cluster, side, action.attempt)
        if self.chance.random() < 0.1:
            self.cut(action.cluster)

    def make_job(self, cluster: str, side: Side, attempt: str) -> None:
        for name, other in self.sides.items():
            assert other is side or other.job is None or self.is_lost(other), f"second job beside {name}"
        if side.job is None:
            side.job = remote_job(attempt).uid(self.uid()).created(self.now).build()
            self.starts.append(cluster)

    def is_lost(self, side: Side) -> bool:
        return side.away_since is not None and self.now >= side.away_since + LOST_AFTER

    def carry_out(self, name: str, side: Side) -> None:
        """What is left of a request is carried out late, if ever. To nobody's harm on a worker that counts as lost."""
        if side.under_way and self.now <= side.asked_until and not self.is_lost(side):
            self.make_job(name, side, side.under_way)
        side.under_way = ""

    def uid(self) -> str:
        self.uids += 1
        return f"u{self.uids}"

    # The core on the manager.

    def reserve(self) -> None:
        assert self.local is not None
        self.now += timedelta(seconds=1)
        built = dataclasses.replace(pending(), value=self.local).reserved("cq", at=self.now).check(CHECK, at=self.now)
        self.local = msgspec.structs.replace(
            built.condition(EVICTED, "False", reason="QuotaReserved").build(), spec=self.local.spec
        )

    def core(self) -> None:
        local = self.local
        if local is None or local.has(FINISHED):
            return
        if not local.has(QUOTA_RESERVED):
            self.reserve()
        elif local.has(EVICTED) and self.case().is_job_finished:
            self.local = dataclasses.replace(pending(), value=local).finished(at=self.now).build()
        elif local.has(EVICTED) and not is_holding(self.case()):
            freed = (
                dataclasses.replace(pending(), value=local).unreserved(at=self.now).check(CHECK, at=self.now).build()
            )
            status = msgspec.structs.replace(freed.status, cluster_name=None, nominated_cluster_names=())
            self.local = msgspec.structs.replace(local, status=status)
        elif any(c.state == "Retry" for c in local.status.admission_checks):
            evicted = (
                dataclasses.replace(pending(), value=local)
                .evicted("AdmissionCheck", at=self.now)
                .check(CHECK, at=self.now)
            )
            self.local = msgspec.structs.replace(local, status=evicted.build().status)

    # Chance.

    def worker_admits(self, side: Side) -> None:
        if side.workload is not None and not side.workload.has(FINISHED) and not side.deactivated:
            built = (
                dataclasses.replace(copy(), value=side.workload).reserved("remote", at=self.now).admitted(at=self.now)
            )
            status = built.condition(EVICTED, "False").build().status
            side.workload = msgspec.structs.replace(side.workload, status=status)

    def worker_evicts(self, side: Side) -> None:
        if side.workload is not None and side.workload.has(ADMITTED) and not side.workload.has(FINISHED):
            built = dataclasses.replace(copy(), value=side.workload).evicted(at=self.now).unreserved(at=self.now)
            side.workload = msgspec.structs.replace(side.workload, status=built.build().status)

    def job_ends(self, side: Side) -> None:
        if side.workload is not None and side.job is not None and side.workload.has(ADMITTED):
            side.finished = True
            status = dataclasses.replace(copy(), value=side.workload).finished(at=self.now).build().status
            side.workload = msgspec.structs.replace(side.workload, status=status)

    def copy_vanishes(self, side: Side) -> None:
        side.workload, side.job, side.finished = None, None, False

    def cut(self, name: str) -> None:
        if self.sides[name].away_since is None:
            self.sides[name].away_since = self.now

    def restore(self, name: str) -> None:
        self.sides[name].away_since, self.sides[name].silent = None, False
        self.sides[name].look()

    def fall_silent(self, side: Side) -> None:
        side.silent = True

    def answer_again(self, side: Side) -> None:
        side.silent = False

    def crash(self) -> None:
        """A new process knows what it can reach, and of the others nothing."""
        self.choice, self.nomination_result = ("", ""), None
        for side in self.sides.values():
            side.asked, side.seen_workload, side.seen_job, side.known = "", None, None, False
            side.under_way = ""  # what the one before had under way is beyond any memory
            side.look()

    def step(self) -> None:
        name = self.chance.choice(WORKERS)
        side = self.sides[name]
        events = [
            (10, "manage", self.manage),
            (4, "core", self.core),
            (6, f"{name} admits", lambda: self.worker_admits(side)),
            (1, f"{name} evicts", lambda: self.worker_evicts(side)),
            (2, f"job ends on {name}", lambda: self.job_ends(side)),
            (0.3, f"copy vanishes on {name}", lambda: self.copy_vanishes(side)),
            (1.2, f"cut {name}", lambda: self.cut(name)),
            (0.5, f"{name} carries out what is left", lambda: self.carry_out(name, side)),
            (2, f"restore {name}", lambda: self.restore(name)),
            (0.8, f"{name} falls silent", lambda: self.fall_silent(side)),
            (2, f"{name} answers again", lambda: self.answer_again(side)),
            (0.8, "crash", self.crash),
            (5, "see", self.see),
            (2, "minutes pass", self.minutes_pass),
            (0.2, "user deletes", self.delete_local),
        ]
        weights = [weight for weight, _, _ in events]
        _, told, event = self.chance.choices(events, weights)[0]
        self.story.append(told)
        event()
        self.now += timedelta(seconds=1)
        self.check()

    def see(self) -> None:
        for side in self.sides.values():
            side.look()

    def minutes_pass(self) -> None:
        self.now += timedelta(minutes=self.chance.choice((1, 5, 20)))

    def delete_local(self) -> None:
        self.local = None

    def check(self) -> None:
        if self.local is None:
            return
        status = self.local.status
        assert not (status.cluster_name and status.nominated_cluster_names)
        if any(c.state == "Ready" for c in status.admission_checks):
            assert status.cluster_name
        assert not (status.cluster_name and self.local.condition(NOMINATED))
        assert len(status.nominated_cluster_names) == len(set(status.nominated_cluster_names))

    def settle(self) -> None:
        """Faults end: everything is reachable, and the world takes its turns until nothing changes."""
        for name in WORKERS:
            self.restore(name)
        self.now += GIVEN_UP + CARRIED_OUT
        for _ in range(60):
            before = (self.local, [(s.workload, s.job, s.asked) for s in self.sides.values()])
            self.core()
            self.manage()
            for side in self.sides.values():
                side.look()
            winner = self.local and self.local.status.cluster_name
            if winner:
                self.job_ends(self.sides[winner])
            elif self.local is not None and not self.local.has(FINISHED):
                for side in self.sides.values():
                    self.worker_admits(side)
            for side in self.sides.values():
                side.look()
            self.now += timedelta(seconds=1)
            if before == (self.local, [(s.workload, s.job, s.asked) for s in self.sides.values()]):
                return


def history(seed: int, steps: int = 60, *, strategy: Strategy | None = None) -> World:
    world = World(random.Random(seed))
    if strategy is not None:
        world.strategy = LoadedStrategy("chosen", strategy)
    try:
        for _ in range(steps):
            world.step()
        world.story.append("faults end")
        if isinstance(strategy, Moody):
            strategy.mood = None
        world.chance = _Calm()
        world.settle()
        assert world.local is None or world.local.has(FINISHED), "did not finish"
        left = [name for name, side in world.sides.items() if side.workload or side.job]
        assert not left, f"left behind on {left}"
    except AssertionError as error:
        error.add_note(f"seed {seed}: {', '.join(world.story)}")
        raise
    return world


class _Calm(random.Random):
    """Nothing fails any more."""

    def random(self) -> float:
        return 0.5


@dataclass
class Moody:
    """As bad as a strategy can be, as long as it has a mood: says anything, raises, gives back, remembers, forgets."""

    mood: random.Random | None

    def nominate(self, workload: StrategyWorkload, fleet: Fleet) -> Nomination:
        if self.mood is None:
            return Nomination(fleet.names)
        wait = self.mood.choice((None, timedelta(microseconds=1), timedelta(minutes=5), timedelta.max))
        reason = self.mood.choice(("", "", f"call {self.mood.random()}"))
        names = [*fleet.names, *workload.nominated_clusters, "nobody"]
        match self.mood.randrange(6):
            case 0:
                raise ValueError("in no mood")
            case 1:
                return Nomination(reason=reason, give_back=True)
            case 2:
                return Nomination(tuple(self.mood.sample(names, self.mood.randint(0, len(names)))), wait, reason)
            case _:
                some = self.mood.sample(fleet.names, self.mood.randint(0, len(fleet.names)))
                return Nomination(tuple(some), wait, reason)


@pytest.mark.parametrize("block", range(2))
def test_histories_with_rounds_keep_the_rules_and_come_to_rest(block: int) -> None:
    for seed in range(block * 100, (block + 1) * 100):
        patience = timedelta(minutes=5) if seed % 2 else None
        history(seed, strategy=Incremental(step=1 + seed % 2, give_back_after=patience))


@pytest.mark.parametrize("block", range(2))
def test_histories_under_the_worst_strategy_keep_the_rules_and_come_to_rest(block: int) -> None:
    for seed in range(block * 100, (block + 1) * 100):
        history(seed, strategy=Moody(random.Random(seed)))


@pytest.mark.parametrize("block", range(4))
def test_histories_keep_the_rules_and_come_to_rest(block: int) -> None:
    seen: set[tuple[Phase, Phase]] = set()
    for seed in range(block * 250, (block + 1) * 250):
        seen |= history(seed).phases
    assert len({phase for _, phase in seen}) >= 9, "the walk must reach most phases"
