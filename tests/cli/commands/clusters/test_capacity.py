"""`multikueue clusters capacity`: what workers have, and what would become of nominal quotas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multikueue.api.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
)
from multikueue.api.kueue.queues import FOLLOW_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from multikueue.registration.credentials import Credential, Endpoint, build_kubeconfig
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from tests.builders import admission_check, cluster_queue, local_queue, multikueue_cluster, multikueue_config, secret
from tests.cli.conftest import Run, World

OURS = cluster_queue("main").quota("default", cpu=10).checks("mk")
COMMAND = ("clusters", "capacity")


@pytest.fixture
def joined(world: World, cli: Run) -> World:
    """A registered worker with 24 cores for a queue of the manager that has 10, and one without workers."""
    assert cli("clusters", "register", "w1", "--context", "worker", "--config-name", "all").code == 0
    world.manager.add(ADMISSION_CHECKS, admission_check("mk").config("all").build())
    world.manager.add(CLUSTER_QUEUES, OURS.build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("here").quota("default", cpu=1).build())
    world.manager.add(LOCAL_QUEUES, local_queue("lq", "main", namespace="team-a").build())
    world.worker.add(CLUSTER_QUEUES, cluster_queue("theirs").quota("default", cpu=24).build())
    world.worker.add(LOCAL_QUEUES, local_queue("lq", "theirs", namespace="team-a").build())
    for cluster in (world.manager, world.worker):
        cluster.sent.clear()
    return world


def cells(result: str) -> list[list[str]]:
    return [line.split() for line in result.splitlines()[1:]]


def test_it_shows_what_a_queue_would_have_and_changes_nothing(joined: World, cli: Run) -> None:
    result = cli(*COMMAND)

    assert (result.code, result.err) == (0, "")
    assert result.lines[0].split()[:4] == ["CLUSTERQUEUE", "FLAVOR", "RESOURCE", "FOLLOWS"]
    assert cells(result.out) == [["main", "default", "cpu", "no", "10", "24", "0", "24"]]
    assert joined.manager.sent == joined.worker.sent == []


def test_wide_says_who_has_how_much(joined: World, cli: Run) -> None:
    assert cells(cli(*COMMAND, "-o", "wide").out)[0][-3:] == ["-", "w1", "24"]


def test_a_worker_counts_for_the_namespaces_that_it_offers(joined: World, cli: Run) -> None:
    for offered, cores in (("team-a,team-b", "24"), ("team-b", "0")):
        change = {"metadata": {"annotations": {NAMESPACES_ANNOTATION: offered}}}
        joined.manager.change(MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), change)
        assert cells(cli(*COMMAND).out)[0][5] == cores


def test_the_settings_and_the_annotation_count(joined: World, cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("capacity_follow: {enabled: true, reserve: cpu=4}")
    assert cells(cli(*COMMAND, "--config", str(file)).out) == [["main", "default", "cpu", "yes", "10", "24", "4", "20"]]

    joined.manager.add(CLUSTER_QUEUES, OURS.annotations({FOLLOW_ANNOTATION: "50%"}).build())
    assert cells(cli(*COMMAND).out) == [["main", "default", "cpu", "yes", "10", "24", "12", "12"]]

    joined.manager.add(CLUSTER_QUEUES, OURS.annotations({FOLLOW_ANNOTATION: "half"}).build())
    assert 'got "half"' in cli(*COMMAND).err


def test_one_that_does_not_follow_is_shown_beside_those_that_do(joined: World, cli: Run) -> None:
    other = cluster_queue("other").quota("default", cpu=1).checks("mk")
    joined.manager.add(LOCAL_QUEUES, local_queue("too", "other", namespace="team-a").build())
    joined.worker.add(LOCAL_QUEUES, local_queue("too", "theirs", namespace="team-a").build())

    joined.manager.add(CLUSTER_QUEUES, other.build())
    assert [row[-1] for row in cells(cli(*COMMAND).out)] == ["24", "24"], "either could have it all"
    joined.manager.add(CLUSTER_QUEUES, other.annotations({FOLLOW_ANNOTATION: "true"}).build())
    assert [row[-1] for row in cells(cli(*COMMAND).out)] == ["12", "24"]


def test_programs_get_each_queue_as_one(joined: World, cli: Run) -> None:
    (item,) = json.loads(cli(*COMMAND, "-o", "json").out)["items"]

    assert item["metadata"] == {"name": "main"}
    assert item["quotas"] == [
        {
            "flavor": "default",
            "resource": "cpu",
            "nominalQuota": "10",
            "total": "24",
            "reserve": "0",
            "wanted": "24",
            "workers": {"w1": "24"},
            "why": "",
        }
    ]
    assert cli(*COMMAND, "-o", "name").lines == ["clusterqueue.kueue.x-k8s.io/main"]


def test_one_queue_is_chosen_by_its_name(joined: World, cli: Run) -> None:
    assert cli(*COMMAND, "main").code == 0
    unknown = cli(*COMMAND, "here")
    assert unknown.code == 1
    assert "there is no ClusterQueue 'here' with a MultiKueue check; there are: main" in unknown.err


def test_a_worker_out_of_reach_has_nothing_and_ends_with_3(joined: World, cli: Run) -> None:
    credential = Credential(kind="token", user={"token": "t"}, expires=None)
    gone = build_kubeconfig("w1", Endpoint(server="https://127.0.0.1:1"), credential)
    joined.manager.add(SECRETS, secret("multikueue-w1", namespace="kueue-system").kubeconfig(gone).build())

    result = cli(*COMMAND)

    assert result.code == 3
    assert cells(result.out)[0][-4:] == ["10", "0", "0", "10"], "nobody knows what it counts"
    assert "main: w1 is away" in result.err


@pytest.mark.parametrize(
    "kubeconfig", [b"users: [{name: a, user: {tokenFile: /x}}]\nclusters: [{name: c}]", b"nonsense"]
)
def test_a_kubeconfig_that_the_manager_would_refuse_is_not_used(joined: World, cli: Run, kubeconfig: bytes) -> None:
    joined.manager.add(SECRETS, secret("multikueue-w1", namespace="kueue-system").kubeconfig(kubeconfig).build())

    result = cli(*COMMAND)

    assert result.code == 3
    assert "main: w1: cannot be read" in result.err


def test_a_worker_whose_credentials_only_the_manager_has_is_named(joined: World, cli: Run) -> None:
    joined.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").path("/etc/w1").build())
    result = cli(*COMMAND)
    assert result.code == 3
    assert "main: w1: only the manager has the file /etc/w1" in result.err


def test_a_cordoned_worker_has_nothing(joined: World, cli: Run) -> None:
    cordoned = multikueue_cluster("w1").secret("multikueue-w1").annotations({CORDON_ANNOTATION: "true"})
    joined.manager.add(MULTIKUEUE_CLUSTERS, cordoned.build())
    result = cli(*COMMAND)
    assert cells(result.out)[0][5] == "0"
    assert (result.code, "main: w1 is cordoned" in result.err) == (0, True)


def test_a_cluster_that_nobody_made_is_named(joined: World, cli: Run) -> None:
    joined.manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "w1", "w9").build())
    assert "main: w9 has no MultiKueueCluster" in cli(*COMMAND).err


def test_without_workers_nothing_would_change(joined: World, cli: Run) -> None:
    joined.manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all").build())
    result = cli(*COMMAND)
    assert result.code == 0
    assert "main: no worker is configured" in result.err
    assert cells(result.out)[0][-1] == "10"
