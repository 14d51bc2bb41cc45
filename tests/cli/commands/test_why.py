from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakekube.model.wire import Refused
from multikueue.api import kinds
from tests.builders import (
    WorkloadBuilder,
    admission_check,
    cluster_queue,
    flavor,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    namespace,
    pod_set,
    workload,
)
from tests.cli.conftest import Run, World
from tests.cluster import Fault
from tests.quota.builders import claim_template, claiming, devices


@pytest.fixture
def full(world: World) -> World:
    """A queue whose quota one workload has; another waits for it."""
    manager = world.manager
    manager.add(kinds.NAMESPACES, namespace("a").build())
    manager.add(kinds.RESOURCE_FLAVORS, flavor("default").build())
    manager.add(kinds.CLUSTER_QUEUES, cluster_queue("cq").quota("default", cpu=4).build())
    manager.add(kinds.LOCAL_QUEUES, local_queue("main", "cq", namespace="a").build())
    running = workload("running", namespace="a").queue("main").request(cpu=3)
    hour = timedelta(hours=1)
    manager.add(kinds.WORKLOADS, running.max_execution_time(hour).reserved("cq").admitted().build())
    waiting = workload("waiting", namespace="a").queue("main").request(cpu=2).owner_job("train")
    manager.add(kinds.WORKLOADS, waiting.unreserved(message="Kueue's words").build())
    return world


def test_people_read_what_is_lacking_who_has_it_why_and_what_has_to_end(full: World, cli: Run) -> None:
    result = cli("why", "-n", "a", "train")

    assert result.code == 0
    assert [" ".join(line.split()) for line in result.lines if line] == [
        "Pending: it waits for 1 cpu of flavor default in ClusterQueue cq (number 1 there); "
        "it fits once workload/running ends.",
        "Workload a/waiting",
        "ClusterQueue: cq",
        "Place: number 1",
        "Message: Kueue's words",
        "Problem: -",
        "What is lacking",
        "POD SET FLAVOR RESOURCE NEEDED AVAILABLE MISSING PROBLEM",
        "main default cpu 2 1 1 -",
        "Who has it",
        "FLAVOR RESOURCE CLUSTERQUEUE WORKLOADS AMOUNT BORROWED",
        "default cpu cq 1 3 0",
        "Why they keep it",
        "FLAVOR RESOURCE CLUSTERQUEUE WORKLOADS AMOUNT RULE",
        "default cpu cq 1 3 withinClusterQueue: Never",
        "What would have to end",
        "WORKLOAD CLUSTERQUEUE AT LATEST LEAVING",
        "a/running cq 2026-01-01T13:00:00Z no",
    ]
    assert full.manager.sent == []


def test_wide_shows_the_way_to_the_holders(full: World, cli: Run) -> None:
    assert [line.split()[-1] for line in cli("why", "-n", "a", "waiting", "-o", "wide").lines if "/cq" in line] == [
        "/cq"
    ]


def test_programs_read_the_same(full: World, cli: Run) -> None:
    found = json.loads(cli("why", "-n", "a", "waiting", "-o", "json").out)
    assert found == yaml.safe_load(cli("why", "-n", "a", "waiting", "-o", "yaml").out)
    assert list(found) == ["job", "state", "summary", "workload", "since", "obstacles", "quota"]
    (lack,) = found["quota"]["lacks"]
    assert lack == {
        "podSet": "main",
        "flavor": "default",
        "resource": "cpu",
        "needed": "2",
        "available": "1",
        "missing": "1",
        "holders": [{"clusterQueue": "cq", "path": "/cq", "workloads": 1, "amount": "3", "borrowed": "0"}],
        "barriers": [{"clusterQueue": "cq", "rule": "withinClusterQueue: Never", "workloads": 1, "amount": "3"}],
    }
    assert cli("why", "-n", "a", "waiting", "-o", "name").lines == ["workload.kueue.x-k8s.io/waiting"]


def test_one_that_is_over(full: World, cli: Run) -> None:
    over = workload("over", namespace="a").queue("main").reserved("cq").finished(message="all pods succeeded")
    full.manager.add(kinds.WORKLOADS, over.build())
    result = cli("why", "-n", "a", "over")
    assert (result.code, result.out, result.err) == (0, "Finished: all pods succeeded.\n", "")


def test_one_that_is_not_there(full: World, cli: Run) -> None:
    result = cli("why", "-n", "a", "nobody")
    assert result.code == 1
    assert "there is no workload 'nobody' in namespace a" in result.err


def test_the_manager_s_settings_count(full: World, cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump({"quota": {"exclude_resource_prefixes": ["cpu"]}}))
    assert "lacks" not in json.loads(cli("why", "-n", "a", "waiting", "-o", "json", "-f", str(file)).out)["quota"]


