"""What a witness sees of a life: the phases, what is logged, and a sum over everything."""

from __future__ import annotations

from collections import Counter

import pytest
import structlog

from multikueue.workload.case import Case
from multikueue.workload.decide import decide
from multikueue_simulator.simulation.faults.partial_injector import Logs
from multikueue_simulator.simulation.plan.plan import Compact, JobPlan, Plan
from multikueue_simulator.simulation.runs.life import live
from multikueue_simulator.simulation.runs.recorder import Changes, Phases, Trace, logs_heard
from multikueue_simulator.time import run
from tests.builders import NOW, workload

PLAN = Plan(seed=5, jobs=(JobPlan(name="a", seconds=2.0),))


def test_changes_of_phase_are_counted_by_workload_and_not_each_look() -> None:
    changes: Changes = Counter()
    local = workload("wl").build()
    phases = Phases(changes)
    for case in (Case(now=NOW, key=local.key, workload=local), Case(now=NOW, key=local.key, workload=None)):
        for _ in range(3):
            phases(decide(case))
    assert changes == {("-", "UNRESERVED"): 1, ("UNRESERVED", "GONE"): 1}


def test_the_way_of_a_job_is_seen() -> None:
    phases = live(PLAN).phases
    assert sum(count for (_, after), count in phases.items() if after == "NOMINATING") == 1
    assert phases["NOMINATING", "ADMITTED"] == 1
    assert sum(count for (_, after), count in phases.items() if after == "FINISHED") == 1


def test_the_sum_is_over_everything_that_is_written_and_when() -> None:
    same, other = live(PLAN), live(Plan(seed=6, jobs=PLAN.jobs))
    assert live(PLAN).digest == same.digest != other.digest
    forgetful = Plan(seed=5, jobs=PLAN.jobs, events=(Compact(at=1.0, host="worker1"),))
    assert live(forgetful).digest != "", "it may be another, for watches start over"


def test_what_managers_do_and_log_is_told_if_somebody_listens() -> None:
    told = [text for _, text in live(PLAN, describe=True).trace.lines]
    assert any(text.startswith("manager-0 to worker") and text.endswith("jobs -> 201") for text in told)
    assert any(text.startswith("log: workload.finished (workload=default/job-a-") for text in told)
    assert live(PLAN).trace.lines == []


@pytest.mark.parametrize("level", ["warning", "error"])
def test_what_is_logged_as_an_error_is_a_crash(level: str) -> None:
    crashes: list[str] = []

    async def main() -> None:
        trace = Trace(is_told=True)
        with logs_heard(trace, Logs(), crashes.append):
            getattr(structlog.get_logger(), level)("reconcile.crashed", key="x", exc_info=ValueError("no"))
        assert [text for _, text in trace.lines] == ["log: reconcile.crashed (key=x)"]

    run(main)
    assert crashes == (["reconcile.crashed (key=x): ValueError('no')"] if level == "error" else [])
