"""What is shown of queues."""

from __future__ import annotations

import json
from functools import partial
from typing import TypeVar

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from fakekube.model.wire import Refused
from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION, ClusterQueue, LocalQueue
from multikueue.cli.access.connection import ContextChoice, now
from multikueue.cli.commands.queues.group import watch_queues
from multikueue.cli.terminal.formats import Format
from multikueue.quota.capacity.spend import Account, limit_of
from testbed.client import eventually
from tests.builders import cluster_queue, local_queue, workload
from tests.cli.conftest import Run, World
from tests.cli.field import MERGE, Field

Queue = TypeVar("Queue", ClusterQueue, LocalQueue)


@pytest.fixture
def queues(world: World) -> World:
    """Two LocalQueues of one ClusterQueue, with two that wait in one of them and one that has quota."""
    manager = world.manager
    manager.add(CLUSTER_QUEUES, cluster_queue("shared").build())
    for name, namespace in (("main", "a"), ("side", "b")):
        manager.add(LOCAL_QUEUES, local_queue(name, "shared", namespace=namespace).build())
    for made in (
        workload("late", namespace="a").queue("main"),
        workload("early", namespace="a").queue("main").priority(7).owner_job("train"),
        workload("other", namespace="b").queue("side"),
        workload("runs", namespace="a").queue("main").reserved("shared"),
    ):
        manager.add(WORKLOADS, made.build())
    return world


def test_list_shows_the_local_queues_of_a_namespace(queues: World, cli: Run) -> None:
    result = cli("queues", "list", "-n", "a")

    assert result.lines[0].split() == ["NAME", "CLUSTERQUEUE", "PENDING", "RESERVING", "ADMITTED", "STATE", "AGE"]
    assert [line.split()[:2] for line in result.lines[1:]] == [["main", "shared"]]


def test_list_of_all_namespaces_names_them(queues: World, cli: Run) -> None:
    assert [line.split()[:2] for line in cli("queues", "list", "-A").lines] == [
        ["NAMESPACE", "NAME"],
        ["a", "main"],
        ["b", "side"],
    ]


def test_list_of_cluster_queues(queues: World, cli: Run) -> None:
    assert cli("queues", "list", "--cluster-queues", "-o", "name").out == "clusterqueue.kueue.x-k8s.io/shared\n"


def with_spend(queue: Queue, spent: float, limit: str, *, rate: float = 0.0) -> Queue:
    """The queue as a manager tells what it has spent, now."""
    limited = replace(
        queue, metadata=replace(queue.metadata, annotations={MAX_SPEND_ANNOTATION: limit} if limit else {})
    )
    account = Account(at=now(), begun=now(), limit=limit_of(limited), spent=spent, rate=rate)
    conditions = account.told((), generation=1, now=now())
    return replace(limited, status=replace(limited.status, conditions=conditions))


def test_spend_shows_what_queues_have_spent_and_may_spend(world: World, cli: Run) -> None:
    manager = world.manager
    manager.add(CLUSTER_QUEUES, with_spend(cluster_queue("shared").build(), 150, "100/24h"))
    manager.add(LOCAL_QUEUES, with_spend(local_queue("main", "shared", namespace="a").build(), 20, ""))
    manager.add(LOCAL_QUEUES, with_spend(local_queue("new", "shared", namespace="a").build(), 0, "5/2h"))
    manager.add(LOCAL_QUEUES, local_queue("side", "shared", namespace="b").build())

    result = cli("queues", "spend")
    assert result.code == 0, result.err
    rows = [line.split() for line in result.lines]
    assert rows[0] == ["QUEUE", "NAMESPACE", "SPENT", "LIMIT", "WINDOW", "STATE"]
    assert rows[1][:-1] == ["clusterqueue/shared", "-", "150.00", "100", "24h", "Over", "until"]
    assert rows[2:] == [
        ["localqueue/main", "a", "20.00", "-", "168h", "Within"],
        ["localqueue/new", "a", "0.00", "5", "2h", "Within"],
    ]
    assert [line.split()[0] for line in cli("queues", "spend", "-n", "a", "--no-headers").lines] == [
        "localqueue/main",
        "localqueue/new",
    ]
    assert cli("queues", "spend", "-n", "b").err.startswith("No queue has spent anything")


