"""Jobs of the manager cluster, for programs with an event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread

from multikueue.answers.answer import JobAnswer
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import FINISHED, Workload
from multikueue.cli.access.connection import ContextChoice
from multikueue.cli.access.manager_settings import load_settings
from multikueue.cli.access.worker_access import WorkerAccess
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.manifests import read_manifests
from multikueue.cli.workload.deletion import delete_job, delete_job_alone
from multikueue.cli.workload.end import code_of
from multikueue.cli.workload.log_choice import LogChoice
from multikueue.cli.workload.lookup import fetch_workloads, pick
from multikueue.cli.workload.quick_job import QuickJob
from multikueue.cli.workload.seen import look, look_without_workload
from multikueue.cli.workload.submission import job_name, submission
from multikueue.cli.workload.view import WorkloadView
from multikueue.errors import Invalid, NotFound
from multikueue.kube.client import Client

__all__ = ["AsyncJob", "AsyncMultiKueue", "container_job"]

POLL_INTERVAL = timedelta(seconds=1)
"""Time between two looks at a job that is waited for."""


def container_job(
    image: str, *command: str, name: str = "", cpu: str = "", memory: str = "", gpu: str = ""
) -> dict[str, Any]:
    """A Job of one container, as `multikueue submit --image` makes it.

    Amounts are Kubernetes' quantities ("500m", "8Gi"); `gpu` is a number of nvidia.com/gpu, or "RESOURCE=NUMBER". Without a
    name the server makes one of the image's.
    """
    return QuickJob(image=image, name=name, cpu=cpu, memory=memory, gpu=gpu).tree(command)


class AsyncMultiKueue:
    """The manager cluster, as the user of a kubeconfig; open during the block.

    `namespace`, `kubeconfig` and `context` are by default those that kubectl would use. `worker_context`: a context of your own
    for workers, for logs; by default the one with the worker's name, if there is one.
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        worker_context: str | None = None,
    ) -> None:
        path = Path(kubeconfig) if kubeconfig is not None else None
        self._choice = ContextChoice(path, context)
        self._reach = WorkerAccess(manager=self._choice, context=worker_context)
        self._named, self._namespace = namespace, ""
        self._stack = AsyncExitStack()
        self._client: Client | None = None

    async def __aenter__(self) -> Self:
        """Raises ConfigurationError for a kubeconfig that cannot be used."""
        credentials = await self._choice.credentials()
        self._namespace = self._named or credentials.namespace
        self._client = await self._stack.enter_async_context(Client.connect(credentials))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client = None
        await self._stack.aclose()

    async def submit(self, job: Mapping[str, Any] | str | os.PathLike[str], *, queue: str = "") -> AsyncJob:
        """Create a job in a LocalQueue; by default in the one that its label names.

        `job` is an object with apiVersion, kind and spec, or the path of a file with exactly one. Raises MultiKueueError for
        what is no job, for a queue or kind that does not exist, and for what the server refuses.
        """
        client = self._connected()
        tree = job if isinstance(job, Mapping) else await anyio.to_thread.run_sync(_only_one, os.fspath(job))
        sent = submission(tree, queue, self._named, self._namespace)
        made = await sent.send(client)
        return AsyncJob(job_name(made), sent.namespace, client, self._reach)

    def job(self, name: str) -> AsyncJob:
        """A job that is there: by its name, or as KIND/NAME, as commands take it. Nothing is asked yet."""
        return AsyncJob(name, self._namespace, self._connected(), self._reach)

    def _connected(self) -> Client:
        if self._client is None:
            raise RuntimeError("use it with `async with`")
        return self._client


@dataclass(frozen=True, slots=True)
class AsyncJob:
    """One job, by its name; each question is asked when it is put, and raises MultiKueueError if the job is gone."""

    name: str
    namespace: str
    _client: Client
    _reach: WorkerAccess

    async def status(self) -> JobAnswer:
        """What `multikueue why` answers: `state`, one sentence in `summary`, and what stands in the way in `obstacles`."""
        found = await look(self._client, self._reach, self.namespace, self.name, load_settings(None))
        return found.answer()

    async def where(self) -> str:
        """The worker that has the job, or had it; empty as long as none has."""
        workload = await self._workload()
        return (workload.status.cluster_name or "") if workload is not None else ""

    async def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the job; its exit code, as of a process.

        0 if it succeeded; else that of a container that failed, and 1 if none is known. Raises TimeoutError after `timeout`
        seconds, and MultiKueueError if the job is deleted meanwhile.
        """
        with anyio.fail_after(timeout):
            workload = await self._workload()
            while workload is None or not workload.has(FINISHED):
                await anyio.sleep(POLL_INTERVAL.total_seconds())
                workload = await self._again(workload)
            return int(await code_of(self._client, self._reach, workload))

    async def logs(self, *, pod: str = "", container: str = "", tail: int | None = None) -> str:
        """The present logs of the job's pods: of each the container that `kubectl logs` would choose, one after the other.

        `tail`: only so many last lines of each. Empty while the job runs nowhere, and where its pods are gone. Raises
        MultiKueueError where the logs may not be read.
        """
        choice = LogChoice(pod=pod, container=container, query={} if tail is None else {"tailLines": str(tail)})
        return "".join([line async for line in self._lines(choice)])

    async def cancel(self) -> None:
        """Delete the job, wherever it waits or runs. Raises MultiKueueError if it is gone."""
        mine = await fetch_workloads(self._client, self.namespace)
        alone = await look_without_workload(self._client, self.namespace, self.name, mine)
        if alone is None:
            await delete_job(self._client, pick(mine, self.name, self.namespace)[1])
        elif alone.job is not None:
            await delete_job_alone(self._client, alone.job)

    async def _workload(self) -> Workload | None:
        """None for a job that has none (yet). Raises CommandFailed if there is neither."""
        mine = await fetch_workloads(self._client, self.namespace)
        if await look_without_workload(self._client, self.namespace, self.name, mine) is not None:
            return None
        return pick(mine, self.name, self.namespace)[1]

    async def _again(self, known: Workload | None) -> Workload | None:
        """The same one, without a list of all where its name is known."""
        if known is None:
            return await self._workload()
        try:
            return await self._client.get(WORKLOADS, known.key)
        except NotFound:
            return await self._workload()

    async def _lines(self, choice: LogChoice) -> AsyncIterator[str]:
        workload = await self._workload()
        if workload is None or not workload.status.cluster_name:
            return
        async with AsyncExitStack() as stack:
            view = WorkloadView(self._client, self._reach, workload, stack)
            for _, pod in await view.pods():
                for name in choice.containers(pod):
                    with suppress(Invalid, NotFound):  # it has not begun, or is gone since
                        async with view.log(pod, choice.query | {"container": name}) as log:
                            while line := await log.line():
                                yield line.decode(errors="replace")


def _only_one(path: str) -> Mapping[str, Any]:
    found = list(read_manifests(path))
    if len(found) != 1:
        raise CommandFailed(f"{path}: expected one job, got {len(found)} objects")
    return found[0].tree
