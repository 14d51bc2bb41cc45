"""What each worker answers to a workload."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from fakekube.model.wire import Refused
from multikueue.api import kinds
from multikueue.api.kueue.workload import FITS_NO_WORKER, Workload
from multikueue.api.meta import ObjectKey
from multikueue.cli.terminal.formats import Format
from multikueue.cli.workload.prospects import print_workers
from multikueue.workload.nomination.prospects import Prospect, State
from tests.builders import (
    NOW,
    admission_check,
    cluster_queue,
    flavor,
    local_queue,
    multikueue_config,
    namespace,
    workload,
)
from tests.builders.workloads import WorkloadBuilder
from tests.cli.cluster import ADMIN_TOKEN
from tests.cli.conftest import Run, World

TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (6) > maximum capacity (4)"
)
LACK = "cpu 6 of 4 at most in flavor default"


def offered(*clusters: str) -> Workload:
    return (
        workload("big", namespace="a").queue("main").request(cpu=6).reserved("cq").check().nominated(*clusters).build()
    )


def parked() -> WorkloadBuilder:
    known = workload("big", namespace="a").queue("main").request(cpu=6).check().evicted("AdmissionCheck")
    return known.condition(FITS_NO_WORKER, message=f"{LACK}: worker")


@pytest.fixture
def fleet(world: World) -> World:
    """A configuration of one worker that is there, one that is gone, and one that is cordoned."""
    manager, worker = world.manager, world.worker
    manager.add(kinds.ADMISSION_CHECKS, admission_check("mk").config("all").active().build())
    clusters = ["worker", "gone", "resting"]
    manager.add(kinds.MULTIKUEUE_CONFIGS, {"metadata": {"name": "all"}, "spec": {"clusters": clusters}})
    for name in clusters:
        away = {"type": "Active", "status": "False", "reason": "ClientConnectionFailed", "message": "no answer"}
        status = {"conditions": [away]} if name == "gone" else {}
        metadata = {"name": name, "annotations": {"multikueue.dev/cordon": "true"} if name == "resting" else {}}
        source = {"clusterSource": {"kubeConfig": {"location": name}}}
        manager.add(kinds.MULTIKUEUE_CLUSTERS, {"metadata": metadata, "spec": source, "status": status})
    manager.add(kinds.LOCAL_QUEUES, local_queue("main", "cq", namespace="a").build())
    manager.add(kinds.CLUSTER_QUEUES, cluster_queue("cq").checks("mk").quota("default", cpu=8).build())
    manager.add(kinds.RESOURCE_FLAVORS, flavor("default").build())
    manager.add(kinds.NAMESPACES, namespace("a").build())
    worker.add(kinds.CLUSTER_QUEUES, cluster_queue("theirs").quota("default", cpu=4).build())
    worker.add(kinds.LOCAL_QUEUES, local_queue("main", "theirs", namespace="a").build())
    manager.add(kinds.WORKLOADS, offered("worker", "gone"))
    return world


def rows(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines if line]


def test_one_that_is_busy_and_its_place_there(fleet: World, cli: Run) -> None:
    first = workload("first", namespace="a").queue("main").priority(5).request(cpu=4).unreserved(message="busy")
    for each in (
        first,
        workload("big", namespace="a").queue("main").request(cpu=3).unreserved(message="1 more needed"),
    ):
        fleet.worker.add(kinds.WORKLOADS, each.build())

    result = cli("why", "-n", "a", "big")

    assert result.code == 0, result.err
    assert rows(result.lines) == [
        "Pending: it has quota, and waits for its place on worker (number 2 there).",
        "Workers",
        "CLUSTER ANSWER PLACE MESSAGE REPAIR",
        "worker waits there 2 1 more needed -",
        "gone cannot be reached - no answer multikueue clusters check gone",
        "resting is cordoned - - multikueue clusters uncordon resting",
    ]
    assert fleet.manager.sent == fleet.worker.sent == []


def test_one_that_can_never_hold_it(fleet: World, cli: Run) -> None:
    fleet.worker.add(kinds.WORKLOADS, workload("big", namespace="a").queue("main").unreserved(message=TOO_MUCH).build())
    found = json.loads(cli("why", "-n", "a", "big", "-o", "json").out)
    assert found["workers"][0] == {"cluster": "worker", "state": "can never hold it", "message": LACK}
    assert [each["code"] for each in found["obstacles"]] == ["WorkersCordoned", "WorkersAway"]


def test_the_one_that_has_it_is_away_once_its_multikueuecluster_is_gone(fleet: World, cli: Run) -> None:
    """The manager reaches no worker without a MultiKueueCluster, whatever the context of the same name leads to."""
    running = workload("big", namespace="a").queue("main").request(cpu=1).reserved("cq").check("Ready").admitted()
    fleet.manager.add(kinds.WORKLOADS, running.cluster_name("worker").build())
    assert cli("why", "-n", "a", "big").lines[0].startswith("Starting on worker")
    fleet.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "worker"))
    first = cli("why", "-n", "a", "big").lines[0]
    assert first.startswith(
        "Unknown: its worker worker does not answer (there is no MultiKueueCluster of its name); if that stays so"
    )


def test_what_fitted_nowhere_needs_no_look_at_a_worker(fleet: World, cli: Run) -> None:
    fleet.manager.add(kinds.WORKLOADS, parked().requeue_state(1, at=NOW + timedelta(minutes=1)).build())
    fleet.worker.revoke(ADMIN_TOKEN)
    lines = rows(cli("why", "-n", "a", "big").lines)
    assert lines[0] == "Pending: resting is cordoned, and no other worker takes it."
    assert f"worker can never hold it - {LACK} -" in lines


def test_a_worker_that_was_not_asked_and_one_without_the_kind(fleet: World, cli: Run) -> None:
    small = workload("big", namespace="a").queue("main").request(cpu=1).reserved("cq").check()
    fleet.manager.add(kinds.WORKLOADS, small.build())
    first = "Pending: it has quota, and the strategy has not named a worker yet; there are worker."
    assert cli("why", "-n", "a", "big").lines[0] == first
    owned = workload("big", namespace="a").queue("main").reserved("cq").check().nominated("worker").owner_job("train")
    fleet.manager.add(kinds.WORKLOADS, owned.build())
    fleet.worker.served = {}
    repair = "install Job there, or grant rights on it: multikueue clusters check worker"
    lines = rows(cli("why", "-n", "a", "big").lines)
    assert f"worker lacks the kind - Job (batch/v1) is not served there {repair}" in lines
    worker = json.loads(cli("why", "-n", "a", "big", "-o", "json").out)["workers"][0]
    assert (worker["queue"], worker["kind"], worker["repair"]) == ("a/main", "Job", repair)


def test_one_that_could_not_hold_what_waits_for_quota(fleet: World, cli: Run) -> None:
    """As a dry run foresees it."""
    fleet.manager.add(kinds.MULTIKUEUE_CONFIGS, multikueue_config("all", "worker").build())
    big = workload("big", namespace="a").queue("main").request(cpu=6)
    fleet.manager.add(kinds.WORKLOADS, big.build())
    taken = workload("first", namespace="a").queue("main").request(cpu=8)
    fleet.manager.add(kinds.WORKLOADS, taken.reserved("cq").build())

    assert cli("why", "-n", "a", "big").lines[0] == f"Pending: no worker can ever hold it: {LACK} on worker."


@pytest.mark.parametrize("is_offered", [True, False], ids=["a copy there", "no copy there yet"])
def test_one_without_the_local_queue(fleet: World, cli: Run, is_offered: bool) -> None:
    fleet.worker.drop(kinds.LOCAL_QUEUES, ObjectKey("a", "main"))
    fleet.manager.add(kinds.MULTIKUEUE_CONFIGS, multikueue_config("all", "worker").build())
    if is_offered:
        copy = workload("big", namespace="a").queue("main").unreserved(message="LocalQueue main doesn't exist")
        fleet.worker.add(kinds.WORKLOADS, copy.build())

    assert cli("why", "-n", "a", "big").lines[0] == "Pending: LocalQueue main of namespace a is missing on worker."


def test_without_rights_on_a_worker_the_rest_is_told(fleet: World, cli: Run) -> None:
    fleet.worker.revoke(ADMIN_TOKEN)
    result = cli("why", "-n", "a", "big")
    assert result.code == 0
    assert result.lines[0] == "Pending: it has quota, and waits for its place on worker."
    assert "Not seen: worker: worker does not know you" in result.err


def test_who_may_see_no_worker_is_told_what_the_workload_says(fleet: World, cli: Run) -> None:
    hidden = {"admissionchecks", "multikueueclusters"}
    fleet.manager.fault = lambda _, plural: Refused(403, "Forbidden", "no") if plural in hidden else None
    fleet.manager.add(kinds.WORKLOADS, parked().build())

    result = cli("why", "-n", "a", "big")

    assert result.lines[0] == f"Pending: no worker can ever hold it: {LACK} on worker."
    assert result.err == "Not seen: its quota, since you may not list admissionchecks.\n"


def test_each_worker_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    waits = Prospect(cluster="w1", state=State.WAITS.value, place=2, message="1 more needed")
    print_workers([waits, Prospect(cluster="w2", state=State.CORDONED.value)], Format.TABLE)
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[-3:]] == [
        "CLUSTER ANSWER PLACE MESSAGE",
        "w1 waits there 2 1 more needed",
        "w2 is cordoned - -",
    ]
