"""The stage of a chaotic run: clusters, replicas with a link of their own to each cluster, and the ways to disturb them.

Each program has a keeper, which starts it again when it has ended, as kubelets do.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import anyio

from testbed import objects, queues
from testbed.bed import Testbed
from testbed.chaos.judge import Closed
from testbed.chaos.replica import CLOCK, SECONDS
from testbed.chaos.schedule import CLUSTERS, KUEUES, REPLICAS, WORKERS, Incident, cuts
from testbed.client import Client, Kind, eventually
from testbed.kubeconfig import dump
from testbed.objects import MULTIKUEUE_CLUSTER, Object
from testbed.process import Process, ProgramError
from testbed.proxy import Link
from testbed.timed_manager import variables

__all__ = ["FRAMEWORKS", "LOST_AFTER", "NAMESPACE", "PRIORITIES", "Chaos"]

NAMESPACE = "chaos"
LOST_AFTER = 70
"""Seconds. A replica that takes over gives each worker a minute at least."""

PRIORITIES: Mapping[str, int] = {"low": 10, "high": 1000}
PRIORITY_CLASS = Kind(objects.KUEUE_VERSION, "WorkloadPriorityClass")
FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset")
WORKER_CPUS = 12
OWN_FILE = "/proc/self/cwd/{}.yaml"
"""A kubeconfig of that name in the working directory, which each replica has for itself: so one MultiKueueCluster leads each of
them over a link of its own."""

SETTINGS: Mapping[str, str] = {
    "LOG__FORMAT": "json",
    "INTEGRATIONS__FRAMEWORKS": ",".join(FRAMEWORKS),
    "LEADER_ELECTION__ENABLED": "true",
    "QUOTA__REQUEUE_FIRST": "2s",
    "DISPATCH__GC_INTERVAL": "10s",
    "RETENTION__COPIES": "0s",
    "TIMINGS__RECONNECT_CAP": "2s",
    "DISPATCH__WORKER_LOST_TIMEOUT": f"{LOST_AFTER}s",
}

KEEPER_SECONDS = 0.5
MEASURE_SECONDS = 5.0
UNLIMITED = resource.RLIM_INFINITY
NO_SPACE = 0


@dataclass(slots=True)
class Kept:
    """A program and whether it should run. `ends` counts its exit codes, without those that a fault is to blame for."""

    process: Process
    wanted: bool = True
    ends: Counter[int] = field(default_factory=Counter)
    memory: list[tuple[float, int, float]] = field(default_factory=list)
    """Second of the run, process ID, and resident memory in MiB then."""


class Chaos:
    """The programs by name (`replica1`, `worker1`, `kueue1`, ...), their links, and what was closed so far."""

    def __init__(self, bed: Testbed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.began = time.monotonic()
        self.clients: dict[str, Client] = {}
        self.links: dict[str, Link] = {}
        self.kept: dict[str, Kept] = {}
        self.closed: list[Closed] = []
        self.now_faulty: set[Incident] = set()
        self._disks_full: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def set(cls, bed: Testbed, folder: Path) -> AsyncIterator[Self]:
        """The stage, with all replicas running and one of them connected to all workers."""
        chaos = cls(bed, folder)
        async with AsyncExitStack() as stack:
            for name in CLUSTERS:
                chaos.clients[name] = await stack.enter_async_context(bed.planes[name].client())
                chaos.kept[name] = Kept(bed.planes[name].process)
            for kueue, worker in zip(KUEUES, WORKERS, strict=True):
                chaos.kept[kueue] = Kept(bed.kueues[worker].process)
            await chaos._furnish()
            for replica in REPLICAS:
                chaos.kept[replica] = Kept(chaos._replica(replica))
                stack.push_async_callback(chaos.kept[replica].process.kill)
                chaos.kept[replica].process.start()
            await eventually(chaos._connected, timeout=90)
            yield chaos

    @property
    def manager(self) -> Client:
        return self.clients["manager"]

    def now(self) -> float:
        """Seconds of the run."""
        return time.monotonic() - self.began

    async def keep(self) -> None:
        """Start what has ended and should run; never returns."""
        while True:
            for name, kept in self.kept.items():
                if kept.wanted and not kept.process.running:
                    kept.ends[kept.process.code or 0] += 1
                    self._start(name)
            await anyio.sleep(KEEPER_SECONDS)

    async def measure(self) -> None:
        """Note the memory of the replicas; never returns."""
        while True:
            for replica in REPLICAS:
                kept = self.kept[replica]
                with suppress(FileNotFoundError, AssertionError, ProcessLookupError):  # it ends just now
                    kept.memory.append((self.now(), kept.process.pid, kept.process.rss_mebibytes()))
            await anyio.sleep(MEASURE_SECONDS)

    async def suffer(self, incident: Incident) -> None:
        """Have the fault for as long as it lasts."""
        way = cuts(incident)
        closed = Closed(*way, self.now()) if way is not None else None
        if closed is not None:
            self.closed.append(closed)
        self.now_faulty.add(incident)
        await self._begin(incident)
        await anyio.sleep(incident.seconds)
        self._end(incident)
        self.now_faulty.discard(incident)
        if closed is not None:
            at = self.closed.index(closed)
            self.closed[at] = Closed(closed.replica, closed.cluster, closed.since, self.now())

    async def _begin(self, incident: Incident) -> None:
        kept = self.kept.get(incident.on)
        match incident.what:
            case "skew":
                self._set_clock(incident.on, incident.amount)
            case "full disk":
                self._disks_full.add(incident.on)
                self._limit_files(incident.on)
            case "slow":
                self.links[incident.on].latency(incident.amount)
            case "freeze" if kept is not None:
                kept.process.pause()
            case "kill" | "stop" if kept is not None:
                kept.wanted = False
                await (kept.process.kill() if incident.what == "kill" else kept.process.stop(timeout=30))
            case mode:
                getattr(self.links[incident.on], mode)()

    def _end(self, incident: Incident) -> None:
        match incident.what:
            case "skew":
                self._set_clock(incident.on, 0.0)
            case "full disk":
                self._disks_full.discard(incident.on)
                self._limit_files(incident.on)
            case "freeze":
                self.kept[incident.on].process.resume()
            case "kill" | "stop":
                self.kept[incident.on].wanted = True
                self._start(incident.on)
            case _:
                if incident.amount and incident.what != "slow":
                    self.links[incident.on].drop()
                self.links[incident.on].ok()

    def _start(self, name: str) -> None:
        self.kept[name].process.start()
        if name in self._disks_full:
            self._limit_files(name)

    def _limit_files(self, replica: str) -> None:
        """What a full disk does to whoever writes a file: each such write fails from now on, or none does."""
        process = self.kept[replica].process
        if process.running:
            most = NO_SPACE if replica in self._disks_full else UNLIMITED
            with suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, UNLIMITED))

    def _set_clock(self, replica: str, seconds: float) -> None:
        with (self.folder / replica / CLOCK).open("r+b") as file:
            file.write(SECONDS.pack(seconds))

    def _replica(self, name: str) -> Process:
        folder = self.folder / name
        folder.mkdir()
        (folder / CLOCK).write_bytes(SECONDS.pack(0.0))
        for cluster in CLUSTERS:
            plane = self.bed.planes[cluster]
            link = self.links[f"{name}>{cluster}"] = self.bed.link(plane)
            (folder / f"{cluster}.yaml").write_bytes(dump(plane.kubeconfig(server=link.url)))
        program = [sys.executable, "-P", str(Path(__file__).with_name("replica.py")), name, str(folder)]
        return Process(
            name,
            [*program, "run", "--kubeconfig", "manager.yaml"],
            log=self.folder / f"{name}.log",
            env=variables(SETTINGS),
        )

    async def _furnish(self) -> None:
        quota = {"cpu": str(WORKER_CPUS)}
        await queues.workers_setup(self.bed.workers, namespace=NAMESPACE, quota=quota)
        await self.manager.apply(objects.namespace(objects.KUEUE_NAMESPACE))
        for cluster, client in self.clients.items():
            for name, value in PRIORITIES.items():
                kind = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind}
                await client.apply({**kind, "metadata": {"name": name}, "value": value})
            if cluster != "manager":
                await self.manager.apply(_by_file(cluster))
        await self.manager.apply(objects.multikueue_config(NAMESPACE, clusters=WORKERS))
        await self.manager.apply(objects.admission_check(NAMESPACE, config=NAMESPACE))
        queue = objects.cluster_queue(NAMESPACE, quota={"cpu": str(WORKER_CPUS * len(WORKERS))}, checks=[NAMESPACE])
        queue["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
        await queues.setup_queue(self.manager, namespace=NAMESPACE, queue="main", cluster_queue=queue)

    async def _connected(self) -> bool:
        for replica in REPLICAS:
            if not self.kept[replica].process.running:
                raise ProgramError(self.kept[replica].process.tail())
        clusters = await self.manager.list(MULTIKUEUE_CLUSTER)
        return all((objects.condition(body, "Active") or {}).get("status") == "True" for body in clusters)


def _by_file(cluster: str) -> Object:
    body = objects.multikueue_cluster(cluster, secret="")
    body["spec"]["clusterSource"]["kubeConfig"] = {"location": OWN_FILE.format(cluster), "locationType": "Path"}
    return body
