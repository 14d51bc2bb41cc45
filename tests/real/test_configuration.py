"""Settings of a running manager: Kueue's own files as they are, and files that change under it."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from multikueue.settings.kueue import FIELDS
from testbed.bed import unique
from testbed.client import eventually
from testbed.kueue import shipped_configuration
from testbed.objects import WORKLOAD, Object
from testbed.programs import NotInstalledError, Release, module_folder
from tests.mount import mount
from tests.real.harness import ORIGIN_LABEL, Manager, Team, logged
from tests.real.test_credentials import config_of, put, says

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

VERSIONS = ("v1beta1", "v1beta2")

PORTS = {"PROBES__PORT": "0", "METRICS__PORT": "0"}
"""Kueue's ports may be taken on this machine."""

BESIDES = PORTS | {
    "CONFIG": "",
    "DISPATCH__GC_INTERVAL": "",
    "TIMINGS__SUSPECT_AFTER": "300ms",
    "TIMINGS__ISOLATE_AFTER": "1s",
    "DISPATCH__HEARTBEAT_INTERVAL": "300ms",
    "TIMINGS__HEARTBEAT_TIMEOUT": "1s",
}
"""On top of a file: losses are noticed soon; what the files speak of is left to them."""

CALM = {name: "" for name in BESIDES if name.startswith("DISPATCH__")}
"""The default settings again: a worker that is slow for a moment gets no other one in its place."""


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    return BESIDES


@dataclass(slots=True)
class File:
    """The settings file of the running manager, and what the manager said since it was started with it."""

    path: Path
    manager: Manager
    offset: int

    def write(self, text: str) -> None:
        """As editors and Kubernetes do: a new file in the place of the old one."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, self.path)

    def said(self, event: str) -> list[Object]:
        return [entry for entry in logged(self.manager, offset=self.offset) if entry["event"] == event]

    async def heard(self, event: str, count: int = 1) -> list[Object]:
        """What it said, once it said it so many times."""

        async def enough() -> list[Object]:
            found = self.said(event)
            assert len(found) >= count, f"it said {event} {len(found)} times"
            return found

        return await eventually(enough)


@asynccontextmanager
async def configured(manager: Manager, text: str, **variables: str) -> AsyncIterator[File]:
    """The manager runs with a file that says this, and with these variables, and acts."""
    path = manager.bed.folder / f"{unique('settings')}.yaml"
    path.write_text(text)
    offset = manager.log.stat().st_size
    lease = {"LEADER_ELECTION__RESOURCE_NAME": path.stem}  # nobody waits for the lease of a manager that was killed
    async with manager.reborn(CONFIG=str(path), **lease, **variables):
        await manager.ready()
        yield File(path, manager, offset)


def kueues(version: str, **fields: Any) -> str:
    """Kueue's shipped file in that version, with more fields."""
    shipped = shipped_configuration()
    return yaml.safe_dump({**shipped, "apiVersion": f"config.kueue.x-k8s.io/{version}", **fields})


# Kueue's own file.


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_manager_runs_with_kueues_shipped_file_as_it_is(crew: Team, manager: Manager, version: str) -> None:
    async with configured(manager, kueues(version)) as file:
        await crew.submit()
        await crew.complete(await crew.runs_on())
        await crew.finished()
        ignored = {entry["field"] for entry in file.said("settings.ignored")}
    assert {"clientConnection.qps", "integrations.frameworks", "leaderElection.resourceName"} <= ignored
    assert not [field for field in ignored if field.startswith("multiKueue")]


@pytest.mark.anyio
async def test_origin_lost_timeout_and_sweep_are_those_of_kueues_file(crew: Team, manager: Manager) -> None:
    multikueue = {"origin": "elsewhere", "workerLostTimeout": "2s", "gcInterval": "500ms"}
    async with configured(manager, kueues("v1beta2", multiKueue=multikueue)) as file:
        (serving,) = await file.heard("metrics.serving")
        before = await _sweeps(serving["port"])
        await crew.submit()
        winner = await crew.runs_on()
        (copy,) = await crew.clients[winner].list(WORKLOAD, crew.namespace)
        assert copy["metadata"]["labels"][ORIGIN_LABEL] == "elsewhere"
        assert await _sweeps(serving["port"], above=before + 1) > before + 1

        await _lose(crew, winner)
        assert await _next_winner(crew, after=winner)


