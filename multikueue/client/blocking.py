"""The same for scripts and notebooks: calls that return once there is an answer.

An event loop in a thread of its own does the work: a notebook has one of its own in the main thread, which must not wait.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from multikueue.answers.answer import JobAnswer
from multikueue.client.asynchronous import AsyncJob, AsyncMultiKueue

__all__ = ["MultiKueue", "SubmittedJob"]


class MultiKueue:
    """The manager cluster, as the user of a kubeconfig. Takes the arguments of `AsyncMultiKueue`.

    It is connected from the start, until `close` or the end of a `with` block. Raises ConfigurationError for a kubeconfig that
    cannot be used.
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        worker_context: str | None = None,
    ) -> None:
        clusters = AsyncMultiKueue(
            namespace=namespace, kubeconfig=kubeconfig, context=context, worker_context=worker_context
        )
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            self._clusters = stack.enter_context(self._portal.wrap_async_context_manager(clusters))
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the connections. Jobs go on."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(self, job: Mapping[str, Any] | str | os.PathLike[str], *, queue: str = "") -> SubmittedJob:
        """See `AsyncMultiKueue.submit`."""
        return SubmittedJob(self._portal.call(lambda: self._clusters.submit(job, queue=queue)), self._portal)

    def job(self, name: str) -> SubmittedJob:
        """See `AsyncMultiKueue.job`."""
        return SubmittedJob(self._clusters.job(name), self._portal)


class SubmittedJob:
    """One job; see `AsyncJob`. Printed in a notebook, it is its status."""

    def __init__(self, job: AsyncJob, portal: BlockingPortal) -> None:
        self._job, self._portal = job, portal

    @property
    def name(self) -> str:
        """KIND/NAME, as commands take it."""
        return self._job.name

    @property
    def namespace(self) -> str:
        return self._job.namespace

    @property
    def status(self) -> JobAnswer:
        """What `multikueue why` answers, asked now."""
        return self._portal.call(self._job.status)

    @property
    def where(self) -> str:
        """The worker that has the job, or had it; empty as long as none has. Asked now."""
        return self._portal.call(self._job.where)

    def wait(self, timeout: float | None = None) -> int:
        """See `AsyncJob.wait`. Ctrl-C ends the wait; the job goes on."""
        future = self._portal.start_task_soon(self._job.wait, timeout)
        try:
            return future.result()
        finally:
            future.cancel()

    def logs(self, *, pod: str = "", container: str = "", tail: int | None = None) -> str:
        """See `AsyncJob.logs`."""
        return self._portal.call(lambda: self._job.logs(pod=pod, container=container, tail=tail))

    def cancel(self) -> None:
        """See `AsyncJob.cancel`."""
        self._portal.call(self._job.cancel)

    def __repr__(self) -> str:
        return f"<job {self.namespace}/{self.name}>"
