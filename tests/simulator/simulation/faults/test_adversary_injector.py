"""What adversaries do: each does something, no invariant is violated by it, and the invariants see what it may lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multikueue.controllers.leader_election.standby import look_at_all
from multikueue.errors import ClusterUnreachable
from multikueue_simulator.simulation.faults import adversary_injector
from multikueue_simulator.simulation.invariants.invariants import Course, held_up
from multikueue_simulator.simulation.plan import adversaries as acts
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.adversaries import OddJob, Slander, Squat
from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.plan.plan import Adversity, Event, JobPlan, Plan
from multikueue_simulator.simulation.runs.life import live
from multikueue_simulator.world.world import MANAGER, NAMESPACE, PLACEMENT, Layout

JOBS = tuple(JobPlan(name=f"job{number}", at=5.0 * number, seconds=15.0) for number in range(3))

ACTS: list[Adversity] = [
    OddJob(at=3.0, name="odd", what="digits"),
    OddJob(at=3.0, name="odd", what="deep-plain"),
    OddJob(at=3.0, name="odd", what="owners"),
    acts.HandMade(at=3.0, name="odd", what="ready"),
    Squat(at=3.0, name="odd"),
    acts.Flood(at=3.0, lasts=3.0, name="odd"),
    Slander(at=3.0, lasts=60.0, worker="worker1", what="digits"),
    acts.OddAnswers(at=8.0, lasts=5.0, worker="worker1", what="endless"),
    acts.Impose(at=3.0, lasts=30.0, worker="worker1", count=30),
    acts.SecondName(at=8.0, lasts=30.0, worker="worker2", configured=True),
    acts.OddCluster(at=8.0, lasts=60.0, worker="worker2", what="aliases"),
    acts.OddCluster(at=8.0, lasts=60.0, worker="worker2", what="proxy"),
    acts.Choose(at=3.0, name="odd", worker="worker2"),
    acts.DropCheck(at=8.0, lasts=30.0, queue="main"),
    acts.MixUp(at=8.0, lasts=30.0, worker="worker2", other="worker1", down=2.0),
    acts.Mislay(at=8.0, lasts=30.0, what="ClusterQueue"),
    acts.Mangle(at=8.0, lasts=30.0, what="quota"),
    acts.Impersonate(at=0.0, worker="worker2", other="worker1"),
]


PLAIN = Plan(seed=5, jobs=JOBS, adversaries=())


def placed() -> Plan:
    """The life in which a Placement has all jobs on worker1."""
    options = {"placement": f"{NAMESPACE}/{PLACEMENT}"}
    return replace(PLAIN, layout=Layout(placement=("worker1",)), strategy="external", options=options)


@pytest.fixture(scope="module")
def undisturbed() -> str:
    """The digest of the life that nobody disturbs."""
    return live(PLAIN).digest


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.describe())
def test_an_act_is_done_and_violates_no_invariant(act: Adversity, undisturbed: str) -> None:
    outcome = live(replace(placed() if isinstance(act, acts.Choose) else PLAIN, adversaries=(act,)), describe=True)
    assert outcome.violation is None
    assert any(act.describe() in text for _, text in outcome.trace.lines)
    assert outcome.digest != undisturbed


def test_every_kind_of_act_is_tried_here() -> None:
    kinds = {kind for name in acts.__all__ if isinstance(kind := getattr(acts, name), type)}
    assert {kind for kind in kinds if issubclass(kind, Adversity)} == {type(act) for act in ACTS}


@pytest.mark.parametrize("lasts", [60.0, 20.0], ids=["for long", "for less than what was won by it takes"])
def test_a_second_name_that_managers_find_first_is_the_name(lasts: float) -> None:
    """Invariants about the winner are about the worker that this name leads to."""
    second = acts.SecondName(at=0.0, lasts=lasts, worker="worker1", configured=True)
    outcome = live(Plan(seed=0, jobs=JOBS, adversaries=(second,)), describe=True)
    assert outcome.violation is None
    assert any("workload.admitted" in text and "cluster=second-name" in text for _, text in outcome.trace.lines)


def test_what_a_worker_says_of_all_copies_it_does_not_say_of_one_too_deep_to_be_written() -> None:
    assert live(drawn(11996)).violation is None


def test_who_tries_a_list_without_an_end_again_later_is_told_from_who_never_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two managers by two names of one worker ask for the same page 60 times, each after its back-off."""
    assert live(drawn(900030)).violation is None
    monkeypatch.setattr(adversary_injector, "_MANY_PAGES", 3)
    violation = live(drawn(900030)).violation
    assert violation is not None
    assert "page 'more' of /apis/" in violation.text


STOPPED = plans.StopQueue(at=8.0, lasts=2.0, host=MANAGER, policy="HoldAndDrain")
TWO_AT_A_TIME: list[tuple[tuple[Event, ...], tuple[Adversity, ...]]] = [
    ((STOPPED,), (acts.Mangle(at=9.0, lasts=30.0, what="quota"),)),
    ((STOPPED,), (acts.Mislay(at=9.0, lasts=30.0, what="ClusterQueue"),)),
    ((), (acts.DropCheck(at=8.0, lasts=9.0, queue="main"), acts.DropCheck(at=9.0, lasts=30.0, queue="main"))),
    ((), (acts.DropCheck(at=8.0, lasts=9.0, queue="main"), acts.Mislay(at=9.0, lasts=30.0, what="ClusterQueue"))),
]


