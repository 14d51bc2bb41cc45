"""Clusters that are served over HTTPS: for kubectl, for a manager in a process of its own, for the tests of either.

    async with Sandbox(Plan(workers=2), folder=folder) as sandbox:
        print(sandbox["worker1"].face.url, sandbox["worker1"].kubeconfig)

Each cluster has the same users, with tokens of its own, so that what the audit log counts can be told apart by user.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import yaml

from multikueue.kube.client import Client
from multikueue.kube.credentials import from_kubeconfig
from multikueue.runtime.clock import Clock, SystemClock
from multikueue.sandbox import definitions
from multikueue.sandbox.audit import Log
from multikueue.sandbox.authority import Authority
from multikueue.sandbox.cluster import Cluster
from multikueue.sandbox.gate import Gate
from multikueue.sandbox.http import Face
from multikueue.sandbox.jobs import JobRunner
from multikueue.sandbox.kueue import SimulatedKueue
from multikueue.sandbox.rbac import MASTERS
from multikueue.sandbox.wire import Object

__all__ = ["DEFINITIONS", "MANAGER", "USERS", "Plan", "Sandbox", "Served"]

MANAGER = "manager"
ADMIN = "admin"

USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: (MASTERS,),
    "kueue": (MASTERS,),
    "controller-manager": (MASTERS,),
    "placement": (MASTERS,),
    "manager": (),
}
"""Users and their groups, as on the testbed: each program is one. Where roles are enforced `manager` may do nothing."""

DEFINITIONS = {
    "kueue": definitions.kueue,
    "ocm": definitions.ocm,
    "cluster-profiles": definitions.cluster_profiles,
}
"""Custom kinds that can be installed, by name of the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to serve: a manager, and workers called `worker1`, `worker2`, ...

    With `port` the manager has that port, the workers those after it. `kueue` runs a simulated Kueue on each worker,
    `jobs` what stands for kube-controller-manager and nodes there. `seed` makes names and UIDs the same each time.
    """

    workers: int = 3
    host: str = "127.0.0.1"
    port: int = 0
    rbac: bool = False
    users: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: USERS)
    definitions: tuple[str, ...] = ("kueue",)
    kueue: bool = False
    jobs: bool = False
    seed: int | None = None
    history: int = 10_000

    @property
    def names(self) -> list[str]:
        return [MANAGER, *(f"worker{number}" for number in range(1, self.workers + 1))]


class Served:
    """One cluster and its face. The folder has a kubeconfig per user (`USER.kubeconfig`) and `audit.log`."""

    def __init__(self, name: str, plan: Plan, *, port: int, authority: Authority, clock: Clock, folder: Path) -> None:
        seed = secrets.randbits(64) if plan.seed is None else f"{plan.seed}/{name}"
        self.rng = random.Random(seed)  # noqa: S311  # for names; whoever may call a loopback port is let in by token
        self.name, self.folder, self._plan, self._clock = name, folder, plan, clock
        self.cluster = Cluster(
            name,
            now=clock.now,
            rng=self.rng,
            definitions=[each for chosen in plan.definitions for each in DEFINITIONS[chosen]()],
            rbac=plan.rbac,
            history=plan.history,
        )
        for user, groups in plan.users.items():
            self.cluster.users.add(user, *groups, token=f"{name}-{user}-{self.rng.randbytes(8).hex()}")
        folder.mkdir(parents=True, exist_ok=True)
        self._log = Log(self.audit)
        self.face = Face(
            Gate(self.cluster.api, self.cluster.authorizer),
            self.cluster.users,
            authority=authority,
            now=clock.now,
            name=name,
            host=plan.host,
            port=port,
            record=self._log,
        )

    @property
    def audit(self) -> Path:
        return self.folder / "audit.log"

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """The file for a user."""
        return self.folder / f"{user}.kubeconfig"

    @property
    def described(self) -> Object:
        """What whoever started us needs to know."""
        return {
            "name": self.name,
            "url": self.face.url,
            "audit": str(self.audit),
            "kubeconfigs": {user: str(self.kubeconfig(user)) for user in self._plan.users},
        }

    async def start(self) -> None:
        """Listens, and writes the kubeconfigs. Raises OSError."""
        await self.face.start()
        for user in self._plan.users:
            config = yaml.safe_dump(self.face.kubeconfig(user), sort_keys=False)
            await anyio.Path(self.kubeconfig(user)).write_text(config)

    async def simulate(self, stack: AsyncExitStack) -> None:
        """Starts the programs that the plan wants here; they end with the stack. They go through the face, like others."""
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        if self._plan.kueue:
            kueue = SimulatedKueue(await self._client(stack, "kueue"), now=self._clock.now, rng=self.rng)
            await tasks.start(kueue.run)
        if self._plan.jobs:
            client = await self._client(stack, "controller-manager")
            await tasks.start(JobRunner(client, now=self._clock.now, rng=self.rng, pods=True).run)

    async def _client(self, stack: AsyncExitStack, user: str) -> Client:
        credentials = await from_kubeconfig(self.face.kubeconfig(user))
        return await stack.enter_async_context(Client.connect(credentials, cluster=self.name, user_agent=user))

    async def close(self) -> None:
        """Stops serving, for good."""
        await self.face.stop()
        self.cluster.close()
        await self.cluster.admission.aclose()
        self._log.close()


class Sandbox(Mapping[str, Served]):
    """The clusters of a plan by name, the manager first, served for as long as the block lasts."""

    def __init__(self, plan: Plan, *, folder: Path, clock: Clock | None = None) -> None:
        clock, authority = clock or SystemClock(), Authority()
        self.plan = plan
        self._served = {
            name: Served(
                name,
                plan,
                port=plan.port + index if plan.port else 0,
                authority=authority,
                clock=clock,
                folder=folder / name,
            )
            for index, name in enumerate(plan.names)
        }
        self._stack = AsyncExitStack()

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for served in self.values():
                stack.push_async_callback(served.close)
                await served.start()
            for name, served in self.items():
                if name != MANAGER and (self.plan.kueue or self.plan.jobs):
                    await served.simulate(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
