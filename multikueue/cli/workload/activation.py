"""Workloads held, released and queued again by `spec.active`, with the caller's rights; the manager does the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import has_given_back
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.errors import Forbidden

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["activate", "requeue"]

GIVE_BACK_TIMEOUT = timedelta(minutes=1)
"""Maximum wait for a workload to give its quota back, which is enough where a manager runs."""

POLL_INTERVAL = timedelta(milliseconds=500)


async def activate(client: ClusterClient, workload: Workload, *, is_active: bool) -> None:
    """Raises CommandFailed without the right to it."""
    try:
        await client.merge_patch(WORKLOADS, workload.key, {"spec": {"active": is_active}})
    except Forbidden as error:
        raise CommandFailed(
            f"{error.message}: this takes the right to patch workloads, as the role multikueue-batch-admin has it"
        ) from error


async def requeue(client: ClusterClient, workload: Workload) -> None:
    """Hold and release the workload, which also makes Kueue forget its back-off. It is released in any case."""
    await activate(client, workload, is_active=False)
    try:
        await _given_back(client, workload)
    finally:
        with anyio.CancelScope(shield=True):
            await activate(client, workload, is_active=True)


async def _given_back(client: ClusterClient, workload: Workload) -> None:
    """Wait until the workload has no quota: released earlier, it would just go on. Raises CommandFailed in the end."""
    with anyio.move_on_after(GIVE_BACK_TIMEOUT.total_seconds()):
        while True:
            now = await client.get(WORKLOADS, workload.key)
            if has_given_back(now):
                return
            await anyio.sleep(POLL_INTERVAL.total_seconds())
    raise CommandFailed(
        f"{workload.key} did not give its quota back in {GIVE_BACK_TIMEOUT.total_seconds():g} s: does a manager run?"
    )
