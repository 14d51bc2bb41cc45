"""The end of a job: waited for, and as an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from multikueue.api.kueue.workload import FINISHED, SUCCEEDED, Workload
from multikueue.cli.terminal.exit import ExitCode
from multikueue.cli.terminal.output import note, one_line
from multikueue.cli.workload.session import POLL_INTERVAL, WithoutWorkload, ended, open_workload
from multikueue.cli.workload.view import WorkloadView
from multikueue.errors import MultiKueueError

if TYPE_CHECKING:
    from multikueue.api.kubernetes.printed import PrintedPod
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.kube.cluster_client import WatchingClient

__all__ = ["code_of", "exit_code", "wait_for"]

FIRST = datetime.min.replace(tzinfo=UTC)
PATIENCE = 5
"""Reads until a job without a Workload is worth a word: the manager makes one in a moment."""


async def wait_for(named: str, namespace: str, reach: WorkerAccess) -> tuple[str, int]:
    """How a job ended, as a sentence, and its exit code, once it is over. Says each new reason for which it runs nowhere.

    Raises CommandFailed where the workload has been deleted, or the job was deleted before it had one.
    """
    said, reads = "", 0
    while True:
        try:
            async with open_workload(named, namespace, reach) as session:
                workload = await session.stay(_Patient())
                return ended(workload), await code_of(session.manager, session.reach, workload)
        except WithoutWorkload as error:
            reads += 1
            if reads > PATIENCE and said != (said := one_line(str(error))):
                note(f"{said} Waiting for it.")
        await anyio.sleep(POLL_INTERVAL.total_seconds())


class _Patient:
    """Does nothing on the workload's cluster but wait."""

    async def play(self, _view: WorkloadView, /) -> None:
        await anyio.sleep_forever()

    async def drain(self) -> None:
        """Nothing is under way."""


async def code_of(manager: WatchingClient, reach: WorkerAccess, workload: Workload) -> int:
    """The exit code of a workload that is over: 0 if it succeeded, 1 if that of its pods cannot be seen."""
    finished = workload.condition(FINISHED)
    if finished is not None and finished.reason == SUCCEEDED:
        return ExitCode.OK
    try:
        async with AsyncExitStack() as stack:
            found = await WorkloadView(manager, reach, workload, stack).pods()
    except MultiKueueError:  # the user may not look there, or the cluster is away
        return ExitCode.FAILED
    return exit_code(pod for _, pod in found)


def exit_code(pods: Iterable[PrintedPod]) -> int:
    """The exit code of a container that failed, in the newest such pod of a failed job; 1 if none is known."""
    ends = [
        (pod.metadata.creation_timestamp or FIRST, end.exit_code)
        for pod in pods
        for container in pod.status.container_statuses
        if (end := container.state.terminated) is not None and end.exit_code
    ]
    return max(ends)[1] if ends else ExitCode.FAILED
