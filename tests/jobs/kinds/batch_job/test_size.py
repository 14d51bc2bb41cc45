from __future__ import annotations

import pytest

from multikueue.jobs.kinds.batch_job.size import fewest_pods, pods_count
from tests.builders import job
from tests.jobs.builders import with_spec


@pytest.mark.parametrize(
    ("parallelism", "completions", "pods"), [(5, 3, 3), (3, 5, 3), (4, None, 4), (0, 2, 0), (2, 0, 0)]
)
def test_as_many_pods_as_run_at_a_time(parallelism: int, completions: int | None, pods: int) -> None:
    assert pods_count(with_spec(job("j").build(), parallelism=parallelism, completions=completions)) == pods


@pytest.mark.parametrize(("said", "fewest"), [("2", 2), ("4", 4), ("5", None), ("0", None), ("x", None)])
def test_fewer_will_do_if_that_makes_sense(said: str, fewest: int | None) -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": said}
    assert fewest_pods(job("j").parallelism(4).completions(4).annotations(annotations).build()) == fewest
