"""A workload is held and released, and released in any case."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api.kinds import WORKLOADS
from multikueue.api.meta import encode
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload import activation
from multikueue.errors import Forbidden
from tests.builders import NOW, WorkloadBuilder, workload
from tests.cluster import Cluster

pytestmark = pytest.mark.anyio

RUNNING = workload("train").reserved("cq").admitted()
GIVEN_BACK = workload("train").evicted("Deactivated")


def body(builder: WorkloadBuilder) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(encode(builder.build()))
    return found


def manager(*states: WorkloadBuilder) -> Cluster:
    """A manager cluster that shows the workload so, look by look; the last state stays."""
    cluster, left = Cluster("manager", lambda: NOW), list(states)

    def go_on(verb: str, _plural: str) -> None:
        if verb == "get" and left:
            cluster.put(WORKLOADS, body(left.pop(0)))

    cluster.put(WORKLOADS, body(RUNNING))
    cluster.fault = go_on
    return cluster


def activations(cluster: Cluster) -> list[bool]:
    """The values of `spec.active` that were written."""
    patches = [request.body for request in cluster.requests if request.method == "PATCH"]
    return [msgspec.json.decode(body)["spec"]["active"] for body in patches]


async def test_it_is_released_once_its_quota_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "POLL_INTERVAL", timedelta())
    cluster = manager(RUNNING, GIVEN_BACK.requeue_state(1), GIVEN_BACK)

    await activation.requeue(cluster, RUNNING.build())

    assert activations(cluster) == [False, True]
    assert cluster.calls.count("get workloads") == 3, "it was released before its quota and its back-off were gone"


async def test_it_is_released_also_where_no_manager_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "GIVE_BACK_TIMEOUT", timedelta())
    cluster = manager(RUNNING)

    with pytest.raises(CommandFailed, match="does a manager run"):
        await activation.requeue(cluster, RUNNING.build())

    assert activations(cluster) == [False, True]


async def test_the_missing_right_is_named() -> None:
    cluster = manager()
    cluster.fault = lambda _verb, _plural: Forbidden(403, "Forbidden", "you may not")
    with pytest.raises(CommandFailed, match="as the role multikueue-batch-admin has it"):
        await activation.activate(cluster, RUNNING.build(), is_active=False)