def test_the_line_says_who_has_to_go_first(full: World, cli: Run) -> None:
    strict = cluster_queue("cq").quota("default", cpu=4).strict_fifo()
    full.manager.add(kinds.CLUSTER_QUEUES, strict.build())
    late = workload("zz-late", namespace="a").queue("main").request(cpu=1)
    full.manager.add(kinds.WORKLOADS, late.build())
    assert (
        "  Place:         number 2, behind a/waiting, which has to go first" in cli("why", "-n", "a", "zz-late").lines
    )


def test_what_helps_is_told_with_the_reason(full: World, cli: Run) -> None:
    full.manager.add(kinds.LOCAL_QUEUES, local_queue("main", "cq", namespace="a").stopped().build())

    result = cli("why", "-n", "a", "waiting")

    assert result.lines[0] == "Pending: LocalQueue main is stopped."
    assert "  What helps: `multikueue queues resume -n a main` (" in result.lines[1]
    (found,) = json.loads(cli("why", "-n", "a", "waiting", "-o", "json").out)["obstacles"]
    assert found["repair"]["commands"] == ["multikueue queues resume -n a main"]


def test_devices_are_counted_by_what_is_there_where_settings_map_them(full: World, cli: Run, tmp_path: Path) -> None:
    pods = pod_set().template(claiming("two"))
    full.manager.add(kinds.WORKLOADS, workload("claims", namespace="a").queue("main").pod_sets(pods).build())
    full.manager.add(
        kinds.RESOURCE_CLAIM_TEMPLATES, claim_template("two", devices("gpu.example.com", 2), namespace="a")
    )
    mapping = {"name": "gpu", "device_class_names": ["gpu.example.com"]}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"quota": {"dra": {"device_class_mappings": [mapping]}}}))

    told = cli("why", "-n", "a", "claims", "-f", str(config)).lines[0]
    assert "it asks for gpu, which no flavor of ClusterQueue cq has" in told
    asked = [request.path for request in full.manager.requests]
    full.manager.requests.clear()
    assert "no DeviceClass is mapped" in cli("why", "-n", "a", "claims").lines[0]
    assert [path for path in asked if "resource.k8s.io" in path]
    assert not [request for request in full.manager.requests if "resource.k8s.io" in request.path]


QUOTA_KINDS = ("namespaces", "limitranges", "runtimeclasses", "resourceflavors", "cohorts", "clusterqueues")


def test_a_user_of_one_namespace_is_told_what_the_workload_says(full: World, cli: Run) -> None:
    full.manager.fault = own_namespace(full)
    result = cli("why", "-n", "a", "train")

    assert result.code == 0, result.err
    assert result.lines[0] == "Pending: it waits for quota in LocalQueue main: Kueue's words."
    assert "Not seen: its quota, since you may not list namespaces, " in result.err
    assert all(name in result.err for name in QUOTA_KINDS)
    assert "workloads of all namespaces" in result.err
    found = json.loads(cli("why", "-n", "a", "train", "-o", "json").out)
    assert found["summary"] == "Pending: it waits for quota in LocalQueue main: Kueue's words."
    assert found["notSeen"].startswith("not seen: its quota")


EXPLAINED = {
    "quota": {
        "workload": "a/waiting",
        "clusterQueue": "cq",
        "place": 3,
        "lacks": [{"podSet": "main", "flavor": "default", "resource": "cpu", "needed": "2", "missing": "1"}],
    }
}
CHOSEN = {
    "workers": [{"cluster": "w1", "state": "can never hold it", "message": "cpu 6 of 4"}],
    "choice": {"strategy": "composed", "workers": [{"worker": "w1", "total": 0.5}]},
}


def telling(world: World, name: str, told: dict[str, Any]) -> None:
    """A manager that explains a workload to a user who may see nothing but their own namespace."""
    path = f"/apis/visibility.multikueue.dev/v1alpha1/namespaces/a/workloads/{name}/explanation"
    world.manager.documents[path] = {"kind": "WorkloadExplanation", "metadata": {}} | told
    world.manager.fault = own_namespace(world)


def own_namespace(world: World) -> Fault:
    """A fault: whoever asks may see namespace a and no more."""

    def fault(_verb: str, _plural: str) -> Refused | None:
        path = world.manager.requests[-1].path
        is_own = "/namespaces/a/" in path or "selfsubjectaccessreviews" in path
        return None if is_own else Refused(403, "Forbidden", "no")

    return fault


def test_the_manager_explains_a_user_of_one_namespace_what_is_lacking(full: World, cli: Run) -> None:
    telling(full, "waiting", EXPLAINED)
    result = cli("why", "-n", "a", "train")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == ("Pending: it waits for 1 cpu of flavor default in ClusterQueue cq (number 3 there).")
    assert all("/namespaces/a/" in request.path for request in full.manager.requests if request.path.count("/") > 4)


def test_the_manager_tells_them_what_the_workers_are_to_it(full: World, cli: Run) -> None:
    chosen = workload("chosen", namespace="a").queue("main").request(cpu=6).reserved("cq").check().nominated("w1")
    full.manager.add(kinds.WORKLOADS, chosen.build())
    telling(full, "chosen", CHOSEN)
    result = cli("why", "-n", "a", "chosen")
    assert (result.code, result.err) == (0, "")
    assert result.lines[0] == "Pending: no worker can ever hold it: cpu 6 of 4 on w1."
    found = json.loads(cli("why", "-n", "a", "chosen", "-o", "json").out)
    assert {name: found[name] for name in CHOSEN} == CHOSEN


