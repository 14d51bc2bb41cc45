"""The programs beside a served cluster, which can be stopped and restarted: a simulated Kueue, and the runner of jobs.

They connect over HTTPS, as any other client.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from fakekube.cluster import Cluster
from fakekube.model.wire import Object, Request, Response
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue.runtime.clock import Clock
from multikueue_simulator.workers.jobs.jobs import JobRunner, annotated
from multikueue_simulator.workers.jobs.runs import Life
from multikueue_simulator.workers.kueue import webhooks
from multikueue_simulator.workers.kueue.kueue import SimulatedKueue

__all__ = ["KueueProgram", "Program", "job_runner"]


class Started(Protocol):
    """A coroutine that runs until it is cancelled, and reports its start."""

    def run(self, *, task_status: TaskStatus[None]) -> Awaitable[None]: ...


Made = Callable[[Client], Started]


class Program:
    """One program, created again for each run. `kubeconfig` returns the access to the cluster at the start."""

    def __init__(self, user: str, kubeconfig: Callable[[str], Object], made: Made) -> None:
        self._user, self._kubeconfig, self._made = user, kubeconfig, made
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    @property
    def running(self) -> bool:
        return self._scope is not None

    async def start(self, tasks: TaskGroup) -> None:
        """Run in the task group from now on; no effect if it runs already."""
        if not self.running:
            await tasks.start(self._run)

    async def stop(self) -> None:
        """End at once, as if killed."""
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        self._ended = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                credentials = await from_kubeconfig(self._kubeconfig(self._user))
                async with Client.connect(credentials, cluster=self._user, user_agent=self._user) as client:
                    await self._made(client).run(task_status=task_status)
        finally:
            self._scope = None
            self._ended.set()


class KueueProgram(Program):
    """A simulated Kueue with its validating webhooks. While it is stopped the webhooks fail, as Kueue's do."""

    def __init__(
        self, cluster: Cluster, kubeconfig: Callable[[str], Object], *, clock: Clock, rng: random.Random
    ) -> None:
        super().__init__("kueue", kubeconfig, lambda client: SimulatedKueue(client, now=clock.now, rng=rng))
        self._cluster = cluster
        cluster.admission.local[webhooks.HOST] = self._review

    async def start(self, tasks: TaskGroup) -> None:
        await super().start(tasks)
        await self._write("POST", _WEBHOOKS, webhooks.configuration())

    async def remove(self) -> None:
        """Stop, and delete the webhook configuration, so that the cluster works without a Kueue."""
        await self.stop()
        await self._write("DELETE", f"{_WEBHOOKS}/{webhooks.configuration()['metadata']['name']}")

    def _review(self, asked: Object) -> Object:
        if not self.running:
            raise ConnectionRefusedError("connect: connection refused")
        return webhooks.review(asked)

    async def _write(self, method: str, path: str, body: Any = None) -> None:
        """Create or delete an object. One that exists or is gone already is no error."""
        content = b"" if body is None else msgspec.json.encode(body)
        answer = await self._cluster.api.handle(Request(method=method, path=path, body=content))
        assert isinstance(answer, Response)
        assert answer.status < 300 or answer.status in (404, 409), answer.body


_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def job_runner(
    kubeconfig: Callable[[str], Object], *, clock: Clock, rng: random.Random, lasts: timedelta | None = None
) -> Program:
    """Runs jobs; their pods run for `lasts` unless annotations say otherwise."""
    lives = annotated() if lasts is None else annotated(Life(lasts=lasts))
    return Program(
        "controller-manager",
        kubeconfig,
        lambda client: JobRunner(client, now=clock.now, rng=rng, lives=lives, pods=True),
    )
