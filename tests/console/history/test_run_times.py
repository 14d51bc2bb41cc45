from __future__ import annotations

import random
from datetime import timedelta
from statistics import median

import pytest

from multikueue.testing import NOW
from multikueue_console.history.run_times import FEWEST, JobShape, RunTimes, size_class
from multikueue_console.history.runs import Outcome, Run

SHAPE = JobShape("cq", "ada", "gpu-1")


def run(seconds: float, *, user: str = "ada", gpu: float = 1, outcome: str = Outcome.SUCCEEDED) -> Run:
    """A run that ended now after so many seconds, or that runs for so long if it has no outcome."""
    return Run(
        workload="uid",
        attempt="one",
        namespace="team",
        name="train",
        cluster_queue="cq",
        user=user,
        gpu=gpu,
        started_at=NOW - timedelta(seconds=seconds),
        ended_at=NOW if outcome else None,
        outcome=outcome,
    )


def middle(times: RunTimes, shape: JobShape = SHAPE, *, elapsed: float = 0.0) -> float:
    luck = random.Random(1)
    drawn = [times.resampled(luck).draw(shape, elapsed=elapsed) for _ in range(400)]
    return median(each for each in drawn if each is not None)


@pytest.mark.parametrize(
    ("cpu", "gpu", "expected"),
    [(4, 0, "cpu-4"), (5, 0, "cpu-8"), (8, 1, "gpu-1"), (8, 5, "gpu-8"), (8, 0.5, "gpu-1"), (0, 0, "none")],
)
def test_sizes_are_powers_of_two_of_gpus_or_else_of_cpus(cpu: float, gpu: float, expected: str) -> None:
    assert size_class(cpu, gpu) == expected


def test_of_too_few_runs_nothing_is_known() -> None:
    assert RunTimes([run(60)] * (FEWEST - 1), NOW).resampled(random.Random(1)).draw(SHAPE) is None
    assert middle(RunTimes([run(60)] * FEWEST, NOW)) == 60


def test_the_narrowest_group_of_which_enough_is_known_counts() -> None:
    runs = [*[run(60)] * FEWEST, *[run(600, user="bob")] * FEWEST * 3, *[run(6000, user="bob", gpu=8)] * FEWEST * 9]
    times = RunTimes(runs, NOW)
    assert middle(times) == 60
    assert middle(times, JobShape("cq", "eve", "gpu-1")) == 600
    assert middle(times, JobShape("cq", "eve", "gpu-64")) == 6000


def test_runs_that_go_on_or_were_interrupted_tell_that_run_times_are_longer() -> None:
    short, long = [run(60)] * FEWEST, [run(3600)] * FEWEST
    assert middle(RunTimes([*short, *long], NOW)) <= 3600
    for outcome in ("", Outcome.EVICTED):
        going = [run(1800, outcome=outcome)] * FEWEST * 2
        assert middle(RunTimes([*short, *long, *going], NOW)) == 3600


def test_a_job_that_has_run_for_long_ends_later_than_that() -> None:
    times = RunTimes([run(10 * number) for number in range(1, 50)], NOW)
    luck = random.Random(1)
    assert all((times.resampled(luck).draw(SHAPE, elapsed=300) or 0) > 300 for _ in range(100))
    assert 900 < middle(times, elapsed=500) < 1100  # beyond all: as long again in half of all cases
