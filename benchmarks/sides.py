"""The compared managers, each as its users start it, and its removal without a trace.

All act as the same users, whose calls the audit logs tell from all others: `kueue` on the manager cluster,
`manager` on the workers. Both may do everything: rights are not measured.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import yaml

from benchmarks import ceiling
from benchmarks.driver import QUEUE
from testbed import objects, queues
from testbed.bed import Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.kubeconfig import dump
from testbed.kueue import Kueue
from testbed.plane import ControlPlane
from testbed.ports import free_port
from testbed.process import Process
from testbed.proxy import Link

__all__ = [
    "LIFTED",
    "MANAGER_USER",
    "WORKER_USER",
    "Ceiling",
    "Lifted",
    "Observed",
    "Ours",
    "Peer",
    "Restarted",
    "Side",
]

MANAGER_USER = "kueue"
WORKER_USER = "manager"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
QUOTA = {"cpu": "1000000", "memory": "1000000Gi"}
START_SECONDS = 120
LONGEST = re.compile(rb"^multikueue_event_loop_longest_turn_own_seconds (\S+)$", re.MULTILINE)

ANY = 1_000_000
LIFTED: Mapping[str, Any] = {
    "clientConnection": {"qps": ANY, "burst": ANY},
    "controller": {
        "groupKindConcurrency": {"Job.batch": 50, "Workload.kueue.x-k8s.io": 50, "ClusterQueue.kueue.x-k8s.io": 10}
    },
}
"""What lifts Kueue's limits as far as its configuration reaches: calls of its client to the manager cluster, and reconciles
of a kind at a time. Until Kueue 0.19.3 its clients of the workers keep the 5 calls per second and kind that client-go has by
default: only another binary has others."""


class Side(ABC):
    """One manager over all workers of a testbed: its queues, its process."""

    name: str
    quota: Mapping[str, str] = QUOTA
    """Of the queue on the manager cluster."""

    def __init__(self, bed: Testbed) -> None:
        self.bed = bed
        self.namespace = f"bench-{self.name}"
        self.links: dict[str, Link] = {}

    def through_links(self) -> Self:
        """A link before each worker, so that the way to it can be long, or bad."""
        self.links = {plane.name: self.bed.link(plane) for plane in self.bed.workers}
        return self

    @property
    @abstractmethod
    def process(self) -> Process:
        """The process whose CPU and memory count."""

    @abstractmethod
    async def start(self) -> None:
        """Start the process and wait until it runs."""

    @abstractmethod
    async def stop(self) -> None: ...

    def server_of(self, worker: str) -> str | None:
        """The URL by which the manager reaches a worker; None: the worker's own."""
        return self.links[worker].url if worker in self.links else None

    async def set_up(self) -> None:
        """Create the queues on all clusters, start, and wait until all workers are connected."""
        await queues.workers_setup(self.bed.workers, namespace=self.namespace, queue=QUEUE, quota=QUOTA)
        for plane in self.bed.workers:
            await plane.grant(WORKER_USER, EVERYTHING)
        await self.start()
        servers = {plane.name: self.server_of(plane.name) for plane in self.bed.workers}
        configs = {plane.name: plane.kubeconfig(WORKER_USER, server=servers[plane.name]) for plane in self.bed.workers}
        await queues.manager_setup(self.bed.manager, configs, namespace=self.namespace, queue=QUEUE, quota=self.quota)
        async with self.bed.manager.client() as client:
            await eventually(lambda: self.is_active(client), timeout=START_SECONDS, interval=0.5)

    async def take_down(self) -> None:
        """Stop the manager and remove its objects from the manager cluster, so that the next side finds none."""
        await self.stop()
        async with self.bed.manager.client() as client:
            await eventually(lambda: self._remove(client), timeout=60, interval=0.5)

    async def _remove(self, client: Client) -> bool:
        """Whether all objects are gone. The API server answers 429 for a moment after a change of a conversion."""
        try:
            for kind in (objects.JOB, objects.WORKLOAD, objects.LOCAL_QUEUE):
                await _remove_all(client, kind, self.namespace)
            for kind in CLUSTER_WIDE:
                await _remove_all(client, kind)
            await _remove_all(client, objects.SECRET, objects.KUEUE_NAMESPACE, prefix=self.namespace)
        except ApiError as error:
            if error.status not in (404, 429):
                raise
            return False
        return True

    async def is_active(self, client: Client) -> bool:
        """True if all queues, clusters and checks are active; else raises AssertionError with the inactive ones."""
        found = [*await client.list(objects.MULTIKUEUE_CLUSTER), *await client.list(objects.ADMISSION_CHECK)]
        found += await client.list(objects.CLUSTER_QUEUE)
        inactive = [body["metadata"]["name"] for body in found if not _says_active(body)]
        assert not inactive, f"not active: {inactive}; log {self.process.log}:\n{self.process.tail()}"
        return True


CLUSTER_WIDE = (
    objects.CLUSTER_QUEUE,
    objects.ADMISSION_CHECK,
    objects.MULTIKUEUE_CONFIG,
    objects.MULTIKUEUE_CLUSTER,
    objects.RESOURCE_FLAVOR,
)


AT_ONCE = {"MULTIKUEUE_RETENTION__COPIES": "0s"}