def test_the_manager_answers_what_they_may_not_see(full: World, cli: Run) -> None:
    told = {
        "job": "workload/waiting",
        "workload": "a/waiting",
        "state": "Pending",
        "summary": "Pending: ClusterQueue cq is stopped.",
        "obstacles": [{"code": "ClusterQueueStopped", "text": "ClusterQueue cq is stopped"}],
    }
    telling(full, "waiting", {"answer": told})
    found = json.loads(cli("why", "-n", "a", "train", "-o", "json").out)
    assert (found["summary"], [each["code"] for each in found["obstacles"]]) == (
        told["summary"],
        ["ClusterQueueStopped"],
    )


# What a worker makes of it.


@pytest.fixture
def unlike(full: World) -> World:
    """The queue leads to a worker, where pods without requests get more than they count."""
    manager = full.manager
    manager.add(kinds.CLUSTER_QUEUES, cluster_queue("cq").checks("mk").quota("default", cpu=4).build())
    manager.add(kinds.ADMISSION_CHECKS, admission_check("mk").config("all").active().build())
    manager.add(kinds.MULTIKUEUE_CONFIGS, multikueue_config("all", "worker", "gone").build())
    for name in ("worker", "gone"):
        manager.add(kinds.MULTIKUEUE_CLUSTERS, multikueue_cluster(name).active().build())
    for cluster, cpu in ((manager, "1"), (full.worker, "2")):
        item = {"type": "Container", "defaultRequest": {"cpu": cpu}}
        cluster.add(kinds.LIMIT_RANGES, {"metadata": {"name": "limits", "namespace": "a"}, "spec": {"limits": [item]}})
    return full


SILENT = pod_set("main").template(b'{"spec":{"containers":[{"name":"main"}]}}')
TOLD = (
    "  On worker, LimitRanges of a: cpu of pod set main is 1 on the manager, 2 there: it counts as 1, and takes 2 there;"
    " make the LimitRanges of a equal, or say in the job what its pods need."
)
STATES: dict[str, Callable[[WorkloadBuilder], WorkloadBuilder]] = {
    "waits for quota": lambda one: one.unreserved(),
    "waits for a worker": lambda one: one.reserved("cq").check("mk").nominated("worker"),
    "runs": lambda one: one.reserved("cq").check("mk", "Ready").admitted().cluster_name("worker"),
}


def silent(name: str = "silent") -> WorkloadBuilder:
    return workload(name, namespace="a").queue("main").pod_sets(SILENT)


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_it_is_told_where_its_pods_are_others_than_those_that_are_counted(
    unlike: World, cli: Run, state: Callable[[WorkloadBuilder], WorkloadBuilder]
) -> None:
    """As a dry run tells it, in the same words."""
    unlike.manager.add(kinds.WORKLOADS, state(silent()).build())

    assert [line for line in cli("why", "-n", "a", "silent").lines if line.startswith("  On ")] == [TOLD]

    (found,) = json.loads(cli("why", "-n", "a", "silent", "-o", "json").out)["differences"]
    assert (found["cluster"], found["subject"], found["worker"]) == ("worker", "LimitRanges of a", "2")
    assert unlike.manager.sent == unlike.worker.sent == []


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(
            workload("one", namespace="a").queue("main").request(cpu=1).unreserved(), id="it says what it needs"
        ),
        pytest.param(silent("one").reserved("cq").admitted().finished(), id="it is over"),
        pytest.param(silent("one").inactive(), id="it is deactivated"),
        pytest.param(silent("one").queue("nowhere").unreserved(), id="its queue is not there"),
        pytest.param(silent("one").reserved("cq").admitted().cluster_name("gone"), id="its worker cannot be reached"),
    ],
)
def test_nothing_is_told_where_it_would_meet_nothing_or_nobody_can_tell(
    unlike: World, cli: Run, one: WorkloadBuilder
) -> None:
    unlike.manager.add(kinds.WORKLOADS, one.build())
    result = cli("why", "-n", "a", "one")
    assert (result.code, [line for line in result.lines if line.startswith("  On ")]) == (0, [])
    assert "differences" not in json.loads(cli("why", "-n", "a", "one", "-o", "json").out)


def test_what_the_account_may_not_list_on_a_worker_is_said(unlike: World, cli: Run) -> None:
    unlike.manager.add(kinds.WORKLOADS, silent().reserved("cq").admitted().cluster_name("worker").build())
    unlike.worker.fault = lambda _verb, plural: Refused(403, "Forbidden", "no") if plural == "limitranges" else None
    result = cli("why", "-n", "a", "silent")
    assert "Not compared with worker: limitranges, because the account may not list them there" in result.err
