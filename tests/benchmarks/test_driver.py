"""When the driver completes a job, and what it notes of the lines of its watches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

import anyio
import anyio.abc
import pytest

from benchmarks.driver import Ask, Driver
from benchmarks.timeline import Stage
from benchmarks.wire import Wire

pytestmark = pytest.mark.anyio

JOBS = "/apis/batch/v1/namespaces/team/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"


class Cluster:
    """A wire that keeps what was sent, and into whose watches a test puts lines."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.patched: list[str] = []
        self.deleted: list[str] = []
        self.items: list[object] = []
        self.watches: dict[str, Callable[[bytes], str]] = {}

    async def watch(
        self, path: str, on_event: Callable[[bytes], str], *, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        self.watches[path] = on_event
        task_status.started()
        await anyio.sleep_forever()

    async def post(self, path: str, body: bytes) -> bytes:
        assert path == JOBS
        self.posted.append(json.loads(body))
        return b""

    async def post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            await self.post(path, body)

    async def patch(self, path: str, body: bytes) -> bytes:
        self.patched.append(path)
        return body

    async def delete(self, path: str) -> bytes:
        self.deleted.append(path)
        return b""

    async def get(self, path: str) -> bytes:
        return json.dumps({"items": self.items}).encode()

    def say(self, path: str, name: str, *, change: str = "MODIFIED", **body: Any) -> str:
        tree = {"metadata": {"name": name, "resourceVersion": "9"}, "spec": {}, **body}
        return self.watches[path](json.dumps({"type": change, "object": tree}).encode())

    def say_job(self, name: str, *, suspend: bool, change: str = "MODIFIED") -> str:
        return self.say(JOBS, name, change=change, spec={"suspend": suspend})


class Field:
    """A driver between a manager cluster and two workers."""

    def __init__(self) -> None:
        self.manager, self.worker, self.other = Cluster(), Cluster(), Cluster()
        wires = [cast(Wire, cluster) for cluster in (self.manager, self.worker, self.other)]
        self.driver = Driver(wires[0], wires[1:], namespace="team")

    def noted(self, stage: Stage) -> list[str]:
        return list(self.driver.times.noted[stage])


@pytest.fixture(name="field")
async def _field() -> AsyncIterator[Field]:
    field = Field()
    async with field.driver.watching(closely=True):
        await field.driver.submit(["a", "b"])
        yield field


async def test_each_job_is_submitted_once_suspended_and_marked(field: Field) -> None:
    assert [body["metadata"]["name"] for body in field.manager.posted] == ["a", "b"]
    assert all(body["spec"]["suspend"] and body["spec"]["managedBy"] for body in field.manager.posted)
    assert field.noted(Stage.SUBMITTED) == ["a", "b"]


async def test_a_job_is_completed_once_it_runs_and_its_local_job_is_released(field: Field) -> None:
    field.worker.say_job("a", suspend=True)
    field.worker.say_job("a", suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.worker.patched == []
    field.manager.say_job("a", suspend=False)
    field.manager.say_job("a", suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.worker.patched == [f"{JOBS}/a/status"]
    assert field.other.patched == []
    assert field.noted(Stage.ENDED) == ["a"]


async def test_the_order_of_the_two_does_not_matter(field: Field) -> None:
    field.manager.say_job("a", suspend=False)
    field.other.say_job("a", suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.other.patched == [f"{JOBS}/a/status"]


async def test_held_jobs_run_until_they_are_let_go(field: Field) -> None:
    field.driver.hold()
    field.manager.say_job("a", suspend=False)
    field.worker.say_job("a", suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.worker.patched == []
    field.driver.let_go()
    field.manager.say_job("b", suspend=False)
    field.worker.say_job("b", suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.worker.patched == [f"{JOBS}/a/status", f"{JOBS}/b/status"]


async def test_of_held_jobs_the_first_can_be_ended_alone(field: Field) -> None:
    field.driver.hold()
    for name in ("b", "a"):
        field.manager.say_job(name, suspend=False)
        field.worker.say_job(name, suspend=False)
    await field.driver.end_one()
    assert field.worker.patched == [f"{JOBS}/b/status"]
    assert field.noted(Stage.ENDED) == ["b"]


@pytest.mark.parametrize(("tidy", "deleted"), [(True, [f"{JOBS}/a", f"{WORKLOADS}/wl"]), (False, [])])
async def test_a_job_is_deleted_where_wanted_once_it_is_over_everywhere(tidy: bool, deleted: list[str]) -> None:
    field = Field()
    async with field.driver.watching(tidy=tidy):
        await field.driver.submit(["a"])
        over = {"conditions": [{"type": "Finished", "status": "True"}]}
        owned = {"name": "wl", "resourceVersion": "1", "ownerReferences": [{"name": "a"}]}
        field.manager.say(WORKLOADS, "wl", metadata=owned, status=over)
        await anyio.wait_all_tasks_blocked()
        assert field.manager.deleted == []
        field.worker.say_job("a", suspend=False, change="DELETED")
        field.manager.say(WORKLOADS, "wl", metadata=owned, status=over)
        await anyio.wait_all_tasks_blocked()
    assert field.manager.deleted == deleted


async def test_a_stream_submits_each_job_when_it_is_due(field: Field) -> None:
    await field.driver.stream(["c", "d"], rate=1000)
    assert [body["metadata"]["name"] for body in field.manager.posted] == ["a", "b", "c", "d"]
    assert field.noted(Stage.SUBMITTED) == ["a", "b", "c", "d"]


async def test_jobs_are_of_a_priority_class_where_wanted(field: Field) -> None:
    field.driver.ask(priority_class="urgent")
    await field.driver.submit(["c"])
    labels = [body["metadata"]["labels"].get("kueue.x-k8s.io/priority-class") for body in field.manager.posted]
    assert labels == [None, None, "urgent"]


async def test_copies_are_known_by_the_name_of_the_workload(field: Field) -> None:
    owner = [{"name": "a"}]
    field.manager.say(WORKLOADS, "wl", metadata={"name": "wl", "resourceVersion": "1", "ownerReferences": owner})
    admitted = {"conditions": [{"type": "Admitted", "status": "True"}]}
    field.worker.say(WORKLOADS, "wl", change="ADDED")
    field.worker.say(WORKLOADS, "wl", status=admitted)
    assert field.noted(Stage.QUEUED) == field.noted(Stage.COPIED) == field.noted(Stage.ADMITTED) == ["a"]


async def test_jobs_of_an_earlier_block_are_not_noted(field: Field) -> None:
    field.worker.say_job("old", suspend=False)
    field.manager.say_job("old", suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.noted(Stage.CREATED) == field.worker.patched == []


async def test_a_listener_answers_the_version_to_go_on_from(field: Field) -> None:
    assert field.worker.say_job("a", suspend=True) == "9"
    assert field.manager.say(WORKLOADS, "wl", change="DELETED") == "9"


async def test_a_stage_is_reached_when_enough_jobs_are(field: Field) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: field.driver.reached(Stage.CREATED, 2, patience=30))
        await anyio.wait_all_tasks_blocked()
        field.worker.say_job("a", suspend=True)
        field.worker.say_job("b", suspend=True)
    assert await field.driver.reached(Stage.CREATED, 2, patience=0.01)


async def test_a_stage_that_nothing_comes_to_is_given_up(field: Field) -> None:
    field.worker.say_job("a", suspend=True)
    assert not await field.driver.reached(Stage.CREATED, 2, patience=0.01)


async def test_workers_are_clean_when_they_hold_no_workload(field: Field) -> None:
    assert await field.driver.clean(patience=1)
    field.other.items = [{}]
    assert not await field.driver.clean(patience=0.01)


async def test_some_jobs_are_held_and_the_others_are_not(field: Field) -> None:
    field.driver.hold({"a"})
    for name in ("a", "b"):
        field.manager.say_job(name, suspend=False)
        field.worker.say_job(name, suspend=False)
    await anyio.wait_all_tasks_blocked()
    assert field.worker.patched == [f"{JOBS}/b/status"]


async def test_jobs_ask_in_turn_for_what_they_are_told(field: Field) -> None:
    field.driver.ask_in_turn([Ask("1"), Ask("2", "high")])
    await field.driver.submit(["c", "d", "e"])
    asked = [
        body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] for body in field.manager.posted
    ]
    assert asked[2:] == [{"cpu": "1"}, {"cpu": "2"}, {"cpu": "1"}]
    labels = [body["metadata"]["labels"].get("kueue.x-k8s.io/priority-class") for body in field.manager.posted]
    assert labels[2:] == [None, "high", None]
