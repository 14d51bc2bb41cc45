from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import PodSetRequest
from multikueue.api.meta import Object, ObjectKey
from multikueue.testing import NOW
from multikueue_console.history.outlook import HORIZON, PLAYS, PlayedJob, forecast, jobs_of, objects_of, play
from multikueue_console.history.run_times import FEWEST, JobShape, RunTimes
from multikueue_console.history.runs import Outcome, Run
from multikueue_console.model.objects import SeenObjects
from tests.builders import cluster_queue, flavor, local_queue, namespace, workload
from tests.console.history.coverage import told_and_true

HOUR = timedelta(hours=1)
SHAPE = JobShape("cq", "ada", "cpu-1")


def objects(cpu: float = 1) -> list[Object]:
    queue = cluster_queue("cq").quota("default", cpu=cpu).strict_fifo()
    return [namespace("default").build(), flavor().build(), queue.build(), local_queue("lq", "cq").build()]


def job(name: str, *, cpu: float = 1, minute: float = 0, started: float | None = None) -> PlayedJob:
    """Submitted at that minute; `started` at that minute, if it runs."""
    return PlayedJob(
        key=ObjectKey("default", name),
        queue="lq",
        shape=SHAPE,
        amounts={"cpu": round(1000 * cpu)},
        created=NOW + timedelta(minutes=minute),
        started=None if started is None else NOW + timedelta(minutes=started),
        flavors={} if started is None else {"cpu": "default"},
    )


def seen(*hours: float) -> RunTimes:
    """Enough runs of each of these lengths."""
    runs = [
        Run(
            workload="uid",
            attempt="one",
            namespace="default",
            name="old",
            cluster_queue="cq",
            user="ada",
            cpu=1,
            started_at=NOW - each * HOUR,
            ended_at=NOW,
            outcome=Outcome.SUCCEEDED,
        )
        for each in hours
        for _ in range(FEWEST)
    ]
    return RunTimes(runs, NOW)


RUNNING, FIRST, SECOND = job("running", started=-30), job("first"), job("second", minute=1)


def test_a_line_is_played_forward_in_its_order() -> None:
    starts = play(objects(), [RUNNING, FIRST, SECOND], lambda _, __: 3600, NOW)
    assert starts == {FIRST.key: NOW + HOUR / 2, SECOND.key: NOW + 1.5 * HOUR}


def test_who_comes_later_waits_behind_and_a_job_without_an_end_holds_its_quota() -> None:
    late = job("late", minute=10)
    assert play(objects(), [RUNNING], lambda _, __: 3600, NOW, arrivals=[late]) == {late.key: NOW + HOUR / 2}
    assert play(objects(), [RUNNING, FIRST], lambda _, __: None, NOW) == {}


def test_a_forecast_has_a_range_and_a_middle() -> None:
    told = forecast(objects(), [RUNNING, FIRST], seen(1), NOW, random.Random(1))[FIRST.key]
    assert told is not None
    assert told.low == told.middle == told.high == NOW + HOUR / 2
    wide = forecast(objects(), [RUNNING, FIRST], seen(1, 3, 9), NOW, random.Random(1))[FIRST.key]
    assert wide is not None
    assert wide.low < wide.middle < wide.high


@pytest.mark.parametrize(
    ("jobs", "times"),
    [
        pytest.param([RUNNING, FIRST], RunTimes([], NOW), id="no run times were seen in its queue"),
        pytest.param([replace(FIRST, amounts={"cpu": 9000})], seen(1), id="it can never start"),
        pytest.param([RUNNING, FIRST], seen(HORIZON / HOUR * 2), id="not before the horizon"),
    ],
)
def test_what_is_unknown_is_told_as_unknown(jobs: Iterable[PlayedJob], times: RunTimes) -> None:
    assert forecast(objects(), [*jobs], times, NOW, random.Random(1)) == {FIRST.key: None}


def test_what_a_console_has_seen_is_played() -> None:
    going = workload("going").queue("lq").request(cpu=1).created(NOW - HOUR).reserved("cq", at=NOW - HOUR / 2).build()
    over = workload("over").queue("lq").request(cpu=1).created(NOW).admitted(at=NOW).finished(at=NOW).build()
    waits = workload("waits").queue("lq").created(NOW).build()
    asks = replace(waits.status, resource_requests=(PodSetRequest(name="main", resources={"cpu": "1"}),))
    queue, local = cluster_queue("cq").quota("default", cpu=1).strict_fifo().build(), local_queue("lq", "cq").build()
    shown = [going, over, replace(waits, status=asks), workload("new").queue("lq").created(NOW).build()]
    seen_objects = SeenObjects(
        workloads={each.key: each for each in shown},
        cluster_queues={queue.key: queue},
        local_queues={local.key: local},
    )
    jobs = jobs_of(seen_objects)
    assert [(each.key.name, each.started, each.flavors) for each in jobs] == [
        ("going", NOW - HOUR / 2, {"cpu": "default"}),
        ("waits", None, {}),
    ]
    others = [namespace("default").build(), flavor().build()]
    assert play([*others, *objects_of(seen_objects)], jobs, lambda _, __: 3600, NOW) == {waits.key: NOW + HOUR / 2}


@pytest.mark.timeout(300)  # 20 s of CPU
def test_of_ranges_of_four_in_five_so_many_hold_on_drawn_traces() -> None:
    """On days of two mixes with half of the plays; `coverage` counts with all of them, and without a strict order."""
    days = [(mix, seed) for mix in ("openb", "pai") for seed in range(16)]
    found = [each for mix, seed in days for each in told_and_true(mix, seed, is_strict=True, plays=PLAYS // 2)]
    share = sum(told.low <= start <= told.high for told, start in found) / len(found)
    assert len(found) >= 30
    assert 0.75 <= share <= 0.85, f"{share:.3f} of {len(found)}"