class Ours(Side):
    """`multikueue run` with default settings, but for the environment and copies that go at once, as the peer's do; with
    `profile` under cProfile, with `kueue_file` by the very Configuration that the peer gets."""

    name = "ours"

    def __init__(
        self,
        bed: Testbed,
        *,
        profile: Path | None = None,
        env: Mapping[str, str] | None = None,
        kueue_file: bool = False,
    ) -> None:
        super().__init__(bed)
        self._kubeconfig = bed.folder / "ours.kubeconfig"
        self._kueue_file = bed.folder / "ours.configuration.yaml" if kueue_file else None
        words = ["run", "--kubeconfig", str(self._kubeconfig)]
        words += ["-f", str(self._kueue_file)] if self._kueue_file is not None else []
        module = ["multikueue"] if profile is None else ["benchmarks.profiled", str(profile.absolute())]
        command = [sys.executable, "-m", *module, *words]
        self._process = Process("multikueue", command, log=bed.folder / "multikueue.log", env=AT_ONCE | dict(env or {}))

    @property
    def process(self) -> Process:
        return self._process

    async def start(self) -> None:
        async with self.bed.manager.client() as client:
            await client.apply(objects.namespace(objects.KUEUE_NAMESPACE))
        self._kubeconfig.write_bytes(dump(self.bed.manager.kubeconfig(MANAGER_USER)))
        if self._kueue_file is not None:
            self._kueue_file.write_text(yaml.safe_dump(Kueue(self.bed.manager).configuration))
        self._process.start()

    async def stop(self) -> None:
        await self._process.stop()


class Observed(Ours):
    """Ours with its metrics, which default settings do not serve."""

    def __init__(self, bed: Testbed, *, env: Mapping[str, str] | None = None) -> None:
        self._metrics = free_port()
        super().__init__(bed, env={**(env or {}), "MULTIKUEUE_METRICS__PORT": str(self._metrics)})

    async def longest_turn(self) -> float:
        """Of its event loop since the start, in milliseconds of its own: while it was not preempted."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._metrics}/metrics") as answer,
        ):
            found = LONGEST.search(await answer.read())
        return 1000 * float(found[1]) if found else 0.0


class Restarted(Observed):
    """Ours, which can be started again while its clusters go on."""

    async def restart(self) -> None:
        """Start a new process, and wait until it acts."""
        await self.stop()
        before = self._times_ready()
        await self.start()

        async def is_ready() -> bool:
            return self._times_ready() > before

        await eventually(is_ready, timeout=START_SECONDS)

    def _times_ready(self) -> int:
        return self.process.log.read_text(errors="replace").count("manager.ready")


class Peer(Side):
    """Kueue with its own MultiKueue manager: the testbed's, or another `binary`. `configuration` is laid over the one that it
    ships with, which it has otherwise."""

    name = "peer"

    def __init__(
        self, bed: Testbed, *, configuration: Mapping[str, Any] | None = None, binary: Path | None = None
    ) -> None:
        super().__init__(bed)
        self._configuration = configuration
        self._binary = binary

    @property
    def process(self) -> Process:
        return self.bed.kueues[self.bed.manager.name].process

    async def start(self) -> None:
        await self.bed.start_kueue(self.bed.manager, configuration=self._configuration, binary=self._binary)

    async def stop(self) -> None:
        await self.bed.stop_kueue(self.bed.manager)


class Lifted(Peer):
    """Kueue with its limits lifted."""

    name = "lifted"

    def __init__(self, bed: Testbed, *, binary: Path | None = None) -> None:
        super().__init__(bed, configuration=LIFTED, binary=binary)


class Ceiling(Side):
    """The script that decides nothing: see `benchmarks.ceiling`. Its clusters need not be active."""

    name = "ceiling"

    def __init__(self, bed: Testbed) -> None:
        super().__init__(bed)
        self._plan = bed.folder / "ceiling.json"
        command = [sys.executable, "-m", "benchmarks.ceiling", str(self._plan)]
        self._process = Process("ceiling", command, log=bed.folder / "ceiling.log")

    @property
    def process(self) -> Process:
        return self._process

    async def start(self) -> None:
        workers = [_access(plane, WORKER_USER, self.server_of(plane.name)) for plane in self.bed.workers]
        manager = _access(self.bed.manager, MANAGER_USER)
        plan = ceiling.Plan(namespace=self.namespace, queue=QUEUE, manager=manager, workers=workers)
        self._plan.write_bytes(msgspec.json.encode(plan))
        self._process.start()

    async def stop(self) -> None:
        await self._process.stop()

    async def is_active(self, client: Client) -> bool:  # noqa: ARG002
        return ceiling.READY in self._process.tail()


def _access(plane: ControlPlane, user: str, url: str | None = None) -> ceiling.Access:
    return ceiling.Access(name=plane.name, url=url or plane.url, ca=plane.ca.decode(), token=plane.tokens[user])


def _says_active(body: objects.Object) -> bool:
    active = objects.condition(body, "Active")
    return active is not None and active["status"] == "True"


async def _remove_all(client: Client, kind: Kind, namespace: str | None = None, *, prefix: str = "") -> None:
    """Delete objects and remove their finalizers: the manager that would do so has stopped."""
    for body in await client.list(kind, namespace):
        name = body["metadata"]["name"]
        if name.startswith(prefix):
            await client.delete(kind, name, namespace)
            if body["metadata"].get("finalizers"):
                await client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
