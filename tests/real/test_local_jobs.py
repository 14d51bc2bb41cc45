"""Jobs of a queue that is not dispatched: the manager starts and stops them on its own cluster as Kueue does on one.

Each scenario is played on the manager cluster and on a worker, and must end in the same job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from multikueue.api.kubernetes.printed import CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL
from testbed import objects
from testbed.bed import Testbed, unique
from testbed.jobs import start_job
from testbed.objects import JOB, Object
from tests.real.dialect import spoken
from tests.real.harness import Manager
from tests.real.sides import Side

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120), pytest.mark.usefixtures("calm")]

Play = Callable[[Side], Awaitable[list[Any]]]
POD_WISHES: Object = {
    "nodeSelector": {"example.com/zone": "a"},
    "tolerations": [{"key": "example.com/own", "operator": "Exists"}],
}


async def on_both(bed: Testbed, manager: Manager, play: Play) -> list[Any]:
    """What came of it on the manager cluster; where Kueue runs it came to the same."""
    await manager.ready()
    namespace, found = unique("local"), list[Any]()
    async with bed.manager.client() as here, bed.workers[0].client() as there:
        sides = {"ours": Side(here, namespace), "kueue": Side(there, namespace)}
        results: dict[str, list[Any]] = {}

        async def played(name: str) -> None:
            results[name] = json.loads(_masked(json.dumps(await play(sides[name]))))

        async with anyio.create_task_group() as tasks:
            for name in sides:
                tasks.start_soon(played, name)
        await here.delete(JOB, "job", namespace)
        await there.delete(JOB, "job", namespace)
    assert results["ours"] == results["kueue"]
    found.extend(results["ours"])
    return found


def _masked(text: str) -> str:
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    return re.sub(r"job-job-[0-9a-f]{5}", "WORKLOAD", text)


def told(job: Object) -> Object:
    """What the job says of its pods but for their containers, and how many there are."""
    spec, template = job["spec"], job["spec"]["template"]
    pods = {key: template["spec"].get(key) for key in ("nodeSelector", "tolerations", "schedulingGates")}
    labels = template["metadata"].get("labels") or {}
    if not spoken("queue labels on pods"):
        labels = {key: text for key, text in labels.items() if key not in (LOCAL_QUEUE_LABEL, CLUSTER_QUEUE_LABEL)}
    meta = {"labels": labels, "annotations": template["metadata"].get("annotations")}
    return {**pods, **meta, **{key: spec[key] for key in ("suspend", "parallelism", "completions")}}


def runs(job: Object) -> bool:
    return not job["spec"]["suspend"]


def is_as_before(before: Object) -> Callable[[Object], bool]:
    """Whether the job is again what it was, and wholly stopped."""
    return lambda job: told(job) == told(before) and not job["status"].get("startTime")


async def submitted(side: Side, *, marks: dict[str, str] | None = None, **spec: Any) -> Object:
    body = objects.job("job", side.namespace, requests={"cpu": "1", "memory": "1Gi"}, **spec)
    body["spec"]["template"] |= {"metadata": {"labels": {"app": "x"}, "annotations": {"note": "kept"}}}
    body["spec"]["template"]["spec"] |= POD_WISHES
    body["metadata"]["annotations"] = marks or {}
    return await side.client.create(body)


async def test_a_job_runs_where_its_flavor_is_and_is_restored_when_it_is_stopped(
    bed: Testbed, manager: Manager
) -> None:
    async def play(side: Side) -> list[Any]:
        await side.queue()
        made = await submitted(side)
        first = await side.until_job(runs)
        await start_job(side.client, side.namespace, "job")
        await side.patch_workload({"spec": {"active": False}})
        await side.until_job(lambda job: not runs(job))
        await side.client.patch_status(JOB, "job", {"active": 0, "ready": 0}, side.namespace)
        stopped = await side.until_job(is_as_before(made))
        await side.until("QuotaReserved", "False")
        await side.patch_workload({"spec": {"active": True}})
        again = await side.until_job(runs)
        return [told(made), told(first), told(stopped), told(again)]

    made, first, stopped, again = await on_both(bed, manager, play)
    assert first["nodeSelector"] == {"example.com/zone": "a", "example.com/pool": "blue"}
    assert [each["key"] for each in first["tolerations"]] == ["example.com/own", "example.com/blue"]
    assert stopped == made
    assert again == first


async def test_what_a_check_demands_of_the_pods_counts_too(bed: Testbed, manager: Manager) -> None:
    update = {
        "name": "main",
        "labels": {"example.com/told": "yes"},
        "annotations": {"example.com/why": "because"},
        "nodeSelector": {"example.com/rack": "7"},
        "tolerations": [{"key": "example.com/red", "operator": "Exists"}, POD_WISHES["tolerations"][0]],
    }

    async def play(side: Side) -> list[Any]:
        await side.check(side.namespace)
        await side.queue(checks=(side.namespace,))
        await submitted(side)
        await side.answer(side.namespace, "Ready", podSetUpdates=[update])
        return [told(await side.until_job(runs))]

    (job,) = await on_both(bed, manager, play)
    assert job["nodeSelector"]["example.com/rack"] == "7"
    assert job["labels"]["example.com/told"] == "yes"


@pytest.mark.parametrize(
    "update",
    [
        pytest.param({"nodeSelector": {"example.com/pool": "red"}}, id="against the flavor"),
        pytest.param({"nodeSelector": {"example.com/zone": "b"}}, id="against the user's own wish"),
        pytest.param({"labels": {"app": "y"}}, id="against a label"),
    ],
)
async def test_a_job_that_cannot_be_started_ends_with_the_reason(
    bed: Testbed, manager: Manager, update: Object
) -> None:
    async def play(side: Side) -> list[Any]:
        await side.check(side.namespace)
        await side.queue(checks=(side.namespace,))
        made = await submitted(side)
        await side.answer(side.namespace, "Ready", podSetUpdates=[{"name": "main", **update}])
        finished = await side.until("Finished", reason="FailedToStart")
        job = await side.client.get(JOB, "job", side.namespace)
        assert told(job) == told(made)
        return [finished["message"].replace(side.namespace, "CHECK")]

    (message,) = await on_both(bed, manager, play)
    assert "invalid admission check PodSetUpdate: conflict for " in message


async def test_with_quota_for_fewer_pods_a_job_has_fewer_until_it_is_stopped(bed: Testbed, manager: Manager) -> None:
    async def play(side: Side) -> list[Any]:
        await side.queue(quota={"cpu": "2", "memory": "2Gi"})
        marks = {"kueue.x-k8s.io/job-min-parallelism": "1"}
        made = await submitted(side, parallelism=4, completions=4, marks=marks)
        first = await side.until_job(runs)
        await side.patch_workload({"spec": {"active": False}})
        stopped = await side.until_job(is_as_before(made))
        return [told(made), told(first), told(stopped)]

    made, first, stopped = await on_both(bed, manager, play)
    assert (first["parallelism"], first["completions"]) == (2, 4)
    assert stopped == made