def test_an_empty_namespace_is_named(queues: World, cli: Run) -> None:
    assert cli("queues", "list", "-n", "c").err == "No LocalQueues found in namespace c.\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("main", "-n", "a"), ["a/early", "a/late"]),
        (("cq/shared",), ["a/early", "a/late", "b/other"]),
        (("clusterqueue.kueue.x-k8s.io/shared",), ["a/early", "a/late", "b/other"]),
    ],
    ids=["a LocalQueue", "a ClusterQueue", "by its whole name"],
)
def test_show_has_the_line_in_order(queues: World, cli: Run, words: tuple[str, ...], expected: list[str]) -> None:
    lines = cli("queues", "show", *words).lines

    waiting = [line.split() for line in lines[lines.index("Waiting") + 2 :]]
    assert [row[:2] for row in waiting] == [[str(n), name] for n, name in enumerate(expected, 1)]
    assert waiting[0][2] == "Job/train"


@pytest.mark.parametrize("words", [("main", "-n", "a"), ("cq/shared",)], ids=["a LocalQueue", "a ClusterQueue"])
def test_show_has_the_quota_behind_what_is_reserved(queues: World, cli: Run, words: tuple[str, ...]) -> None:
    total = {"flavorsReservation": [{"name": "default", "resources": [{"name": "cpu", "total": "2"}]}]}
    shared = json.loads(msgspec.json.encode(cluster_queue("shared").quota("default", cpu=20).build()))
    main = json.loads(msgspec.json.encode(local_queue("main", "shared", namespace="a").build()))
    queues.manager.add(CLUSTER_QUEUES, {**shared, "status": total})
    queues.manager.add(LOCAL_QUEUES, {**main, "status": total})

    lines = cli("queues", "show", *words).lines

    assert lines[lines.index("Quota") + 2].split() == ["default", "cpu", "2", "-", "20"]


def test_show_tells_who_may_not_see_the_quota(queues: World, cli: Run) -> None:
    def fault(_verb: str, plural: str) -> Refused | None:
        return Refused(403, "Forbidden", "you may not") if plural == "clusterqueues" else None

    queues.manager.fault = fault

    told = cli("queues", "show", "-n", "a", "main")

    assert (told.code, told.err) == (0, "Not seen: its quota: you may not\n")


def test_show_for_programs(queues: World, cli: Run) -> None:
    assert json.loads(cli("queues", "show", "-n", "a", "main", "-o", "json").out)["kind"] == "LocalQueue"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("mian", "-n", "a"), "did you mean 'main'?"),
        (("cq/main",), "there is no ClusterQueue 'main'; there are: shared"),
        (("clusterqeue/main",), "'clusterqeue' is no kind of queues; did you mean 'clusterqueue'?"),
    ],
    ids=["a misspelt name", "another kind", "a misspelt kind"],
)
def test_what_is_not_there_has_the_nearest(queues: World, cli: Run, words: tuple[str, ...], hint: str) -> None:
    ended = cli("queues", "show", *words)

    assert ended.code == 1
    assert hint in ended.err


@pytest.mark.anyio
async def test_each_change_is_a_row(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "cq"}}
    rows = list[list[str]]()

    async def seen(number: int) -> None:
        async def yet() -> bool:
            rows.extend(line.split() for line in capsys.readouterr().out.splitlines())
            return len(rows) >= number

        await eventually(yet)

    await field.manager.create({**queue, "metadata": {"name": "main", "namespace": "default"}})
    async with anyio.create_task_group() as tasks:
        watch = partial(watch_queues, has_headers=False)
        tasks.start_soon(watch, ContextChoice(field.kubeconfig, None), None, LOCAL_QUEUES, Format.TABLE)
        await seen(1)
        path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/main"
        await field.manager.request("PATCH", path, body={"spec": {"stopPolicy": "Hold"}}, content_type=MERGE)
        await seen(2)
        tasks.cancel_scope.cancel()

    assert [(row[0], row[5]) for row in rows] == [("main", "Unknown"), ("main", "Held")]
