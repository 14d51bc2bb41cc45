"""What the manager is ready for, and what it says is missing; its life is in tests/real."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue import manager as composition
from multikueue.api.kinds import CLUSTER_QUEUES, JOBS, WORKLOADS, Kind
from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.client import Client
from multikueue.kube.credentials import Credentials
from multikueue.kube.reflector import OnState
from multikueue.manager import Manager, Readiness, ReflectorGroup
from multikueue.roles import Runnables, Watch
from multikueue.settings import BESIDE_KUEUE, EXTERNAL_DISPATCHER, InForce, Role, Settings
from multikueue.settings.tree import Webhook
from multikueue.store.cache import Cache
from multikueue.testing import NOW
from multikueue.web.server import Server
from tests.cluster import Cluster

pytestmark = pytest.mark.anyio


def test_the_first_that_is_missing_is_named_and_the_others_are_listed() -> None:
    readiness = Readiness(caches=["jobs", "workloads"], webhook=True)
    told = [readiness.problem]
    for name in ("cache-workloads", "cache-jobs", "workers", "webhook"):
        readiness.reached(name)
        told.append(readiness.problem)
    assert told == [
        "cache-jobs: not listed yet",
        "cache-jobs: not listed yet",
        "workers: no first contact yet",
        "webhook: not in place yet",
        None,
    ]
    assert readiness.details == {"cache-jobs": "", "cache-workloads": "", "workers": "", "webhook": ""}


def test_without_a_webhook_none_is_waited_for() -> None:
    assert "webhook" not in Readiness(caches=["jobs"], webhook=False).details


def test_the_first_watch_that_stands_again_hurries_the_others_and_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried: list[str] = []

    class Watching:
        def __init__(self, _client: object, kind: Kind[Any], *_more: object, on_state: OnState, **_how: object) -> None:
            self.name, self.on_state = kind.plural, on_state

        def hurry(self) -> None:
            hurried.append(self.name)

    monkeypatch.setattr(composition, "Reflector", Watching)
    reflector_group = ReflectorGroup(Cluster("manager", lambda: NOW), lambda: hurried.append("queues"))
    jobs, queues, workloads = (
        cast("Watching", reflector_group.reflector(Watch(kind, Cache(lambda *_: None))))
        for kind in (JOBS, CLUSTER_QUEUES, WORKLOADS)
    )
    jobs.on_state(True, "")
    assert hurried == [], "nobody is in trouble"
    for watching in (jobs, queues):
        watching.on_state(False, "no connection")
    queues.on_state(True, "")
    assert hurried == ["jobs", "queues"]
    workloads.on_state(True, "")
    assert hurried == ["jobs", "queues"], "it was not in trouble itself"


async def test_who_waits_for_the_manager_cluster_says_where_it_looks_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(composition, "PATIENCE", 0.1)
    nobody = Credentials(server="http://127.0.0.1:1", source="/home/me/config: context 'here'")
    with capture_logs() as logs:
        async with Client.connect(nobody) as client:
            with pytest.raises(ClusterUnreachable):
                await composition._reach(client, nobody, 5.0)

    [told] = logs
    assert (told["event"], told["server"], told["source"]) == ("manager.waiting", nobody.server, nobody.source)
    assert "127.0.0.1" in told["why"]


async def test_a_webhook_does_not_start_without_the_authority_that_it_was_told_of(tmp_path: Path) -> None:
    settings = Settings(webhook=Webhook(enabled=True, client_ca_file=tmp_path / "none"))
    manager = Manager(InForce(settings), Cluster("manager", lambda: NOW))
    with pytest.raises(ConfigurationError, match="none: expected certificates in PEM"):
        await manager._serve_webhook(cast("Server", None))


async def test_workers_that_were_not_reached_yet_and_a_webhook_that_does_not_stand_are_told_as_such() -> None:
    contact = anyio.Event()
    manager = Manager(InForce(Settings(webhook=Webhook(enabled=True))), Cluster("manager", lambda: NOW))
    manager.readiness = Readiness(caches=[], webhook=True)
    runnables = Runnables(watches=(), cluster_loops=(), contact=contact.wait, loops=())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager._connect, tasks, runnables)
        await anyio.wait_all_tasks_blocked()
        assert manager.readiness.problem == "workers: no first contact yet"
        contact.set()
    assert manager.readiness.problem == "webhook: not in place yet"


@pytest.mark.parametrize(("roles", "told"), [(EXTERNAL_DISPATCHER, True), (BESIDE_KUEUE, False)])
async def test_a_webhook_that_kueue_has_already_is_warned_of(
    roles: frozenset[Role], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kept(*_words: object, **_more: object) -> None:
        return None

    monkeypatch.setattr(composition, "keep_webhook", kept)
    settings = Settings(roles=roles, webhook=Webhook(enabled=True))
    with capture_logs() as logs:
        await Manager(InForce(settings), Cluster("manager", lambda: NOW))._serve_webhook(cast("Server", None))
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["webhook.not_needed"] * told
