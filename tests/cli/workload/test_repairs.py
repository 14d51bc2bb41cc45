"""Each advice is taken: what it tells to run is run, and the reason is gone."""

from __future__ import annotations

import re

import pytest

from multikueue.api.kinds import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from multikueue.api.kueue.workload import UNDISPATCHABLE_ANNOTATION, Workload, workload_spec
from multikueue.api.meta import decoder, encode
from multikueue.cli.workload.repairs import REPAIRS, repair
from tests.builders import WorkloadBuilder, cluster_queue, job, local_queue, workload
from tests.cli.conftest import Run, World


def waiting(message: str = "") -> WorkloadBuilder:
    made = workload("w", namespace="a").queue("main").owner_job("train")
    return made.unreserved(message=message) if message else made


CASES = {
    "finished": waiting().inactive().finished(),
    "cannot be dispatched": waiting().inactive().annotations({UNDISPATCHABLE_ANNOTATION: "recreate the job"}),
    "out of time": waiting().inactive().evicted("Deactivated", message="due to MaximumExecutionTimeExceeded"),
    "held": waiting().inactive().evicted("Deactivated", message="The workload is deactivated"),
    "no LocalQueue": waiting("LocalQueue main doesn't exist"),
    "LocalQueue stopped": waiting("LocalQueue main is inactive"),
    "ClusterQueue stopped": waiting("ClusterQueue shared is inactive"),
}


def read(world: World) -> Workload | None:
    found = world.manager.named(WORKLOADS, "w", "a")
    return decoder(Workload)(encode(found)) if found else None


@pytest.mark.parametrize(("reason", "made"), CASES.items(), ids=CASES.keys())
def test_the_reason_is_found(reason: str, made: WorkloadBuilder) -> None:
    told = next(each.reason for each in REPAIRS if each.is_applicable(made.build()))

    assert told == reason


def test_where_nothing_is_to_be_done_nothing_is_told() -> None:
    assert repair(waiting("couldn't assign flavors").build()) == ""
    assert repair(CASES["finished"].build()) == ""


@pytest.mark.parametrize("reason", [each for each in CASES if each != "finished"])
def test_what_it_says_can_be_done(world: World, cli: Run, reason: str) -> None:
    manager = world.manager
    manager.add(WORKLOADS, CASES[reason].build())
    manager.add(JOBS, job("train", namespace="a").build())
    manager.add(LOCAL_QUEUES, local_queue("main", "shared", namespace="a").stopped().build())
    manager.add(LOCAL_QUEUES, local_queue("other", "shared", namespace="a").build())
    manager.add(CLUSTER_QUEUES, cluster_queue("shared").build())
    commands = re.findall(r"`multikueue ([^`]*)`", repair(CASES[reason].build()))
    assert commands

    for words in commands:
        yes = ["--yes"] if "cancel" in words else []
        queue = "shared" if "clusterqueue/" in words else "other"
        assert cli(*words.replace("QUEUE", queue).split(), *yes).code == 0, words

    if "release" in commands[-1]:
        now = read(world)
        assert now is not None
        assert workload_spec(now).active
    if "cancel" in commands[-1]:
        assert manager.named(JOBS, "train", "a") is None
    if "move" in commands[-1]:
        moved = manager.named(JOBS, "train", "a")
        assert moved is not None
        assert moved["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "other"
    if "resume" in commands[-1]:
        resumed = manager.named(LOCAL_QUEUES, "main", "a")
        assert resumed is not None
        assert resumed["spec"]["stopPolicy"] == "None"
