"""Kueue's kinds as the manager uses them: what is filled in, what is refused, who owns what. No Kueue runs here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.contract.builders import condition, unique
from tests.contract.server import Answer, Object, Server
from tests.contract.space import Collection, Space

pytestmark = pytest.mark.anyio

KUEUE = "kueue.x-k8s.io/v1beta2"


@pytest.fixture
def workloads(space: Space) -> Collection:
    return space.of(KUEUE, "workloads")


def cluster_scoped(server: Server, plural: str) -> Collection:
    return Collection(server, f"/apis/{KUEUE}/{plural}")


def pod_set(name: str = "main", **more: Any) -> Object:
    containers = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    return {"name": name, "count": 1, "template": template, **more}


def workload(name: str = "a", **spec: Any) -> Object:
    pods = {"podSets": [pod_set()], "queueName": "main"}
    return {"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": name}, "spec": pods | spec}


def kueue(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def status(workloads: Collection, **fields: Any) -> Answer:
    return await workloads.patch("a", {"status": fields}, "status")


RESERVED = {
    "conditions": [condition("QuotaReserved", "True")],
    "admission": {
        "clusterQueue": "main",
        "podSetAssignments": [
            {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
        ],
    },
}


# --- workloads -------------------------------------------------------------------------------------------------------


async def test_a_workload_is_filled_with_defaults(workloads: Collection) -> None:
    made = await workloads.made(workload())
    assert (made["spec"]["active"], made["spec"]["queueName"]) == (True, "main")
    assert made["metadata"]["generation"] == 1
    assert "status" not in made


async def test_a_workload_keeps_its_pods_as_they_were_written(workloads: Collection) -> None:
    sent = workload(podSets=[pod_set("driver"), pod_set("executor", count=3)])
    [driver, executor] = (await workloads.made(sent))["spec"]["podSets"]
    assert driver["template"] == sent["spec"]["podSets"][0]["template"]
    assert (executor["name"], executor["count"]) == ("executor", 3)


async def test_a_workload_keeps_the_labels_and_finalizers_of_who_made_it(workloads: Collection) -> None:
    body = workload()
    body["metadata"] |= {
        "labels": {"kueue.x-k8s.io/multikueue-origin": "contract"},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
    }
    made = await workloads.made(body)
    assert made["metadata"]["labels"] == body["metadata"]["labels"]
    assert await workloads.names(labelSelector="kueue.x-k8s.io/multikueue-origin=contract") == ["a"]
    assert "deletionTimestamp" in (await workloads.delete("a")).good()["metadata"]


WRONG: dict[str, tuple[Object, str]] = {
    "more of a set at least than at all": ({"podSets": [pod_set(minCount=5)]}, "spec.podSets[0]"),
    "a class without a priority": (
        {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}},
        "spec",
    ),
    "a class of another kind": (
        {
            "priority": 5,
            "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        },
        "spec.priorityClassRef",
    ),
    "no time to run": ({"maximumExecutionTimeSeconds": 0}, "spec.maximumExecutionTimeSeconds"),
    "a queue with an impossible name": ({"queueName": "Main Queue"}, "spec.queueName"),
    "two sets of one name": ({"podSets": [pod_set(), pod_set()]}, "spec.podSets[1]"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_workload_is_refused_for(workloads: Collection, what: str) -> None:
    spec, field = WRONG[what]
    refusal = (await workloads.create(workload(**spec))).refused(422, "Invalid")
    assert field in [cause["field"] for cause in refusal["details"]["causes"]]


async def test_the_winner_is_named_once_and_for_all(workloads: Collection) -> None:
    await workloads.made(workload())
    (await status(workloads, clusterName="one")).good(200)
    refusal = (await status(workloads, clusterName="two")).refused(422, "Invalid")
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["status"]
    (await status(workloads, clusterName=None)).good(200)
    (await status(workloads, clusterName="two")).good(200)


async def test_there_is_a_winner_or_there_are_nominations(workloads: Collection) -> None:
    await workloads.made(workload())
    (await status(workloads, nominatedClusterNames=["one", "two"])).good(200)
    (await status(workloads, clusterName="one")).refused(422, "Invalid")
    done = (await status(workloads, clusterName="one", nominatedClusterNames=None)).good(200)
    assert done["status"] == {"clusterName": "one"}


async def test_what_is_reserved_for_fits_the_sets(workloads: Collection) -> None:
    await workloads.made(workload(podSets=[pod_set("one"), pod_set("two")]))
    (await status(workloads, **RESERVED)).refused(422, "Invalid")


FIXED: Mapping[str, Object] = {
    "queueName": {"queueName": "other"},
    "priorityClassRef": {
        "priority": 5,
        "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
    },
}


@pytest.mark.parametrize("what", FIXED)
async def test_with_quota_reserved_it_stays(workloads: Collection, what: str) -> None:
    await workloads.made(workload())
    (await status(workloads, **RESERVED)).good(200)
    refusal = (await workloads.patch("a", {"spec": FIXED[what]})).refused(422, "Invalid")
    # Rules about the whole object name no field.
    assert [cause["field"] for cause in refusal["details"]["causes"]] == ["<nil>"]


@pytest.mark.parametrize("what", FIXED)
async def test_without_quota_it_may_change(workloads: Collection, what: str) -> None:
    await workloads.made(workload())
    (await workloads.patch("a", {"spec": FIXED[what]})).good(200)


async def test_an_active_workload_can_be_stopped_at_any_time(workloads: Collection) -> None:
    await workloads.made(workload())
    (await status(workloads, **RESERVED)).good(200)
    assert (await workloads.patch("a", {"spec": {"active": False}})).good(200)["metadata"]["generation"] == 2


async def test_conditions_and_checks_of_several_managers_stand_side_by_side(workloads: Collection) -> None:
    """Kueue's core applies as `kueue-admission`; the manager, beside it, as the same and under a name of its own."""
    made = await workloads.made(workload())
    identity = {"apiVersion": KUEUE, "kind": "Workload"}
    version = made["metadata"]["resourceVersion"]

    def part(version: str, **fields: Any) -> Object:
        return {**identity, "metadata": {"name": "a", "resourceVersion": version}, "status": fields}

    check = {"name": "multikueue", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    core = part(version, conditions=[condition("QuotaReserved", "True")], admissionChecks=[check])
    first = (await workloads.apply(core, "status", manager="kueue-admission", force=True)).good(200)

    ours = part(first["metadata"]["resourceVersion"], conditions=[condition("Dispatched", "True")])
    second = (await workloads.apply(ours, "status", manager="multikueue", force=True)).good(200)
    assert {each["type"] for each in second["status"]["conditions"]} == {"QuotaReserved", "Dispatched"}

    # The version is one that both must name: who read an older one is late.
    (await workloads.apply(core, "status", manager="kueue-admission", force=True)).refused(409, "Conflict")

    # What the core names no more goes, and nothing else does.
    less = part(second["metadata"]["resourceVersion"], admissionChecks=[check | {"state": "Ready"}])
    third = (await workloads.apply(less, "status", manager="kueue-admission", force=True)).good(200)
    assert [each["type"] for each in third["status"]["conditions"]] == ["Dispatched"]
    assert third["status"]["admissionChecks"][0]["state"] == "Ready"


async def test_a_check_is_in_one_of_its_states(workloads: Collection) -> None:
    await workloads.made(workload())
    check = {"name": "x", "state": "Unheard", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    (await status(workloads, admissionChecks=[check])).refused(422, "Invalid")


async def test_workloads_show_where_they_stand(workloads: Collection) -> None:
    await workloads.made(workload())
    (await status(workloads, **RESERVED)).good(200)
    table = (await workloads.list(accept="application/json;as=Table;v=v1;g=meta.k8s.io")).good(200)
    names = [each["name"] for each in table["columnDefinitions"]]
    assert names == ["Name", "Queue", "Reserved in", "Admitted", "Finished", "Age"]
    assert table["rows"][0]["cells"][:5] == ["a", "main", "main", None, None]


async def test_workloads_are_read_in_the_older_version_too(space: Space, workloads: Collection) -> None:
    await workloads.made(workload())
    found = await space.of("kueue.x-k8s.io/v1beta1", "workloads").got("a")
    assert (found["apiVersion"], found["spec"]["queueName"]) == ("kueue.x-k8s.io/v1beta1", "main")


# --- queues, checks, clusters ----------------------------------------------------------------------------------------


def quota(*, borrowing: str = "", resources: int = 1) -> list[Object]:
    amounts = [{"name": "cpu", "nominalQuota": "5"} | ({"borrowingLimit": borrowing} if borrowing else {})]
    flavors = [{"name": "default", "resources": amounts * resources}]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


async def test_a_cluster_queue_is_filled_with_defaults(server: Server) -> None:
    queues = cluster_scoped(server, "clusterqueues")
    name = unique("queue")
    made = await queues.made(kueue("ClusterQueue", name, namespaceSelector={}, resourceGroups=quota()))
    spec = made["spec"]
    assert (spec["queueingStrategy"], spec["stopPolicy"]) == ("BestEffortFIFO", "None")
    assert spec["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert spec["preemption"] == {
        "borrowWithinCohort": {"policy": "Never"},
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
    }
    (await queues.delete(name)).good()


WRONG_QUEUES: dict[str, tuple[Object, str]] = {
    "a limit to borrowing from nobody": ({"resourceGroups": quota(borrowing="1")}, "spec"),
    "an unknown strategy": ({"queueingStrategy": "Random"}, "spec.queueingStrategy"),
    "an unknown way to stop": ({"stopPolicy": "Maybe"}, "spec.stopPolicy"),
}


@pytest.mark.parametrize("what", WRONG_QUEUES)
async def test_a_cluster_queue_is_refused_for(server: Server, what: str) -> None:
    spec, field = WRONG_QUEUES[what]
    body = kueue("ClusterQueue", unique("queue"), **{"namespaceSelector": {}, "resourceGroups": quota(), **spec})
    refusal = (await cluster_scoped(server, "clusterqueues").create(body)).refused(422, "Invalid")
    assert field in [cause["field"] for cause in refusal["details"]["causes"]]


async def test_a_local_queue_stays_with_its_cluster_queue(space: Space) -> None:
    queues = space.of(KUEUE, "localqueues")
    await queues.made(kueue("LocalQueue", "main", clusterQueue="one"))
    refusal = (await queues.patch("main", {"spec": {"clusterQueue": "two"}})).refused(422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == "spec.clusterQueue"


async def test_an_admission_check_stays_with_its_controller(server: Server) -> None:
    checks = cluster_scoped(server, "admissionchecks")
    name = unique("check")
    await checks.made(kueue("AdmissionCheck", name, controllerName="kueue.x-k8s.io/multikueue"))
    (await checks.patch(name, {"spec": {"controllerName": "example.com/other"}})).refused(422, "Invalid")
    active = condition("Active", "True")
    patched = (await checks.patch(name, {"status": {"conditions": [active]}}, "status")).good(200)
    assert patched["status"]["conditions"] == [active]
    (await checks.delete(name)).good()


@pytest.mark.parametrize(
    ("clusters", "accepted"),
    [(["one"], True), (["one", "two"], True), ([], False), (["one", "one"], False)],
    ids=["one", "two", "none", "twice"],
)
async def test_a_config_names_clusters_once(server: Server, clusters: list[str], accepted: bool) -> None:
    body = kueue("MultiKueueConfig", unique("config"), clusters=clusters)
    answer = await cluster_scoped(server, "multikueueconfigs").create(body)
    assert answer.status == (201 if accepted else 422)


SOURCES: dict[str, tuple[Object, int]] = {
    "a kubeconfig": ({"kubeConfig": {"location": "secret", "locationType": "Secret"}}, 201),
    "a profile": ({"clusterProfileRef": {"name": "profile"}}, 201),
    "both": (
        {
            "kubeConfig": {"location": "secret", "locationType": "Secret"},
            "clusterProfileRef": {"name": "profile"},
        },
        422,
    ),
    "nothing": ({}, 422),
}


@pytest.mark.parametrize("what", SOURCES)
async def test_a_cluster_is_reached_in_one_way(server: Server, what: str) -> None:
    source, code = SOURCES[what]
    body = kueue("MultiKueueCluster", unique("cluster"), clusterSource=source)
    assert (await cluster_scoped(server, "multikueueclusters").create(body)).status == code


async def test_a_kubeconfig_lies_in_a_secret_unless_told(server: Server) -> None:
    body = kueue("MultiKueueCluster", unique("cluster"), clusterSource={"kubeConfig": {"location": "secret"}})
    made = await cluster_scoped(server, "multikueueclusters").made(body)
    assert made["spec"]["clusterSource"]["kubeConfig"]["locationType"] == "Secret"


async def test_a_priority_class_of_kueue_has_its_value_beside_the_metadata(server: Server) -> None:
    body = {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": unique("class")}, "value": 5}
    made = await cluster_scoped(server, "workloadpriorityclasses").made(body)
    assert made["value"] == 5
