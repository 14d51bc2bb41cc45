"""What a worker lacks of the manager's queues."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES
from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, MultiKueueCluster
from multikueue.errors import ConfigurationError
from multikueue.registration.queues import (
    NAME_LABEL,
    SYNCED_LABEL,
    LackingQueues,
    QueuesOnWorker,
    lacking,
    look_for_lacking,
    refuse_another_cluster,
)
from tests.builders import cluster_queue, local_queue, multikueue_cluster, namespace
from tests.cli.cluster import Cluster, Fake

MAIN = local_queue("main", "cq", namespace="team-a").build()
SIDE = local_queue("side", "cq", namespace="team-a").build()
TEAM = {"team-a": namespace("team-a").labels(team="a", secret="x").build()}


def there(**has: Any) -> QueuesOnWorker:
    everything: dict[str, Any] = {
        "queues": frozenset(),
        "cluster_queues": {"cq": cluster_queue("cq").build()},
        "namespaces": {},
    }
    return QueuesOnWorker(**everything | has)


def made(found: LackingQueues) -> list[str]:
    return [str(each) for each in found.wanted]


SPACE, QUEUE, OTHER = "Namespace team-a", "LocalQueue team-a/main", "LocalQueue team-a/side"

SEEN: dict[str, tuple[QueuesOnWorker, list[str]]] = {
    "nothing": (there(), [SPACE, QUEUE, OTHER]),
    "the namespace": (there(namespaces=TEAM), [QUEUE, OTHER]),
    "a namespace that may not be seen": (there(namespaces={"team-a": None}), [QUEUE, OTHER]),
    "one of two queues": (there(queues=frozenset({MAIN.key}), namespaces=TEAM), [OTHER]),
    "all of it": (there(queues=frozenset({MAIN.key, SIDE.key}), namespaces=TEAM), []),
}


@pytest.mark.parametrize(("seen", "expected"), SEEN.values(), ids=SEEN)
def test_what_is_missing_is_made_and_nothing_else(seen: QueuesOnWorker, expected: list[str]) -> None:
    found = lacking([MAIN, SIDE], TEAM, seen)

    assert (made(found), found.problems) == (expected, {})
    assert all(each.is_shared for each in found.wanted)


def test_what_is_made_says_whose_it_is_and_where_it_leads() -> None:
    space, queue = lacking([MAIN], TEAM, there(), origin="east").wanted

    assert space.body["metadata"]["labels"] == queue.body["metadata"]["labels"]
    assert queue.body["metadata"]["labels"][SYNCED_LABEL] == "east"
    assert queue.body["spec"] == {"clusterQueue": "cq"}


def selecting(**labels: str) -> QueuesOnWorker:
    shared = cluster_queue("cq").namespaces(LabelSelector(match_labels=labels)).build()
    return there(cluster_queues={"cq": shared})


def test_a_namespace_has_the_labels_that_its_queue_selects_by_and_no_others() -> None:
    space, _ = lacking([MAIN], TEAM, selecting(team="a")).wanted

    assert space.body["metadata"]["labels"]["team"] == "a"
    assert "secret" not in space.body["metadata"]["labels"]


def test_a_namespace_is_selected_by_its_name() -> None:
    by_name = LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=NAME_LABEL, operator="In", values=("team-a",)),)
    )
    shared = cluster_queue("cq").namespaces(by_name).build()

    space, _ = lacking([MAIN], TEAM, there(cluster_queues={"cq": shared})).wanted

    assert NAME_LABEL not in space.body["metadata"]["labels"]


PROBLEMS: dict[str, tuple[QueuesOnWorker, str]] = {
    "no ClusterQueue of that name": (
        there(cluster_queues={"other": cluster_queue("other").build()}),
        "there is no ClusterQueue cq (there are: other)",
    ),
    "one that does not select the new namespace": (selecting(team="b"), "does not select namespace team-a"),
    "one that does not select the namespace there": (
        QueuesOnWorker(
            queues=frozenset(),
            cluster_queues=selecting(team="a").cluster_queues,
            namespaces={"team-a": namespace("team-a").build()},
        ),
        "does not select namespace team-a",
    ),
}


@pytest.mark.parametrize(("seen", "words"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_queue_that_would_take_no_jobs_is_not_made(seen: QueuesOnWorker, words: str) -> None:
    found = lacking([MAIN], TEAM, seen)

    assert found.wanted == ()
    assert words in found.problems[MAIN.key]


def test_one_that_is_named_takes_the_place_of_the_one_of_the_same_name() -> None:
    seen = there(cluster_queues={"other": cluster_queue("other").build()})

    (_, queue) = lacking([MAIN], TEAM, seen, cluster_queue="other").wanted

    assert queue.body["spec"] == {"clusterQueue": "other"}


@pytest.fixture
def worker() -> Cluster:
    made = Cluster("worker")
    made.add(CLUSTER_QUEUES, cluster_queue("cq").build())
    return made


RIGHTS: dict[str, tuple[set[tuple[str, ...]], str]] = {
    "no right to make namespaces": ({("namespaces", "create")}, "you may not create namespaces there; ask Eve"),
    "no right to make queues there": (
        {("localqueues", "create", "team-a")},
        "you may not create LocalQueues in namespace team-a there; ask Eve",
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("denied", "words"), RIGHTS.values(), ids=RIGHTS)
async def test_a_right_that_is_missing_is_told_before_anything_is_made(
    worker: Cluster, denied: set[tuple[str, ...]], words: str
) -> None:
    worker.denied = denied

    found = await look_for_lacking(Fake(worker), [MAIN], TEAM, ("",), advice="ask Eve")

    assert (found.wanted, found.problems) == ((), {MAIN.key: words})


@pytest.mark.anyio
async def test_a_namespace_that_is_not_offered_is_left_alone(worker: Cluster) -> None:
    worker.add(NAMESPACES, {"metadata": {"name": "team-a"}})

    elsewhere = await look_for_lacking(Fake(worker), [MAIN], TEAM, ("team-b",))
    offered = await look_for_lacking(Fake(worker), [MAIN], TEAM, ("team-a",))

    assert (made(elsewhere), made(offered)) == ([], [QUEUE])


@pytest.mark.anyio
async def test_nothing_more_is_read_where_nothing_is_missing(worker: Cluster) -> None:
    worker.add(LOCAL_QUEUES, MAIN)

    await look_for_lacking(Fake(worker), [MAIN], TEAM, ("",))

    assert worker.calls == ["list localqueues"]


def known_as(uid: str | None) -> MultiKueueCluster:
    made = multikueue_cluster("w1")
    return (made.annotations({CLUSTER_UID_ANNOTATION: uid}) if uid else made).build()


@pytest.mark.anyio
@pytest.mark.parametrize("uid", ["worker-1", None], ids=["the same cluster", "nobody knows which one it was"])
async def test_a_way_to_the_managers_cluster_is_taken(worker: Cluster, uid: str | None) -> None:
    await refuse_another_cluster(Fake(worker), known_as(uid))


@pytest.mark.anyio
async def test_a_way_to_another_cluster_is_refused(worker: Cluster) -> None:
    with pytest.raises(ConfigurationError, match="not another"):
        await refuse_another_cluster(Fake(worker), known_as("another"))
