"""The job runner on a sandbox cluster, on virtual time. What it says in a status is tested with `runs`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from fakekube.model.wire import Object
from fakekube.network.link import State
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey, decoder, encode
from multikueue_simulator.workers.jobs.jobs import annotated, drawn
from multikueue_simulator.workers.jobs.runs import Life
from tests.builders import job
from tests.simulator.bench import NAMESPACE, Bench, on_bench

SECOND = timedelta(seconds=1)
FREE = {"suspend": False}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, Life(lasts=7 * SECOND), id="nothing said"),
        pytest.param({"run-seconds": "2.5"}, Life(lasts=2.5 * SECOND), id="a duration"),
        pytest.param({"run-seconds": "soon"}, Life(lasts=7 * SECOND), id="no number"),
        pytest.param({"run-seconds": "-1"}, Life(lasts=7 * SECOND), id="a negative number"),
        pytest.param({"fail": "2"}, Life(lasts=7 * SECOND, failures=2), id="some pods fail"),
        pytest.param({"fail": "true"}, Life(lasts=7 * SECOND, failures=2**31), id="all pods fail"),
        pytest.param({"fail": "perhaps"}, Life(lasts=7 * SECOND), id="neither number nor true"),
    ],
)
def test_a_job_may_say_how_it_fares(annotations: dict[str, str], expected: Life) -> None:
    body = {"annotations": {f"sandbox.multikueue.dev/{key}": value for key, value in annotations.items()}}
    seen = decoder(kinds.JOBS.type)(encode({"metadata": body}))
    assert annotated(Life(lasts=7 * SECOND))(seen) == expected


def test_what_is_drawn_for_a_job_is_the_same_each_time() -> None:
    lives = drawn(7, shortest=SECOND, longest=60 * SECOND, failing=0.5)
    jobs = [job(f"job{number}").build() for number in range(100)]
    assert [lives(each) for each in jobs] == [lives(each) for each in jobs]
    assert all(SECOND <= lives(each).lasts <= 60 * SECOND for each in jobs)
    assert 20 < sum(lives(each).failures > 0 for each in jobs) < 80


def test_annotations_go_before_what_is_drawn() -> None:
    lives = annotated(drawn(7, shortest=SECOND, longest=SECOND, failing=1.0))
    assert lives(job("j").build()) == Life(lasts=SECOND, failures=2**31)


def submit(worker: Bench, name: str = "job", **more: Any) -> Object:
    spec = {**FREE, **more.pop("spec", {})}
    return worker.submit(name, queue=None, spec=spec, **more)


@on_bench
async def test_jobs_run_as_long_as_they_say(worker: Bench) -> None:
    await worker.start_jobs()
    submit(worker, "short", seconds=2)
    submit(worker, "long", seconds=100)
    await anyio.sleep(10)
    assert (worker.ended("short"), worker.ended("long")) == ("Complete", "")
    await anyio.sleep(100)
    assert worker.ended("long") == "Complete"


@on_bench
async def test_how_jobs_fare_may_be_changed_meanwhile(worker: Bench) -> None:
    runner = await worker.start_jobs(annotated(Life(lasts=5 * SECOND)))
    submit(worker, "before")
    await anyio.sleep(10)
    runner.lives = annotated(Life(lasts=SECOND, failures=1))
    submit(worker, "after", spec={"backoffLimit": 0})
    await anyio.sleep(10)
    assert (worker.ended("before"), worker.ended("after")) == ("Complete", "Failed")


@on_bench
async def test_a_job_with_a_time_to_live_vanishes_after_it(worker: Bench) -> None:
    await worker.start_jobs()
    submit(worker, seconds=1, spec={"ttlSecondsAfterFinished": 60})
    await anyio.sleep(50)
    assert worker.ended() == "Complete"
    await anyio.sleep(20)
    assert worker.find(kinds.JOBS, "job") is None


@on_bench
async def test_a_job_of_the_same_name_is_another_one(worker: Bench) -> None:
    await worker.start_jobs()
    submit(worker, seconds=100)
    await anyio.sleep(10)
    worker.site.delete(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    submit(worker, seconds=20)
    await anyio.sleep(15)
    assert worker.ended() == ""
    await anyio.sleep(10)
    assert worker.ended() == "Complete"


@on_bench
async def test_another_runner_goes_on(worker: Bench) -> None:
    await worker.start_jobs()
    submit(worker, seconds=60, spec={"parallelism": 2, "completions": 4})
    await anyio.sleep(70)
    worker.kill("jobs")
    await worker.start_jobs()
    await anyio.sleep(60)
    assert worker.job()["status"]["succeeded"] == 4
    assert worker.ended() == "Complete"


@on_bench
async def test_a_status_that_somebody_else_changed_meanwhile_is_looked_at_again(worker: Bench) -> None:
    await worker.start_jobs()
    submit(worker, seconds=10)
    await anyio.sleep(5)
    key = ObjectKey(NAMESPACE, "job")
    link = worker.network.link("jobs", "worker")
    link.become(State.HANG)
    worker.site.patch(kinds.JOBS, key, {"metadata": {"annotations": {"a": "b"}}})
    await anyio.sleep(10)
    link.become(State.UP)
    await anyio.sleep(60)
    assert worker.ended() == "Complete"


@on_bench
async def test_pods_are_shown_where_they_are_wanted(worker: Bench) -> None:
    await worker.start_jobs(pods=True)
    submit(worker, seconds=10, spec={"parallelism": 2, "completions": 3, "completionMode": "Indexed"})
    await anyio.sleep(5)
    assert phases(worker) == ["0 Running", "1 Running"]
    await anyio.sleep(10)
    assert phases(worker) == ["0 Succeeded", "1 Succeeded", "2 Running"]
    worker.site.patch(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"spec": {"suspend": True}})
    await anyio.sleep(5)
    assert phases(worker) == ["0 Succeeded", "1 Succeeded"]
    worker.site.delete(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    await anyio.sleep(5)
    assert phases(worker) == []


def phases(worker: Bench) -> list[str]:
    bodies = worker.site.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    index = "batch.kubernetes.io/job-completion-index"
    return sorted(f"{body['metadata']['annotations'][index]} {body['status']['phase']}" for body in bodies)
