"""Jobs whose Workload the manager cluster refuses, or would refuse: dispatched if possible, and told if not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.errors import ApiError, Forbidden, Invalid, ServerError, Throttled
from multikueue.store.refusals import LASTING
from multikueue.testing import NOW
from tests.controllers.table import NAMESPACE, job_body, table

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")

TWICE: dict[str, dict[str, Any]] = {
    "a variable": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
    "a port": {"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b", "protocol": "TCP"}]},
    "a mount": {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}]},
    "a device": {"volumeDevices": [{"name": "v", "devicePath": "/a"}, {"name": "w", "devicePath": "/a"}]},
    "a claim": {"resources": {"claims": [{"name": "c"}, {"name": "c", "request": "gpu"}], "requests": {"cpu": "1"}}},
}
POD_TWICE: dict[str, dict[str, Any]] = {
    "a pull secret": {"imagePullSecrets": [{"name": "s"}, {"name": "s"}]},
    "a host alias": {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}, {"ip": "1.1.1.1", "hostnames": ["b"]}]},
    "a gate": {"schedulingGates": [{"name": "g"}, {"name": "g"}]},
    "a constraint": {
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": skew} for skew in (1, 2)
        ]
    },
    "a resource claim": {"resourceClaims": [{"name": "c"}, {"name": "c"}]},
    "a volume": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {"medium": "Memory"}}]},
}


def body(containers: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    made = job_body("job")
    spec = made["spec"]["template"]["spec"]
    spec["initContainers"] = [{"name": "first", "image": "x"} | containers]
    spec["containers"][0] |= containers
    spec |= pod
    return made


CASES = [pytest.param(body(said, {}), id=f"{what} twice in a container") for what, said in TWICE.items()]
CASES += [pytest.param(body({}, said), id=f"{what} twice in a pod") for what, said in POD_TWICE.items()]


@pytest.mark.parametrize("job", CASES)
async def test_a_job_with_an_entry_twice_runs_and_its_workload_keeps_the_last(job: dict[str, Any]) -> None:
    world = table()
    world.manager.put(kinds.JOBS, job)
    await world.settle()
    assert world.copies() == ["w1", "w2", "w3"]
    (pod_set,) = world.workload()["spec"]["podSets"]
    written, kept = job["spec"]["template"]["spec"], pod_set["template"]["spec"]
    own = {field for field in written if field in {each for said in POD_TWICE.values() for each in said}}
    assert all(kept[field] == written[field][-1:] for field in own)
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]
    copy = world.workers["w2"].find(kinds.JOBS, JOB)
    assert copy is not None
    assert all(copy["spec"]["template"]["spec"][field] == written[field] for field in own)


REFUSALS: dict[str, tuple[ApiError, timedelta]] = {
    "by its schema": (Invalid(422, "Invalid", "spec.podSets[0].template: Duplicate value"), timedelta()),
    "by a quota": (Forbidden(403, "Forbidden", "exceeded quota: count/workloads.kueue.x-k8s.io"), timedelta()),
    "by a policy": (Invalid(422, "Invalid", "ValidatingAdmissionPolicy 'small' denied request"), timedelta()),
    "by a webhook's own status": (ApiError(418, "Teapot", "admission webhook denied the request"), timedelta()),
    "as a webhook is down": (ServerError(500, "InternalError", "failed calling webhook"), LASTING),
    "as the server is busy": (Throttled(429, "TooManyRequests", "later"), LASTING),
}


@pytest.mark.parametrize(
    ("error", "after"), [pytest.param(*case, id=f"refused {why}") for why, case in REFUSALS.items()]
)
async def test_a_workload_that_cannot_be_made_is_told_once_in_the_servers_words(
    error: ApiError, after: timedelta
) -> None:
    world = table()
    world.manager.fault = lambda verb, plural: error if (verb, plural) == ("create", "workloads") else None
    world.submit()
    for _ in range(20):
        await world.settle()
        if world.time < NOW + after:
            assert world.said() == []
        world.time += timedelta(seconds=10)
        world.queues.jobs.add(JobKey(kinds.JOBS.name, NAMESPACE, "job"))
    ((reason, words),) = world.said()
    assert reason == "Refused"
    assert words == f"the Workload of the job cannot be made: {error.status} {error.reason}: {error.message}"
    assert world.store.refusals.count(world.time) == {("job", ""): 1}

    error.message = "other words"
    world.queues.jobs.add(JobKey(kinds.JOBS.name, NAMESPACE, "job"))
    await world.settle()
    assert [words.rpartition(": ")[2] for _, words in world.said()][1:] == ["other words"]

    world.manager.fault = lambda _verb, _plural: None
    world.queues.jobs.add(JobKey(kinds.JOBS.name, NAMESPACE, "job"))
    await world.settle()
    assert world.store.refusals.count(world.time) == {}
    assert world.copies() == ["w1", "w2", "w3"]


async def test_a_refused_workload_of_a_deleted_job_is_not_counted_any_more() -> None:
    world = table()
    error = Forbidden(403, "Forbidden", "no")
    world.manager.fault = lambda verb, plural: error if (verb, plural) == ("create", "workloads") else None
    world.submit()
    await world.settle()
    world.manager.drop(kinds.JOBS, JOB)
    await world.settle()
    assert world.store.refusals.count(world.time) == {}