async def _sweeps(port: int, *, above: int = -1) -> int:
    """How many sweeps there were, once there were more than so many."""

    async def count() -> tuple[int]:
        text = await anyio.to_thread.run_sync(_fetch, f"http://127.0.0.1:{port}/metrics")
        found = int(float(re.findall(r"^multikueue_sweeps_total (\S+)", text, re.MULTILINE)[0]))
        assert found > above, f"{found} sweeps"
        return (found,)

    return (await eventually(count))[0]


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


async def _lose(crew: Team, worker: str) -> None:
    """Cut a worker off, and wait until the manager knows."""
    crew.links[worker].refuse()
    await crew.active(worker, status="False")


async def _next_winner(crew: Team, *, after: str) -> str:
    """The worker that won after another one was given up."""

    async def won() -> str:
        found = (await crew.workload()).get("status", {}).get("clusterName")
        assert found, "nobody has won"
        assert crew.worker_of(found) != after, "it waits for the one that is lost"
        return crew.worker_of(found)

    return await eventually(won, timeout=30)


@pytest.mark.anyio
async def test_a_workload_and_its_copies_have_the_labels_that_are_copied(crew: Team, manager: Manager) -> None:
    keys = "integrations: {label_keys_to_copy: [team, example.com/cost]}"
    async with configured(manager, keys):
        await crew.submit(labels={"team": "a", "other": "b"})
        winner = await crew.runs_on()
        labels = [(await crew.workload())["metadata"]["labels"], (await crew.copies())[winner]["metadata"]["labels"]]
    assert [(each.get("team"), "example.com/cost" in each, "other" in each) for each in labels] == [
        ("a", False, False)
    ] * 2


# Files that change.


@pytest.mark.anyio
async def test_a_new_lost_timeout_holds_at_once_for_a_workload_that_waits_for_a_lost_worker(
    crew: Team, manager: Manager
) -> None:
    async with configured(manager, "dispatch: {worker_lost_timeout: 15m}") as file:
        pid = manager.pid
        await crew.submit()
        winner = await crew.runs_on()
        await _lose(crew, winner)
        assert await crew.winner() == winner

        file.write("dispatch: {worker_lost_timeout: 1s}")

        assert await _next_winner(crew, after=winner)
        assert manager.alive
        assert manager.pid == pid
        (entry,) = await file.heard("settings.changed")
        assert entry["dispatch.worker_lost_timeout"] == "1s"


@pytest.mark.anyio
async def test_new_options_and_a_new_strategy_hold_at_once_for_workloads_that_wait(
    crew: Team, manager: Manager
) -> None:
    one_by_one = "dispatch: {strategy: {name: incremental, options: {step: %d, round_length: 1h}}}"
    async with configured(manager, one_by_one % 1, **CALM) as file:
        await crew.stop()
        await crew.submit()
        await crew.waiting(1)

        file.write(one_by_one % 2)
        await crew.waiting(2)

        file.write("dispatch: {strategy: {name: all-at-once}}")
        await crew.waiting(3)

        await crew.go()
        await crew.complete(await crew.runs_on())
        await crew.finished()


@pytest.mark.anyio
async def test_a_feature_gate_of_kueues_file_holds_at_once_and_no_longer_than_it_is_on(
    crew: Team, manager: Manager
) -> None:
    def gated(on: bool) -> str:
        return kueues("v1beta2", featureGates={"MultiKueueAllowInsecureKubeconfigs": on})

    worker = next(iter(crew.clients))
    config = config_of(crew, worker)
    cluster = config["clusters"][0]["cluster"]
    cluster.pop("certificate-authority-data", None)
    cluster["insecure-skip-tls-verify"] = True
    async with configured(manager, gated(False), QUOTA__COMPATIBILITY="0.18") as file:
        await put(crew, worker, config)
        await says(crew, worker, "False", "InsecureKubeConfig", "insecure TLS verification is not allowed")
        file.write(gated(True))
        await says(crew, worker, "True", "Active", "Connected")
        file.write(gated(False))
        await says(crew, worker, "False", "InsecureKubeConfig", "insecure TLS verification is not allowed")
        await put(crew, worker, config_of(crew, worker))
        await says(crew, worker, "True", "Active", "Connected")


