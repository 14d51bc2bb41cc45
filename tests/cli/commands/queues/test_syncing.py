"""`queues sync`: what workers lack of the manager's queues is shown, made, and marked; what is there stays."""

from __future__ import annotations

import io
import json

import pytest

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, NAMESPACES
from multikueue.api.meta import ObjectKey
from multikueue.registration.queues import SYNCED_LABEL
from tests.builders import local_queue
from tests.cli.conftest import Run, World

ALL = {("team-a", "main"), ("team-b", "side")}


def queues(world: World) -> set[tuple[str, str]]:
    return set(world.worker.names(LOCAL_QUEUES))


def test_a_dry_run_shows_the_difference_and_makes_nothing(fleet: World, cli: Run) -> None:
    told = cli("queues", "sync", "w1", "--dry-run")

    assert [" ".join(line.split()) for line in told.lines] == [
        "WORKER OBJECT CHANGE DETAIL",
        "w1 Namespace team-a create -",
        "w1 Namespace team-b create -",
        "w1 LocalQueue team-a/main create leads to ClusterQueue cq",
        "w1 LocalQueue team-b/side create leads to ClusterQueue cq",
    ]
    assert (told.code, queues(fleet), fleet.worker.sent) == (0, set(), [])


def test_for_programs_the_difference_has_the_objects(fleet: World, cli: Run) -> None:
    (item,) = json.loads(cli("queues", "sync", "w1", "-n", "team-a", "--dry-run", "-o", "json").out)["items"]

    assert (item["worker"], item["problems"]) == ("w1", {})
    assert [each["kind"] for each in item["objects"]] == ["Namespace", "LocalQueue"]


def test_for_programs_nothing_else_is_printed(fleet: World, cli: Run) -> None:
    done = cli("queues", "sync", "w1", "--yes", "-o", "json")

    assert len(json.loads(done.out)["items"]) == 1
    assert "w1: LocalQueue team-a/main created" in done.err


@pytest.mark.parametrize(
    "words",
    [("queues", "sync", "w1", "-n", "team-b"), ("-n", "team-b", "queues", "sync", "w1")],
    ids=["after the command", "before it"],
)
def test_queues_of_one_namespace_are_made_alone(fleet: World, cli: Run, words: tuple[str, ...]) -> None:
    assert (cli(*words, "--yes").code, queues(fleet)) == (0, {("team-b", "side")})


def test_what_is_missing_is_made_and_a_second_run_changes_nothing(fleet: World, cli: Run) -> None:
    first = cli("queues", "sync", "w1", "--yes")
    made = fleet.worker.named(LOCAL_QUEUES, "main", "team-a")
    sent = [*fleet.worker.sent]
    second = cli("queues", "sync", "w1", "--yes")

    assert (first.code, second.code, queues(fleet)) == (0, 0, ALL)
    assert made is not None
    assert made["metadata"]["labels"][SYNCED_LABEL] == "multikueue"
    assert "w1: LocalQueue team-a/main created" in first.lines
    assert (second.lines, second.err, fleet.worker.sent) == ([], "1 of 1 workers have the manager's queues.\n", sent)


def test_what_somebody_else_made_stays_as_it_is(fleet: World, cli: Run) -> None:
    fleet.worker.add(NAMESPACES, {"metadata": {"name": "team-a"}})
    fleet.worker.add(LOCAL_QUEUES, local_queue("main", "theirs", namespace="team-a").build())
    before = [fleet.worker.named(LOCAL_QUEUES, "main", "team-a"), fleet.worker.named(NAMESPACES, "team-a")]

    assert cli("queues", "sync", "w1", "--yes").code == 0
    assert [fleet.worker.named(LOCAL_QUEUES, "main", "team-a"), fleet.worker.named(NAMESPACES, "team-a")] == before
    assert queues(fleet) == ALL


def test_a_worker_that_is_gone_keeps_no_other_from_its_queues(fleet: World, cli: Run) -> None:
    done = cli("queues", "sync", "--yes")

    assert (done.code, queues(fleet)) == (3, ALL)
    assert "1 of 2 workers have the manager's queues." in done.err
    assert "error: cluster w2 is unreachable" in done.err


def test_without_a_yes_nothing_is_made(fleet: World, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))

    assert (cli("queues", "sync", "w1").code, queues(fleet)) == (1, set())


def test_rights_that_are_missing_are_told_and_the_rest_is_made(fleet: World, cli: Run) -> None:
    fleet.worker.add(NAMESPACES, {"metadata": {"name": "team-b"}})
    fleet.worker.denied = {("namespaces", "create")}

    done = cli("queues", "sync", "w1", "--yes")

    assert (done.code, queues(fleet)) == (1, {("team-b", "side")})
    assert "LocalQueue team-a/main: you may not create namespaces there; ask for the right to" in done.err
    assert "0 of 1 workers have the manager's queues." in done.err


def test_where_no_cluster_queue_has_that_name_one_can_be_named(fleet: World, cli: Run) -> None:
    fleet.worker.add(CLUSTER_QUEUES, {"metadata": {"name": "shared"}, "spec": {"namespaceSelector": {}}})
    fleet.worker.drop(CLUSTER_QUEUES, ObjectKey("", "cq"))

    refused = cli("queues", "sync", "w1", "--yes")
    done = cli("queues", "sync", "w1", "--yes", "--cluster-queue", "shared")

    assert (refused.code, done.code, queues(fleet)) == (1, 0, ALL)
    assert "there is no ClusterQueue cq (there are: shared)" in refused.err


def test_a_way_to_another_cluster_changes_nothing_there(fleet: World, cli: Run) -> None:
    known = {"metadata": {"annotations": {"multikueue.dev/cluster-uid": "another"}}}
    fleet.manager.change(MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), known)

    done = cli("queues", "sync", "w1", "--yes")

    assert (done.code, queues(fleet)) == (2, set())
    assert "your way to w1 leads to another cluster than the manager's" in done.err


@pytest.mark.parametrize("words", [(), ("w1", "w2")], ids=["all", "two"])
def test_one_context_is_of_one_worker(fleet: World, cli: Run, words: tuple[str, ...]) -> None:
    assert cli("queues", "sync", *words, "--worker-context", "worker").code == 2
