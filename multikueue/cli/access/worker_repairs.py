"""What workers lack and we may make: looked for, shown, and made with an administrator's rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from multikueue.cli.access.worker_access import ReachableWorker, WorkerAccess
from multikueue.cli.access.worker_clusters import WorkerCluster
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Form, is_document
from multikueue.cli.terminal.output import Column, print_document, print_table, say
from multikueue.cli.terminal.progress import each
from multikueue.errors import MultiKueueError
from multikueue.registration.plan import Wanted

if TYPE_CHECKING:
    from multikueue.api.kueue.queues import LocalQueue
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.registration.preflight import Routes

__all__ = ["QueueWish", "Reach", "RepairPlan", "administrators", "look_for_queues", "make", "print_plans"]

COLUMNS = (Column("WORKER"), Column("OBJECT"), Column("CHANGE"), Column("DETAIL"))

Reach = Callable[[WorkerCluster], AbstractAsyncContextManager[ReachableWorker]]
"""A connection to a worker with the caller's own rights."""


class RepairPlan(msgspec.Struct, frozen=True):
    """What is to be made on a worker, in this order; and why other things, by their names, cannot be."""

    member: WorkerCluster
    wanted: tuple[Wanted, ...] = ()
    refused: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def problems(self) -> list[CommandFailed]:
        return [CommandFailed(f"{self.name}: {what}: {why}") for what, why in self.refused.items()]


class QueueWish(msgspec.Struct, frozen=True):
    """Which LocalQueues are made, and where they lead. An empty `namespace`: those of all; an empty `cluster_queue`: the one
    of the same name."""

    origin: str
    namespace: str = ""
    cluster_queue: str = ""


def administrators(client: ClusterClient, access: WorkerAccess) -> Reach:
    """The ways to workers for what the manager's account may not do. One that leads to another cluster than the manager's
    raises ConfigurationError."""
    from multikueue.registration.queues import refuse_another_cluster

    remedy = "have a context {0!r} of an administrator in your kubeconfig, or name one with --worker-context"
    ways = replace(access, rights="make what is missing", remedy=remedy)

    @asynccontextmanager
    async def reach(member: WorkerCluster) -> AsyncIterator[ReachableWorker]:
        async with ways.connect(client, member.name) as worker:
            await refuse_another_cluster(worker.client, member.cluster)
            yield worker

    return reach


async def look_for_queues(
    client: ClusterClient, members: Sequence[WorkerCluster], reach: Reach, wish: QueueWish
) -> tuple[list[RepairPlan], list[MultiKueueError]]:
    """What each of the workers lacks of the manager's queues, and what failed."""
    from multikueue.api.kinds import NAMESPACES
    from multikueue.errors import Forbidden
    from multikueue.registration.preflight import routes
    from multikueue.registration.queues import look_for_lacking
    from multikueue.store.workers.watch_scope import namespaces_of

    way = await routes(client)
    try:
        spaces = {each.metadata.name: each for each in (await client.list(NAMESPACES)).items}
    except Forbidden:
        spaces = {}

    async def one(member: WorkerCluster) -> RepairPlan:
        async with reach(member) as worker:
            found = await look_for_lacking(
                worker.client,
                _queues(way, member.name, wish.namespace),
                spaces,
                namespaces_of(member.cluster),
                origin=wish.origin,
                cluster_queue=wish.cluster_queue,
                advice=worker.advice,
            )
        refused = {f"LocalQueue {key}": why for key, why in found.problems.items()}
        return RepairPlan(member, found.wanted, refused)

    return await each("looking at", members, one)


async def make(
    plans: Sequence[RepairPlan], reach: Reach, tell: Callable[[str], None] = say
) -> tuple[list[str], list[MultiKueueError]]:
    """Make what is lacking, on some workers at a time, and report each object: the names of those that have all of it now, and
    what failed."""
    from multikueue.registration.ownership import OwnershipStep, Side

    def report(step: OwnershipStep) -> None:
        if step.action != "unchanged":
            tell(f"{step.where}: {step.what} {step.action}")

    async def one(plan: RepairPlan) -> str:
        async with reach(plan.member) as worker:
            at = Side(client=worker.client, where=plan.name, report=report)
            for wanted in plan.wanted:
                await at.ensure(wanted)
        return plan.name

    return await each("making what is missing on", plans, one)


def print_plans(plans: Sequence[RepairPlan], output: Form) -> None:
    """What is to be made, by worker; for programs with the objects."""
    if is_document(output):
        items = [
            {
                "worker": plan.name,
                "objects": [wanted.manifest for wanted in plan.wanted],
                "problems": dict(plan.refused),
            }
            for plan in plans
        ]
        print_document({"items": items}, output)
    elif rows := [row for plan in plans for row in _rows(plan)]:
        print_table(COLUMNS, rows, output)


def _rows(plan: RepairPlan) -> list[tuple[str, str, str, str]]:
    rows = list[tuple[str, str, str, str]]()
    for wanted in plan.wanted:
        leads = wanted.body.get("spec", {}).get("clusterQueue", "")
        change = "create" if wanted.is_shared else "update"
        rows.append((plan.name, str(wanted), change, f"leads to ClusterQueue {leads}" if leads else ""))
    return [*rows, *((plan.name, what, "none", why) for what, why in plan.refused.items())]


def _queues(way: Routes, cluster: str, namespace: str) -> list[LocalQueue]:
    """The LocalQueues whose jobs may go to the cluster, of that namespace, or of all."""
    leading = set(way.queues_to(cluster))
    return [each for each in way.local_queues if each.key in leading and namespace in ("", each.metadata.namespace)]
