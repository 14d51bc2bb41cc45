"""`multikueue clusters cordon` and `uncordon`: whether a worker gets new workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, run_async
from multikueue.cli.commands.clusters.sides import MeantClusters
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.output import say
from multikueue.cli.terminal.progress import conclude, each

if TYPE_CHECKING:
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.errors import MultiKueueError
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["annotate", "cordon", "mark", "uncordon"]


@bundled
def cordon(*, meant: MeantClusters, manager: ManagerOptions) -> None:
    """Send no new workloads to workers.

    What runs there goes on. It is the annotation multikueue.dev/cordon of the MultiKueueCluster.

    \b
    Examples:
      multikueue clusters cordon worker-1 worker-2
      multikueue clusters cordon -l zone=eu
    """
    _mark(meant, manager.target, is_cordoned=True)


@bundled
def uncordon(*, meant: MeantClusters, manager: ManagerOptions) -> None:
    """Allow new workloads on cordoned workers again.

    \b
    Examples:
      multikueue clusters uncordon worker-1
      multikueue clusters uncordon --all
    """
    _mark(meant, manager.target, is_cordoned=False)


def _mark(meant: MeantClusters, target: ContextChoice, *, is_cordoned: bool) -> None:
    meant.refuse_unclear()

    async def work() -> None:
        async with target.connect() as client:
            found, unknown = await meant.find(client, should_read_secrets=False)
            done, failures = await annotate(client, found, is_cordoned=is_cordoned)
        conclude("cordoned" if is_cordoned else "uncordoned", len(done), [*unknown, *failures])

    run_async(work)


async def annotate(
    client: ClusterClient, workers: Sequence[WorkerCluster], *, is_cordoned: bool
) -> tuple[list[WorkerCluster], list[MultiKueueError]]:
    """Those that are marked now, and what failed."""

    async def annotate_one(worker: WorkerCluster) -> WorkerCluster:
        await mark(client, worker.name, is_cordoned=is_cordoned)
        say(f"{worker.name} {'cordoned' if is_cordoned else 'uncordoned'}")
        return worker

    return await each("cordoning" if is_cordoned else "uncordoning", workers, annotate_one)


async def mark(client: ClusterClient, name: str, *, is_cordoned: bool) -> None:
    """Mark one worker. Raises ApiError and ClusterUnreachable."""
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.api.meta import ObjectKey
    from multikueue.api.multikueue.clusters import CORDON_ANNOTATION

    body = {"metadata": {"annotations": {CORDON_ANNOTATION: "true" if is_cordoned else None}}}
    await client.merge_patch(MULTIKUEUE_CLUSTERS, ObjectKey("", name), body)