@pytest.mark.anyio
async def test_a_broken_file_changes_nothing_and_a_corrected_one_counts_again(crew: Team, manager: Manager) -> None:
    async with configured(manager, "dispatch: {strategy: {name: incremental, options: {step: 1}}}", **CALM) as file:
        file.write("dispatch: {strategy: {name: all-at-once")
        await file.heard("settings.refused")
        file.write("dispatch: {strategy: {name: none-such}}")
        refused = await file.heard("settings.refused", 2)
        assert refused[0]["why"].startswith(f"{file.path}: expected YAML")
        assert refused[1]["why"].startswith(f"{file.path}: dispatch.strategy.name: strategy 'none-such'")

        await crew.stop()
        await crew.submit()
        await crew.waiting(1)
        file.write("dispatch: {strategy: {name: all-at-once}}")
        await crew.waiting(3)


@pytest.mark.anyio
async def test_what_needs_a_restart_is_named_and_stays_as_it_is(crew: Team, manager: Manager) -> None:
    async with configured(manager, "dispatch: {origin: before}") as file:
        file.write("dispatch: {origin: after}")
        (entry,) = await file.heard("settings.need_restart")
        assert entry["settings"] == ["dispatch.origin"]
        await crew.submit()
        winner = await crew.runs_on()
        (copy,) = await crew.clients[winner].list(WORKLOAD, crew.namespace)
        assert copy["metadata"]["labels"][ORIGIN_LABEL] == "before"


@pytest.mark.anyio
async def test_the_mount_of_a_config_map_and_sighup(manager: Manager, tmp_path: Path) -> None:
    path = mount(tmp_path, "config.yaml", "{log: {level: debug}, dispatch: {gc_interval: 0}}")
    offset = manager.log.stat().st_size
    async with manager.reborn(CONFIG=str(path), LOG__LEVEL=""):
        await manager.ready()
        file = File(path, manager, offset)
        (serving,) = await file.heard("metrics.serving")
        assert await _sweeps(serving["port"]) == 0

        mount(tmp_path, "config.yaml", "dispatch: {gc_interval: 200ms}")

        (entry,) = await file.heard("settings.changed")
        assert (entry["dispatch.gc_interval"], entry["log.level"]) == ("200ms", "info")
        assert await _sweeps(serving["port"], above=1) > 1

        os.kill(manager.pid, signal.SIGHUP)
        await file.heard("settings.reading")
        assert manager.alive


# No field is forgotten.

STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r'^\t(?:\w+ )?([\w.*\[\]]+) `json:"([^"]*)"`', re.MULTILINE)


def _fields(version: str) -> Iterator[tuple[str, ...]]:
    """The paths of all fields of Kueue's Configuration, down to lists, maps and types of others."""
    text = (module_folder("sigs.k8s.io/kueue") / f"apis/config/{version}/configuration_types.go").read_text()
    structs = {name: MEMBER.findall(body) for name, body in STRUCT.findall(text)}

    def walk(struct: str, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for type_, tag in structs[struct]:
            name, kind = tag.partition(",")[0], type_.removeprefix("*")
            path = (*at, name) if name else at
            if kind in structs:
                yield from walk(kind, path)
            elif name:
                yield path

    return walk("Configuration", ())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_has_every_field_of_kueues_go_types_and_no_other(version: str) -> None:
    try:
        theirs = set(_fields(version))
    except NotInstalledError as error:
        pytest.skip(str(error))
    release = Release.chosen().version
    ours = {each.path for each in FIELDS if each.versions in ("both", version) and _version(each.since) <= release}
    assert len(theirs) > 40
    assert {path for path in theirs if not any(_related(path, known) for known in ours)} == set()
    assert {known for known in ours if not any(_related(path, known) for path in theirs)} == set()


def _version(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _related(path: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Whether one is within the other: a line of ours may speak for a whole group, and reach into a map."""
    shorter = min(len(path), len(known))
    return path[:shorter] == known[:shorter]
