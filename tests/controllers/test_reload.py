"""The settings of a running manager follow their file; one that is wrong changes nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.controllers.reload import Reload, log_ignored
from multikueue.settings import InForce, Settings, read
from tests.mount import mount

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("dispatch: {worker_lost_timeout: 10m}\n")
    return path


def reload_of(path: Path | None) -> Reload:
    loaded = read(path)
    return Reload(loaded, InForce(loaded.settings))


def after(reload: Reload, path: Path, text: str) -> list[dict[str, Any]]:
    """What is logged when the file says this now."""
    path.write_text(text)
    with capture_logs() as logs:
        reload.again()
    return [dict(entry) for entry in logs]


def test_what_is_live_is_taken_at_once_and_told(path: Path) -> None:
    reload = reload_of(path)
    logs = after(reload, path, "dispatch: {worker_lost_timeout: 5s, strategy: {name: incremental, options: {step: 2}}}")
    assert logs == [
        {
            "event": "settings.changed",
            "log_level": "info",
            "dispatch.worker_lost_timeout": "5s",
            "dispatch.strategy.name": "incremental",
            "dispatch.strategy.options": {"step": 2},
        }
    ]
    assert reload.in_force.dispatch.worker_lost_timeout == timedelta(seconds=5)
    assert reload.in_force.dispatch.strategy.name == "incremental"


def test_what_needs_a_restart_is_named_once_and_left_as_it_is(path: Path) -> None:
    reload = reload_of(path)
    text = "dispatch: {worker_lost_timeout: 10m, origin: other}\nprobes: {port: 1}"
    (entry,) = after(reload, path, text)
    assert (entry["event"], entry["settings"]) == ("settings.need_restart", ["dispatch.origin", "probes.port"])
    assert after(reload, path, text) == []
    assert reload.in_force.dispatch.origin == "multikueue"
    assert after(reload, path, "dispatch: {worker_lost_timeout: 10m}") == []
    assert [entry["event"] for entry in after(reload, path, text)] == ["settings.need_restart"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dispatch: {worker_lost_timeout: soon}", "dispatch.worker_lost_timeout: expected a duration"),
        ("dispatch: {", "expected YAML"),
        ("dispatch: {worker_lost_timeout: 1s, strategy: {name: none}}", "dispatch.strategy.name: strategy 'none'"),
        (
            "dispatch: {worker_lost_timeout: 1s, strategy: {options: {stepp: 1}}}",
            "dispatch.strategy.options: strategy 'all-at-once': there is no option stepp",
        ),
        (
            "dispatch: {worker_lost_timeout: 1s, workload_strategies: {incremental: {step: none}}}",
            "dispatch.workload_strategies.incremental: strategy 'incremental': step",
        ),
    ],
)
def test_a_file_that_is_wrong_changes_nothing_and_is_told(path: Path, text: str, why: str) -> None:
    reload = reload_of(path)
    before = reload.in_force.settings
    (entry,) = after(reload, path, text)
    assert (entry["event"], entry["log_level"]) == ("settings.refused", "error")
    assert entry["why"].startswith(f"{path}: {why}")
    assert reload.in_force.settings is before


def test_a_file_that_is_gone_changes_nothing(path: Path) -> None:
    reload = reload_of(path)
    path.unlink()
    with capture_logs() as logs:
        reload.again()
    assert [entry["event"] for entry in logs] == ["settings.refused"]
    assert reload.in_force.dispatch.worker_lost_timeout == timedelta(minutes=10)


def test_a_file_that_was_corrected_counts_again(path: Path) -> None:
    reload = reload_of(path)
    after(reload, path, "dispatch: {")
    after(reload, path, "dispatch: {worker_lost_timeout: 7s}")
    assert reload.in_force.dispatch.worker_lost_timeout == timedelta(seconds=7)


def test_flags_stay_what_they_were(path: Path) -> None:
    loaded = read(path, dispatch__worker_lost_timeout="1m")
    reload = Reload(loaded, InForce(loaded.settings))
    assert after(reload, path, "dispatch: {worker_lost_timeout: 7s}") == []
    assert reload.in_force.dispatch.worker_lost_timeout == timedelta(minutes=1)


def test_only_new_fields_of_kueue_without_effect_are_told(tmp_path: Path) -> None:
    path = tmp_path / "kueue.yaml"
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    path.write_text(f"{head}clientConnection: {{qps: 1}}")
    reload = reload_of(path)
    with capture_logs() as logs:
        log_ignored(reload.loaded.ignored)
    assert [(entry["field"], entry["value"]) for entry in logs] == [("clientConnection.qps", "1")]
    again = after(reload, path, f"{head}clientConnection: {{qps: 1, burst: 2}}")
    assert [(entry["event"], entry["field"]) for entry in again] == [("settings.ignored", "clientConnection.burst")]


@asynccontextmanager
async def running(reload: Reload) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reload.run)
        await anyio.wait_all_tasks_blocked()
        yield
        tasks.cancel_scope.cancel()


def rewrite(path: Path, text: str) -> None:
    """In one step of the loop: whoever waits for the change afterwards has not missed it."""
    path.write_text(text)


async def test_a_change_of_the_file_is_seen(path: Path) -> None:
    reload = reload_of(path)
    with anyio.fail_after(20):
        async with running(reload):
            rewrite(path, "dispatch: {worker_lost_timeout: 7s}")
            await reload.in_force.changed()
    assert reload.in_force.dispatch.worker_lost_timeout == timedelta(seconds=7)


async def test_a_mount_that_kubernetes_swaps_is_seen(tmp_path: Path) -> None:
    path = mount(tmp_path, "settings.yaml", "dispatch: {worker_lost_timeout: 6s}")
    reload = reload_of(path)
    with anyio.fail_after(20):
        async with running(reload):
            mount(tmp_path, "settings.yaml", "dispatch: {worker_lost_timeout: 7s}")
            await reload.in_force.changed()
    assert reload.in_force.dispatch.worker_lost_timeout == timedelta(seconds=7)


async def test_sighup_has_it_read_again() -> None:
    reload = reload_of(None)
    reload.in_force.take(Settings().model_copy(update={"log": Settings().log.model_copy(update={"level": "error"})}))
    with anyio.fail_after(20):
        async with running(reload):
            os.kill(os.getpid(), signal.SIGHUP)
            await reload.in_force.changed()
    assert reload.in_force.settings == Settings()
