"""The testbed as a whole: it starts, has planes, and leaves nothing when it stops."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio

from testbed import programs
from testbed.controllers import ControllerManager
from testbed.crds import install
from testbed.etcd import Etcd
from testbed.kueue import BATCH_JOB, QUICK_CLIENT, Kueue
from testbed.ocm import PlacementController, RegistrationAgent, RegistrationController
from testbed.plane import ControlPlane, Identity
from testbed.process import Process
from testbed.programs import Release
from testbed.proxy import Link, Proxy

__all__ = ["MANAGER", "Plan", "Testbed", "unique"]

MANAGER = "manager"
FOLDER_PREFIX = "multikueue-testbed-"


@dataclass(frozen=True, slots=True)
class Plan:
    """The planes to start.

    The manager plane is called `manager` and gets CRDs only; workers are `worker1`, `worker2`, ... and get a Kueue
    each, with a client quicker than shipped (`QUICK_CLIENT`) unless `worker_configuration` says otherwise.
    `controllers` names, per plane, the controllers of kube-controller-manager to run there; `releases`, per plane, another
    release than the chosen one: its API server, CRDs and Kueue.
    """

    manager: bool = True
    workers: int = 3
    crds: Sequence[str] = ("kueue",)
    kueue: bool = True
    frameworks: Sequence[str] | None = BATCH_JOB
    worker_configuration: Mapping[str, Any] = field(default_factory=lambda: {"clientConnection": QUICK_CLIENT})
    controllers: Mapping[str, Collection[str]] = field(default_factory=dict)
    releases: Mapping[str, Release] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert {*self.controllers, *self.releases} <= set(self.names), f"there are no planes besides {self.names}"

    @property
    def names(self) -> list[str]:
        workers = [f"worker{number}" for number in range(1, self.workers + 1)]
        return [*([MANAGER] if self.manager else []), *workers]


class Testbed:
    """Running control planes. It belongs to no event loop; its opener closes it."""

    __test__ = False  # for pytest, which takes the name for a class of tests

    foreign = False
    """Whether the clusters are not ours: then each has an etcd of its own, and there are no audit logs."""

    def __init__(self, plan: Plan) -> None:
        _sweep()
        self.plan = plan
        self.folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        self.programs = programs.find()
        self.proxy = Proxy(self.folder)
        self.etcd = Etcd(self.programs.etcd, self.folder)
        self._identity = Identity.create()
        self.planes: Mapping[str, ControlPlane] = {name: self._plane(name) for name in plan.names}
        self.kueues: dict[str, Kueue] = {}
        self._others: list[Process] = []

    @classmethod
    @asynccontextmanager
    async def start(cls, **plan: Any) -> AsyncIterator[Self]:
        """`async with Testbed.start(workers=3) as bed`: the arguments are those of `Plan`."""
        bed = cls(Plan(**plan))
        try:
            await bed.open()
            yield bed
        finally:
            with anyio.CancelScope(shield=True):
                await bed.close()

    @property
    def manager(self) -> ControlPlane:
        return self.planes[MANAGER]

    @property
    def workers(self) -> list[ControlPlane]:
        return [plane for name, plane in self.planes.items() if name != MANAGER]

    async def open(self) -> None:
        """Start everything in the plan, in parallel. When it fails, nothing runs, and the logs stay for reading."""
        try:
            await self.etcd.start()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.proxy.start)
                for plane in self.planes.values():
                    tasks.start_soon(self._start_plane, plane)
        except BaseException as error:
            error.add_note(f"the testbed's logs are kept in {self._kept_logs()}")
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    async def close(self) -> None:
        """Stop everything and remove the folder."""
        async with anyio.create_task_group() as tasks:
            for process in self.processes:
                tasks.start_soon(process.kill)
        shutil.rmtree(self.folder, ignore_errors=True)

    def link(self, plane: ControlPlane) -> Link:
        """A new link before a plane, which can be made to misbehave: `plane.kubeconfig(server=link.url)` uses it."""
        return self.proxy.link(plane.url)

    async def start_plane(self, name: str, *, crds: Sequence[str] | None = None) -> ControlPlane:
        """Start one more control plane, with these CRDs or the plan's, for tests that cannot share one. It is neither
        the manager nor a worker, and ends with the testbed if not stopped before."""
        plane = self._plane(name)
        self._others.append(plane.process)
        await plane.start()
        await self.install(plane, self.plan.crds if crds is None else crds)
        return plane

    async def install(self, plane: ControlPlane, crds: Sequence[str]) -> None:
        """Install CRDs on a plane, by the names of their sets."""
        async with plane.client() as client:
            await install(client, crds, plane.release)

    async def start_kueue(self, plane: ControlPlane, **options: Any) -> Kueue:
        """Start a Kueue on a plane; the options are those of `Kueue`. It replaces one that runs there."""
        await self.stop_kueue(plane)
        kueue = self.kueues[plane.name] = Kueue(plane, **options)
        await kueue.start()
        return kueue

    async def stop_kueue(self, plane: ControlPlane) -> None:
        """Stop a plane's Kueue and remove its webhooks; the objects stay."""
        if plane.name in self.kueues:
            await self.kueues.pop(plane.name).remove()

    async def start_controllers(self, plane: ControlPlane, names: Collection[str]) -> ControllerManager:
        """Start kube-controller-manager on a plane with these controllers."""
        manager = ControllerManager(plane, names)
        self._others.append(manager.process)
        await manager.start()
        return manager

    async def start_placement(self, plane: ControlPlane) -> PlacementController:
        """Start OCM's placement controller on a plane, with its CRDs."""
        controller = PlacementController(plane)
        self._others.append(controller.process)
        await controller.start()
        return controller

    async def start_registration(self, plane: ControlPlane) -> RegistrationController:
        """Start OCM's registration controller on a plane, with its CRDs."""
        controller = RegistrationController(plane)
        self._others += [controller.process, controller.signing.process]
        await controller.start()
        return controller

    async def start_agent(self, plane: ControlPlane, name: str) -> RegistrationAgent:
        """Start OCM's registration agent of a plane, which joins the manager's as the ManagedCluster `name`."""
        agent = RegistrationAgent(plane, self.manager, name)
        self._others.append(agent.process)
        await agent.start()
        return agent

    async def _start_plane(self, plane: ControlPlane) -> None:
        await plane.start()
        await self.install(plane, self.plan.crds)
        if controllers := self.plan.controllers.get(plane.name):
            await self.start_controllers(plane, controllers)
        if self.plan.kueue and plane.name != MANAGER:
            await self.start_kueue(plane, configuration=self.plan.worker_configuration, frameworks=self.plan.frameworks)

    def _plane(self, name: str) -> ControlPlane:
        release = self.plan.releases.get(name)
        found = self.programs if release is None else programs.find(release)
        return ControlPlane(name, found, etcd=self.etcd.url, identity=self._identity, folder=self.folder)

    @property
    def processes(self) -> list[Process]:
        """All programs of the testbed, running or not."""
        kueues = [kueue.process for kueue in self.kueues.values()]
        planes = [plane.process for plane in self.planes.values()]
        return [*self._others, *kueues, self.proxy.process, *planes, self.etcd.process]

    def _kept_logs(self) -> Path:
        kept = Path(tempfile.mkdtemp(prefix="multikueue-failed-"))
        for log in self.folder.rglob("*.log"):
            copy = kept / log.relative_to(self.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, copy)
        return kept


_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """A unique name: tests share control planes, and are isolated by names and namespaces."""
    return f"{prefix}-{next(_numbers)}-{secrets.token_hex(3)}"


def _sweep() -> None:
    """Remove the folders of testbeds whose process was killed before it could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)
