"""Whole lives: each seed lives the same life each time, in whatever process, and what is told of it is true."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from multikueue_simulator.simulation.invariants.state_invariants import StateInvariants
from multikueue_simulator.simulation.plan.plan import Crash, DeleteCopy, Freeze, JobPlan, Plan, Replica
from multikueue_simulator.simulation.runs import life
from multikueue_simulator.simulation.runs.batch import one, run_batch, told
from multikueue_simulator.simulation.runs.life import live
from multikueue_simulator.simulation.runs.story import story

CALM = Plan(seed=1, jobs=(JobPlan(name="a"), JobPlan(name="b", at=2.0, fails=True)))


def test_a_life_without_trouble_violates_no_invariant_and_costs_few_writes() -> None:
    outcome = live(CALM)
    assert outcome.violation is None
    assert outcome.writes <= len(CALM.jobs) * (7 + 2 * len(CALM.workers) + 2) + 20
    assert outcome.phases["NOMINATING", "ADMITTED"] == 2


def test_a_life_that_stands_still_is_a_failure_and_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stands_still(_plan: Plan, _outcome: life.Outcome) -> None:
        await anyio.Event().wait()

    monkeypatch.setattr(life, "_live", stands_still)

    violation = live(CALM).violation

    assert violation is not None
    assert violation.invariant == "stuck"


NOMINATED = replace(
    CALM,
    layout=replace(CALM.layout, core=True),
    replicas=(Replica(name="manager-0"), Replica(name="manager-1", nominates=True)),
    strategy="incremental",
    options={"step": 1, "round_length": "5s"},
)


def test_one_manager_may_nominate_for_another() -> None:
    outcome = live(NOMINATED, describe=True)
    assert outcome.violation is None
    assert outcome.phases["NOMINATING", "ADMITTED"] == 2
    writes = [text for _, text in outcome.trace.lines if text.startswith("manager-1 to ")]
    assert len(writes) >= 2
    assert {text.split()[2] for text in writes} == {"manager:"}


def test_who_only_nominates_is_not_asked_to_do_the_others_work() -> None:
    away = Crash(at=3.0, lasts=40.0, replica="manager-0")
    meddling = DeleteCopy(at=10.0, job="a", worker="@a")
    long = replace(NOMINATED, jobs=(JobPlan(name="a", seconds=60.0),), events=(away, meddling))
    assert live(long).violation is None


def test_the_story_of_a_life_tells_what_was_planned_and_what_happened() -> None:
    plan = Plan(seed=2, jobs=CALM.jobs, events=(Crash(at=1.0, lasts=2.0),))
    lines = list(story(plan, live(plan, describe=True)))
    assert any("manager-0 dies, for 2 s" in line for line in lines)
    assert lines.index("Planned:") < lines.index("What happened, by the seconds of the world:")
    assert lines[-1].startswith("No invariant was violated.")


def test_a_life_ends_though_a_manager_is_frozen_when_an_invariant_is_violated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        StateInvariants, "look", lambda self, at: self.broken("late", at, "it is late") if at > 3 else None
    )
    outcome = live(replace(CALM, events=(Freeze(at=2.0, lasts=30.0, replica="manager-0"),)))
    assert outcome.violation is not None
    assert outcome.violation.invariant == "late"


@pytest.mark.parametrize("seed", [3, 17, 40])
def test_a_seed_lives_the_same_life_each_time(seed: int) -> None:
    first = one(seed)
    assert first.digest
    assert one(seed).digest == first.digest


def test_a_seed_lives_the_same_life_in_other_processes() -> None:
    seeds = range(10, 12)
    first = {result.seed: result.digest for result in run_batch(seeds, processes=1)}
    again = {result.seed: result.digest for result in run_batch(reversed(seeds), processes=1)}
    assert first == again
    assert len(set(first.values())) == len(seeds)


def test_a_seed_can_be_told_from_another_process() -> None:
    lines, failed = told(5, everything=True)
    assert not failed
    assert lines[0].startswith("Seed 5. Workers: ")
