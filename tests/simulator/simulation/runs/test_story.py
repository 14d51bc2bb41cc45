"""A life in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from multikueue_simulator.simulation.invariants.invariants import Violation
from multikueue_simulator.simulation.plan.plan import Crash, JobPlan, Plan, Replica
from multikueue_simulator.simulation.runs.life import Outcome
from multikueue_simulator.simulation.runs.recorder import Trace
from multikueue_simulator.simulation.runs.story import phase_table, story
from multikueue_simulator.world.world import Layout, Share

PLAN = Plan(
    seed=7,
    layout=Layout(queues=(Share("main", 4),), workers=(Share("w1", 2), Share("w2", 8)), core=True),
    replicas=(Replica(name="manager-0"), Replica(name="manager-1", skew=-1.5)),
    elected=True,
    strategy="incremental",
    options={"step": 2},
    jobs=(JobPlan(name="a", at=3.0, pods=2, seconds=1.5, fails=True),),
    events=(Crash(at=1.0, write=4, before=True, lasts=2.0),),
)


def test_the_setting_comes_first_then_what_was_planned_then_what_was_broken() -> None:
    outcome = Outcome(7, violation=Violation("I1", 4.25, "two have it"))
    assert list(story(PLAN, outcome)) == [
        "Seed 7. Workers: w1 with 2 CPU, w2 with 8 CPU. Queues: main with 4 CPU.",
        "A Kueue on the manager cluster keeps jobs and quota; ours is beside it.",
        "Managers: manager-0, manager-1 (clock -1.5 s); elected. Strategy: incremental step=2",
        "A worker is lost after 20 s; heartbeat every 3 s, calls take 8 s at most, the way 0.5 to 3 ms.",
        "",
        "Planned:",
        "     1.000  manager-0 dies, for 2 s (just before write 4 of a manager from then on)",
        "     3.000  a user submits job a to queue main: 2 pods of 1 CPU for 1.5 s, which fail",
        "",
        "Broken: I1 at 4.250 s: two have it",
    ]


def test_who_only_nominates_is_told() -> None:
    plan = replace(PLAN, replicas=(Replica(name="manager-0"), Replica(name="manager-1", nominates=True, skew=2.0)))
    assert "manager-0, manager-1 (nominates, clock +2 s);" in list(story(plan, Outcome(7)))[2]


def test_what_happened_is_told_if_it_was_kept() -> None:
    outcome = Outcome(7, settled=80.4, trace=Trace(is_told=True, lines=[(1.25, "manager-0 dies")]))
    lines = list(story(PLAN, outcome))
    assert lines[-4:] == [
        "What happened, by the seconds of the world:",
        "     1.250  manager-0 dies",
        "",
        "No invariant was violated. All had settled by 80 s.",
    ]


def test_phases_are_listed_by_how_often_they_changed() -> None:
    changes = Counter({("A", "B"): 1, ("LONG", "NAME"): 30, ("A", "A"): 1})
    assert list(phase_table(changes)) == ["LONG -> NAME  30", "A -> A        1", "A -> B        1"]
    assert list(phase_table(Counter())) == []