@pytest.mark.parametrize(
    ("events", "adversaries"), TWO_AT_A_TIME, ids=lambda told: " and ".join(event.describe() for event in told)
)
def test_what_two_people_touched_at_a_time_is_whole_in_the_end(
    events: tuple[Event, ...], adversaries: tuple[Adversity, ...]
) -> None:
    jobs = (*JOBS, JobPlan(name="late", at=50.0))
    assert live(Plan(seed=5, jobs=jobs, events=events, adversaries=adversaries)).violation is None


def test_a_manager_that_ends_by_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr("multikueue.manager.life.look_at_all", fail)
    violation = live(Plan(seed=1, jobs=JOBS)).violation
    assert violation is not None
    assert (violation.invariant, "ValueError: odd" in violation.text) == ("ends", True)


def test_a_manager_that_ends_for_a_reason_that_it_knows_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [ClusterUnreachable("", "gone")]

    def fail(*args: Any) -> None:
        if left:
            raise left.pop()
        look_at_all(*args)

    monkeypatch.setattr("multikueue.manager.life.look_at_all", fail)
    assert live(Plan(seed=1, jobs=JOBS)).violation is None
    assert not left


PLAN = Plan(seed=1, jobs=(JobPlan(name="a", at=10.0), JobPlan(name="b")))


@pytest.mark.parametrize(
    ("ends", "without", "job"),
    [
        ({"a": 15.0}, {"a": 15.0}, ""),
        ({"a": 29.9}, {"a": 15.0}, ""),
        ({"a": 30.1}, {"a": 15.0}, "a"),
        ({"a": 99.0}, {}, ""),
        ({}, {"a": 15.0}, ""),
        ({"a": 15.0, "b": 99.0}, {"a": 15.0, "b": 5.0}, "b"),
    ],
    ids=[
        "as long",
        "twice as long and luck",
        "longer than that",
        "not to be compared, for it was meddled with there",
        "not to be compared, for it was meddled with here",
        "one of several",
    ],
)
def test_a_job_that_adversaries_hold_up_is_noticed(ends: dict[str, float], without: dict[str, float], job: str) -> None:
    violation = held_up(
        PLAN, *({name: Course(ended) for name, ended in courses.items()} for courses in (ends, without))
    )
    assert (violation is not None) == bool(job)
    assert violation is None or violation.text.startswith(f"{job} took")


SAME, LATER, LATE = "2030-01-01T00:00:08Z", "2030-01-01T00:00:09Z", "2030-01-01T00:00:10Z"


@pytest.mark.parametrize(
    ("a", "b", "queue", "is_noticed"),
    [
        (Course(71.0, 65.0, SAME), Course(60.0, 11.0, SAME), "main", False),
        (Course(71.0, 65.0, SAME), Course(60.0, 11.0, LATER), "main", True),
        (Course(71.0, 65.0, SAME), Course(60.0, 11.0, LATER), "other", False),
        (Course(71.0, 65.0, SAME), Course(60.0, 11.0, LATE), "other", True),
        (Course(71.0, 65.0, SAME), Course(70.0, 66.0, SAME), "main", True),
        (Course(99.0, 95.0, SAME), Course(60.0, 11.0, SAME), "main", True),
    ],
    ids=[
        "overtaken",
        "not by luck",
        "by one of another queue, on a worker",
        "by one of another queue that is younger",
        "not overtaken",
        "overtaken, and held up then",
    ],
)
def test_whom_others_overtook_by_luck_has_their_time_too(a: Course, b: Course, queue: str, is_noticed: bool) -> None:
    """Without adversaries the other one came later, for another second saw it made."""
    plan = replace(PLAN, jobs=(PLAN.jobs[0], replace(PLAN.jobs[1], queue=queue)))
    without = {"a": Course(15.0, 11.0, SAME), "b": Course(62.0, 12.0, LATER)}
    violation = held_up(plan, {"a": a, "b": b}, without)
    assert (violation.text.split()[0] if violation else "") == ("a" if is_noticed else "")


@pytest.mark.parametrize(("is_honest", "is_noticed"), [(True, True), (False, False)], ids=["an honest one", "a liar's"])
def test_what_a_liar_has_won_is_not_judged_and_keeps_others_waiting(is_honest: bool, is_noticed: bool) -> None:
    """It may run here for as long as the liar says, and be over at once without: then it is itself what took longer."""
    here = {"a": Course(71.0, 65.0, SAME), "b": Course(64.0, 11.0, SAME, is_honest=is_honest)}
    without = {"a": Course(15.0, 11.0, SAME), "b": Course(16.0, 12.0, SAME)}
    violation = held_up(PLAN, here, without)
    assert (violation.text.split()[0] if violation else "") == ("b" if is_noticed else "")


@pytest.mark.parametrize(("made", "is_noticed"), [(SAME, False), (LATER, True)], ids=["an elder", "a younger one"])
def test_who_was_before_an_elder_without_adversaries_has_no_right_to_that(made: str, is_noticed: bool) -> None:
    """A younger one may come into the second between the end of what is in an elder's way and the next look at that."""
    made_of_a = SAME if made == LATER else LATER
    without = {"a": Course(15.0, 11.0, made_of_a), "b": Course(62.0, 12.0, made)}
    here = {"a": Course(71.0, 65.0, made_of_a), "b": Course(60.0, 11.0, made)}
    assert (held_up(PLAN, here, without) is not None) == is_noticed
