"""The processes of a world, each with its own line to the network: a cluster's Kueue, a worker's nodes, a manager."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from fakekube.network.transport import Network, Observer
from multikueue.controllers.reconcile.context import OnDecision
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from multikueue.manager.process import ProcessEnvironment, manage
from multikueue.runtime import Clock, Mandate
from multikueue.settings import InForce
from multikueue.telemetry.metrics import Metrics
from multikueue_simulator.time import process
from multikueue_simulator.workers.jobs.jobs import JobRunner, Lives
from multikueue_simulator.workers.kueue.behaviour import PROMPT, Behaviour
from multikueue_simulator.workers.kueue.kueue import SimulatedKueue
from multikueue_simulator.world.transport import over

__all__ = ["MANAGER", "Kueue", "ManagerProcess", "Process", "Runner"]

MANAGER = "manager"
"""The host name of the manager cluster."""

_CALLS = 32
"""The maximum number of concurrent requests of a program."""


class Process:
    """A program with a line of its own, which runs until it is stopped or fails, and can be restarted.

    `error` is the error of the last run, None if it was stopped; `ended` is called with the name after each run.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        observer: Observer | None = None,
        ended: Callable[[str], None] | None = None,
    ) -> None:
        self.name, self.network, self.observer, self.ended = name, network, observer, ended
        self.runs = 0
        self.error: Exception | None = None
        self.line = network.line(name, observer)
        self._scope: anyio.CancelScope | None = None

    @property
    def is_running(self) -> bool:
        return self._scope is not None

    def begin(self, tasks: TaskGroup) -> anyio.Event:
        """Start on a new line. The event is set once the program has started."""
        if self._scope is not None:
            raise RuntimeError(f"{self.name} runs already")
        self.line = self.network.line(self.name, self.observer)
        self.runs += 1
        self.error = None
        started, scope = anyio.Event(), anyio.CancelScope()
        self._scope = scope
        with process(self.name):
            tasks.start_soon(self._run, scope, started, name=self.name)
        return started

    def kill(self) -> None:
        """End at once. Answers to pending requests do not arrive any more."""
        self.line.dead = True
        if self._scope is not None:
            self._scope.cancel()
            self._over()

    async def _run(self, scope: anyio.CancelScope, started: anyio.Event) -> None:
        with scope:
            try:
                await self._work(started)
            except Exception as error:  # noqa: BLE001  # the boundary between processes
                self.error = error
        if self._scope is scope:
            self.line.dead = True
            self._over()

    def _over(self) -> None:
        self._scope = None
        if self.ended is not None:
            self.ended(self.name)

    async def _work(self, started: anyio.Event) -> None:
        raise NotImplementedError

    def _client(self, host: str, **options: Any) -> AbstractAsyncContextManager[Client]:
        credentials = Credentials(server=f"http://{host}", token=FixedToken(f"Bearer {self.name}"))
        return Client.connect(
            credentials,
            cluster=host,
            user_agent=self.name,
            limit=_CALLS,
            transport=over(self.line),
            **options,
        )


class Kueue(Process):
    """The Kueue of a cluster."""

    def __init__(self, host: str, network: Network, *, clock: Clock, rng: random.Random) -> None:
        super().__init__(f"kueue of {host}", network)
        self.host, self.clock, self.rng = host, clock, rng
        self.behaviour = PROMPT
        self._kueue: SimulatedKueue | None = None

    def behave(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        if self._kueue is not None:
            self._kueue.behave(behaviour)

    async def _work(self, started: anyio.Event) -> None:
        async with self._client(self.host) as client:
            self._kueue = SimulatedKueue(
                client, now=self.clock.now, rng=self.rng, behaviour=self.behaviour, figures=None
            )
            await _until_cancelled(self._kueue.run, started)


class Runner(Process):
    """The program that runs a worker's jobs."""

    def __init__(
        self,
        host: str,
        network: Network,
        *,
        clock: Clock,
        rng: random.Random,
        lives: Lives | None,
        pods: bool = False,
    ) -> None:
        super().__init__(f"nodes of {host}", network)
        self.host, self.clock, self.rng, self.lives, self.pods = host, clock, rng, lives, pods

    async def _work(self, started: anyio.Event) -> None:
        async with self._client(self.host) as client:
            runner = JobRunner(client, now=self.clock.now, rng=self.rng, lives=self.lives, pods=self.pods)
            await _until_cancelled(runner.run, started)


class _Startable(Protocol):
    async def __call__(self, *, task_status: TaskStatus[None]) -> None: ...


async def _until_cancelled(work: _Startable, started: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:
        await tasks.start(work)
        started.set()


class ManagerProcess(Process):
    """A manager with a `clock` of its own. `in_force` can change its settings while it runs."""

    def __init__(
        self,
        name: str,
        network: Network,
        in_force: InForce,
        *,
        clock: Clock,
        observer: Observer | None,
        ended: Callable[[str], None] | None,
        on_decision: OnDecision | None,
    ) -> None:
        super().__init__(name, network, observer, ended)
        self.in_force, self.clock, self.on_decision = in_force, clock, on_decision
        self.mandate: Mandate | None = None
        self.metrics: Metrics | None = None
        self.begun: list[float] = []
        """The times of all starts, in seconds of the loop."""
        self._stop = anyio.Event()

    @property
    def identity(self) -> str:
        return f"{self.name}_{self.runs}"

    @property
    def acts(self) -> bool:
        """Whether the manager may write."""
        return self.is_running and self.mandate is not None and self.mandate.is_valid()

    def stop(self) -> None:
        """End soon and gracefully, as on SIGTERM."""
        self._stop.set()

    async def _work(self, started: anyio.Event) -> None:
        self._stop, self.mandate = anyio.Event(), None

        def begun(mandate: Mandate, metrics: Metrics) -> None:
            self.mandate, self.metrics = mandate, metrics
            self.begun.append(anyio.current_time())
            started.set()

        environment = ProcessEnvironment(
            clock=self.clock,
            boot=anyio.current_time,
            transport=over(self.line),
            identity=self.identity,
            on_decision=self.on_decision,
            is_metered=False,
            should_look_for_others=False,
        )
        credentials = Credentials(server=f"http://{MANAGER}", token=FixedToken(f"Bearer {self.name}"))
        await manage(self.in_force, credentials, stop=self._stop, begun=begun, environment=environment)
