"""Clusters over HTTPS: for kubectl, for a manager in a process of its own, and for tests of either.

    async with Sandbox(Plan(workers=2), folder=folder) as sandbox:
        print(sandbox["worker1"].front_end.url, sandbox["worker1"].kubeconfig)

Each cluster has the same users, with its own tokens, so that the audit log distinguishes their calls.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import yaml
from anyio.abc import TaskGroup

from fakekube.cluster import Cluster
from fakekube.front_end.aggregation import Aggregator
from fakekube.front_end.audit import Log
from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.front_end.rbac import MASTERS
from fakekube.model.storage import Revisions
from fakekube.model.wire import Object
from multikueue.runtime.clock import Clock, SystemClock
from multikueue_simulator import definitions
from multikueue_simulator.serving.programs import KueueProgram, Program, job_runner
from multikueue_simulator.workers.jobs.logs import PodLogs

__all__ = ["DEFINITIONS", "MANAGER", "USERS", "Plan", "Sandbox", "Served", "merged"]

MANAGER = "manager"
ADMIN = "admin"

USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: (MASTERS,),
    "kueue": (MASTERS,),
    "controller-manager": (MASTERS,),
    "placement": (MASTERS,),
    "manager": (),
}
"""Users and their groups, as on the testbed: one per program. With RBAC `manager` has no permissions by default."""

DEFINITIONS = {
    "kueue": definitions.kueue,
    "ocm": definitions.ocm,
    "cluster-profiles": definitions.cluster_profiles,
}
"""Custom kinds that can be installed, by name of the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The clusters to serve: a manager, and workers called `worker1`, `worker2`, ...

    With `port` the manager has that port and the workers the next ones. `kueue` runs a simulated Kueue on each worker,
    `jobs` a substitute for kube-controller-manager and nodes there; pods run for `job_lasts`, unless annotations of
    their job say otherwise, and log a line each second. `seed` makes names and UIDs reproducible. With `one_store`
    resource versions are ordered across all clusters, as over one etcd.
    """

    workers: int = 3
    host: str = "127.0.0.1"
    port: int = 0
    rbac: bool = False
    users: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: USERS)
    definitions: tuple[str, ...] = ("kueue",)
    kueue: bool = False
    jobs: bool = False
    job_lasts: timedelta | None = None
    seed: int | None = None
    history: int = 10_000
    one_store: bool = False

    @property
    def names(self) -> list[str]:
        return [MANAGER, *(f"worker{number}" for number in range(1, self.workers + 1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """The shared parts of the clusters of a sandbox."""

    plan: Plan
    authority: Authority
    clock: Clock
    folder: Path
    revisions: Revisions | None


class Served:
    """One cluster and its HTTPS server. The folder has a kubeconfig per user (`USER.kubeconfig`) and `audit.log`.

    The programs `kueue` and `jobs` run once they are started.
    """

    def __init__(
        self, name: str, shared: _Shared, *, port: int = 0, definitions: tuple[str, ...] | None = None
    ) -> None:
        plan, clock = shared.plan, shared.clock
        seed = secrets.randbits(64) if plan.seed is None else f"{plan.seed}/{name}"
        self.rng = random.Random(seed)  # noqa: S311  # for names, and for tokens of a loopback port
        self.name, self.folder, self._plan = name, shared.folder / name, plan
        self.cluster = Cluster(
            name,
            now=clock.now,
            rng=self.rng,
            rbac=plan.rbac,
            history=plan.history,
            revisions=shared.revisions,
            pod_log=PodLogs(name) if plan.jobs else None,
        )
        self._defined: set[str] = set()
        self.define(*(plan.definitions if definitions is None else definitions))
        for user, groups in plan.users.items():
            self.cluster.users.add(user, *groups, token=f"{name}-{user}-{self.rng.randbytes(8).hex()}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = Log(self.audit)
        self._aggregator = Aggregator(self.cluster.api, self.cluster.storage)
        self.front_end = FrontEnd(
            AuthorizationFilter(self._aggregator, self.cluster.authorizer),
            self.cluster.users,
            authority=shared.authority,
            now=clock.now,
            name=name,
            host=plan.host,
            port=port,
            record=self._log,
        )
        self.kueue = KueueProgram(self.cluster, self.front_end.kubeconfig, clock=clock, rng=self.rng)
        self.jobs: Program = job_runner(self.front_end.kubeconfig, clock=clock, rng=self.rng, lasts=plan.job_lasts)

    @property
    def audit(self) -> Path:
        return self.folder / "audit.log"

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """The kubeconfig file of a user."""
        return self.folder / f"{user}.kubeconfig"

    @property
    def described(self) -> Object:
        """The facts about the cluster for the program that started this one."""
        return {
            "name": self.name,
            "url": self.front_end.url,
            "audit": str(self.audit),
            "kubeconfigs": {user: str(self.kubeconfig(user)) for user in self._plan.users},
        }

    def define(self, *sets: str) -> None:
        """Install sets of definitions that are not installed yet. Raises KeyError for an unknown set."""
        for name in sets:
            definitions = DEFINITIONS[name]
            if name not in self._defined:
                self._defined.add(name)
                self.cluster.install(definitions())

    async def start(self) -> None:
        """Listen, and write the kubeconfigs. Raises OSError."""
        await self._aggregator.publish()
        await self.front_end.start()
        for user in self._plan.users:
            config = yaml.safe_dump(self.front_end.kubeconfig(user), sort_keys=False)
            await anyio.Path(self.kubeconfig(user)).write_text(config)

    async def close(self) -> None:
        """Stop serving, for good."""
        await self.kueue.stop()
        await self.jobs.stop()
        await self.front_end.stop()
        self.cluster.close()
        await self.cluster.admission.aclose()
        await self._aggregator.aclose()
        self._log.close()


def merged(configs: Sequence[Object]) -> Object:
    """One kubeconfig with the contexts of all; the current one is that of the first."""
    parts = {part: [each for config in configs for each in config[part]] for part in ("clusters", "users", "contexts")}
    return {**configs[0], **parts}


class Sandbox(Mapping[str, Served]):
    """The clusters of a plan by name, the manager first, served during the block.

    The folder has a `kubeconfig` with a context for each cluster of the plan, of its name, as the administrator.
    """

    def __init__(
        self, plan: Plan, *, folder: Path, clock: Clock | None = None, authority: Authority | None = None
    ) -> None:
        """`authority` issues the servers' certificates and verifies client certificates; by default it is a new one."""
        self.plan = plan
        self._shared = _Shared(
            plan=plan,
            authority=authority or Authority(),
            clock=clock or SystemClock(),
            folder=folder,
            revisions=Revisions() if plan.one_store else None,
        )
        self._served = {
            name: Served(name, self._shared, port=plan.port + index if plan.port else 0)
            for index, name in enumerate(plan.names)
        }
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    async def add(self, name: str, *, port: int = 0, definitions: tuple[str, ...] | None = None) -> Served:
        """Add a cluster, with these sets of definitions or with the plan's. Raises OSError, KeyError, ValueError."""
        if name in self._served:
            raise ValueError(f"there is a cluster {name}")
        served = Served(name, self._shared, port=port, definitions=definitions)
        await self._serve(served)
        self._served[name] = served
        return served

    async def run(self, program: Program) -> None:
        """Start a program of one of the clusters; it ends with the sandbox."""
        assert self._tasks is not None, "use it with `async with`"
        await program.start(self._tasks)

    async def _serve(self, served: Served) -> None:
        self._stack.push_async_callback(served.close)
        await served.start()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as self._stack:
            for served in self.values():
                await self._serve(served)
            if ADMIN in self.plan.users:
                config = merged([served.front_end.kubeconfig(ADMIN) for served in self.values()])
                await anyio.Path(self._shared.folder / "kubeconfig").write_text(yaml.safe_dump(config, sort_keys=False))
            self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
            self._stack.callback(self._tasks.cancel_scope.cancel)
            for name, served in self.items():
                if name != MANAGER and self.plan.kueue:
                    await self.run(served.kueue)
                if name != MANAGER and self.plan.jobs:
                    await self.run(served.jobs)
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
