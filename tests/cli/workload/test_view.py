"""What runs of a workload, as the manager shows it to whoever has no way to the worker, and when one's own way is taken."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, cast

import anyio
import pytest

from fakekube.model.wire import Refused
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.printed import PODS, WORKLOAD_ANNOTATION, PrintedPod
from multikueue.cli.access.connection import ContextChoice
from multikueue.cli.access.worker_access import WorkerAccess
from multikueue.cli.workload import view
from multikueue.cli.workload.view import WorkloadView
from multikueue.errors import ApiError, ServerError
from multikueue.kube.cluster_client import WatchingClient
from tests.builders import workload
from tests.cli.conftest import Result, Run, World

BASE = "/apis/visibility.multikueue.dev/v1alpha1/namespaces/a/workloads/job-train"

Tree = dict[str, Any]


def pod(name: str, phase: str = "Running", **meta: Any) -> Tree:
    made = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": "2026-01-01T12:00:00Z", **meta}
    return {"metadata": made, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": phase}}


def shows(world: World, *pods: Tree, unseen: Sequence[str] = (), cluster: str = "far") -> None:
    """The manager shows these pods; the worker is one that nobody has a context for."""
    running = workload("job-train", namespace="a").queue("main").owner_job("train")
    world.manager.add(WORKLOADS, running.reserved("cq").admitted().cluster_name(cluster).build())
    world.manager.documents[f"{BASE}/pods"] = {"kind": "WorkloadPods", "items": pods, "unseen": unseen}


def test_who_has_no_way_to_the_worker_sees_the_pods_by_the_manager(world: World, cli: Run) -> None:
    shows(world, pod("one"), pod("two", "Pending"))
    result = cli("pods", "-n", "a", "train")
    assert (result.code, result.err) == (0, "")
    assert [line.split()[:3] for line in result.lines[1:]] == [["one", "0/1", "Running"], ["two", "0/1", "Pending"]]
    assert all("far" in line for line in result.lines[1:])
    items = json.loads(cli("pods", "-n", "a", "train", "-o", "json").out)["items"]
    assert [(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in items] == [
        ("v1", "Pod", "one"),
        ("v1", "Pod", "two"),
    ]


def test_what_the_manager_has_not_seen_is_told(world: World, cli: Run) -> None:
    shows(world, pod("one"), unseen=["only 1 is shown"])
    assert cli("pods", "-n", "a", "train").err == "There may be more: only 1 is shown\n"
    shows(world, unseen=["it may not read Part there"])
    assert "found on far (it may not read Part there)." in cli("pods", "-n", "a", "train").err


def test_where_the_manager_shows_nothing_one_s_own_way_is_taken(world: World, cli: Run) -> None:
    shows(world, cluster="worker")
    del world.manager.documents[f"{BASE}/pods"]
    world.worker.add(PODS, pod("own", annotations={WORKLOAD_ANNOTATION: "job-train"}))
    assert [line.split()[0] for line in cli("pods", "-n", "a", "train").lines[1:]] == ["own"]


def test_a_way_that_is_named_goes_first(world: World, cli: Run) -> None:
    shows(world, pod("told"))
    world.worker.add(PODS, pod("own", annotations={WORKLOAD_ANNOTATION: "job-train"}))
    assert [line.split()[0] for line in cli("pods", "-n", "a", "train", "--worker-context", "worker").lines[1:]] == [
        "own"
    ]
    assert not [request for request in world.manager.requests if request.path.startswith("/apis/visibility")]


def test_without_any_way_both_reasons_are_told(world: World, cli: Run) -> None:
    shows(world)
    world.manager.documents[f"{BASE}/pods"] = {"kind": "WorkloadPods", "items": 3}
    result = cli("pods", "-n", "a", "train")
    assert result.code == 1
    assert "no way to far: there is no MultiKueueCluster far" in result.err
    assert "; the manager does not show it either: pods of another form: " in result.err


EVENT: Tree = {
    "metadata": {"name": "e", "namespace": "a", "uid": "e"},
    "involvedObject": {"kind": "Pod", "name": "one", "uid": "one"},
    "type": "Normal",
    "reason": "Pulled",
    "message": "so it is",
    "lastTimestamp": "2026-01-01T12:00:00Z",
}


def test_events_of_the_worker_are_told_by_the_manager_too(world: World, cli: Run) -> None:
    shows(world)
    world.manager.documents[f"{BASE}/events"] = {"kind": "WorkloadEvents", "items": [EVENT], "unseen": ["so it goes"]}
    result = cli("events", "-n", "a", "train")
    assert (result.code, result.err) == (0, "There may be more: so it goes\n")
    assert [line.split()[1:5] for line in result.lines[1:]] == [["far", "Normal", "Pulled", "pod/one"]]


def test_events_that_nobody_shows_leave_those_of_the_manager(world: World, cli: Run) -> None:
    shows(world)
    world.manager.documents[f"{BASE}/events"] = {"kind": "WorkloadEvents", "items": 3}
    result = cli("events", "-n", "a", "train")
    assert result.code == 0
    assert result.err.startswith("Of the manager only: no way to far: ")
    assert "the manager does not show it either: events of another form" in result.err


def test_show_has_pods_and_events_by_the_manager_too(world: World, cli: Run) -> None:
    shows(world, pod("one"), pod("two", "Pending"), unseen=["only 2 are shown"])
    world.manager.documents[f"{BASE}/events"] = {"kind": "WorkloadEvents", "items": [EVENT]}
    result = cli("jobs", "show", "-n", "a", "train")

    assert result.code == 0
    (row,) = [line for line in result.lines if "winner" in line]
    assert row.split("   ")[-1].strip() == "by the manager, which shows neither copy nor job; only 2 are shown"
    assert "1 Running, 1 Pending" in row
    assert [line.split()[0] for line in result.lines if line.startswith(("one ", "two "))] == ["one", "two"]
    assert [line for line in result.lines if "Pulled" in line]


RUNS = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}


@pytest.mark.parametrize("words", [(), ("-f",)], ids=["what there is", "from now on"])
def test_logs_come_by_the_manager_too(world: World, cli: Run, words: tuple[str, ...]) -> None:
    shows(world, {**pod("one"), "status": RUNS})
    world.manager.documents[f"{BASE}/log"] = cast("Tree", "so it is")
    result = cli("logs", "-n", "a", "train", "--tail", "7", *words) if not words else follow_once(world, cli)
    assert result.out == '"so it is"'
    (asked,) = [request.query for request in world.manager.requests if request.path.endswith("/log")]
    expected = {"pod": "one", "container": "main", "tailLines": "7"}
    assert asked == expected | ({"follow": "true"} if words else {})


def follow_once(world: World, cli: Run) -> Result:
    """Follows until somebody has asked for the log, when the workload ends."""

    def end(_verb: str, _plural: str) -> None:
        if world.manager.requests[-1].path.endswith("/log"):
            done = workload("job-train", namespace="a").queue("main").owner_job("train").reserved("cq").admitted()
            world.manager.add(WORKLOADS, done.cluster_name("far").finished(message="all went well").build())

    world.manager.fault = end
    return cli("logs", "-n", "a", "train", "--tail", "7", "-f")


def test_a_log_that_the_manager_does_not_show_names_the_right_that_is_missing(world: World, cli: Run) -> None:
    shows(world, {**pod("one"), "status": RUNS})

    def forbid(_verb: str, _plural: str) -> Refused | None:
        is_log = world.manager.requests[-1].path.endswith("/log")
        return Refused(403, "Forbidden", 'cannot get resource "pods/log"') if is_log else None

    world.manager.fault = forbid
    result = cli("logs", "-n", "a", "train")
    assert result.code == 1
    assert "no way to far: " in result.err
    assert 'the manager does not show it either: cannot get resource "pods/log"' in result.err


# Following.


class Answering:
    """A manager that gives one answer after the other, and then the last one."""

    def __init__(self, *answers: Tree | ApiError) -> None:
        self.answers: Iterator[Tree | ApiError] = iter(answers)
        self.ended = anyio.Event()

    async def request(self, _method: str, _path: str, **_: Any) -> bytes:
        answer = next(self.answers, None)
        if answer is None:
            self.ended.set()
            await anyio.sleep_forever()
        if isinstance(answer, ApiError):
            raise answer
        return json.dumps(answer).encode()


@pytest.mark.anyio
async def test_changes_are_found_by_looking_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(view, "POLL_INTERVAL", timedelta())
    both, less = {"items": [pod("a"), pod("b")]}, {"items": [pod("b", "Failed")]}
    away = ServerError(503, "ServiceUnavailable", "away")
    manager = Answering({"items": [pod("a")]}, both, both, away, away, less)
    running = workload("job-train", namespace="a").reserved("cq").admitted().cluster_name("far").build()
    seen: list[tuple[str, str, bool]] = []

    async def take(each: PrintedPod, gone: bool) -> None:
        seen.append((each.metadata.name, each.status.phase, gone))

    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        looking = WorkloadView(
            cast("WatchingClient", manager), WorkerAccess(manager=ContextChoice(None, None)), running, stack
        )
        tasks.start_soon(looking.follow_pods, take)
        await manager.ended.wait()
        tasks.cancel_scope.cancel()
    assert seen == [("a", "Running", False), ("b", "Running", False), ("a", "Running", True), ("b", "Failed", False)]
    assert capsys.readouterr().err.count("away; trying again") == 1
