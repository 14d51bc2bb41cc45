"""Holding and resuming: what is written, what is said before, and that a drain asks."""

from __future__ import annotations

import io

import pytest

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from tests.builders import cluster_queue, local_queue
from tests.cli.conftest import Run, World


@pytest.fixture
def queue(world: World) -> World:
    world.manager.add(LOCAL_QUEUES, local_queue("main", namespace="a").build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("shared").build())
    return world


def policy(world: World) -> str:
    found = world.manager.named(LOCAL_QUEUES, "main", "a")
    assert found is not None
    return str(found["spec"].get("stopPolicy", "None"))


def test_hold_and_resume(queue: World, cli: Run) -> None:
    held = cli("queues", "hold", "-n", "a", "main")
    assert policy(queue) == "Hold"
    again = cli("queues", "hold", "-n", "a", "main")
    resumed = cli("queues", "resume", "-n", "a", "main")
    assert policy(queue) == "None"

    assert (held.out, resumed.out) == ("LocalQueue a/main held\n", "LocalQueue a/main resumed\n")
    assert "Keeps the 0 that wait in LocalQueue a/main waiting; the 0 with quota go on." in held.err
    assert again.err == "LocalQueue a/main is held already.\n"


def test_a_drain_asks_first(queue: World, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))

    assert cli("queues", "hold", "-n", "a", "main", "--drain").code == 1
    assert policy(queue) == "None"
    assert cli("queues", "hold", "-n", "a", "main", "--drain", "--yes").out == "LocalQueue a/main held and drained\n"
    assert policy(queue) == "HoldAndDrain"


def test_a_dry_run_changes_nothing(queue: World, cli: Run) -> None:
    ended = cli("queues", "hold", "cq/shared", "--dry-run")

    assert (ended.code, ended.out, queue.manager.sent) == (0, "", [])
    assert ended.err.endswith("(dry run)\n")
