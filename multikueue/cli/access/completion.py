"""Completion of names of objects on the manager cluster (contexts: `contexts`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from multikueue.cli.access.connection import ContextChoice
from multikueue.cli.access.contexts import beginning, given, quietly

if TYPE_CHECKING:
    from multikueue.kube.client import Client

__all__ = ["cluster_queues", "clusters", "queues", "workloads"]

Question = Callable[["Client", str], Awaitable[list[str]]]


def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """The MultiKueueClusters."""
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS

    async def ask(client: Client, _: str) -> list[str]:
        return [each.metadata.name for each in (await client.list(MULTIKUEUE_CLUSTERS)).items]

    return _names_from(ctx, incomplete, ask)


def queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """The LocalQueues of the namespace."""
    from multikueue.api.kinds import LOCAL_QUEUES

    async def ask(client: Client, namespace: str) -> list[str]:
        return [each.metadata.name for each in (await client.list(LOCAL_QUEUES, namespace=namespace)).items]

    return _names_from(ctx, incomplete, ask)


def cluster_queues(ctx: typer.Context, incomplete: str) -> list[str]:
    """All ClusterQueues."""
    from multikueue.api.kinds import CLUSTER_QUEUES

    async def ask(client: Client, _: str) -> list[str]:
        return [each.metadata.name for each in (await client.list(CLUSTER_QUEUES)).items]

    return _names_from(ctx, incomplete, ask)


def workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    """Jobs with a Workload in the namespace: by name, or as KIND/NAME once a kind is typed."""
    from multikueue.api.kinds import WORKLOADS
    from multikueue.api.kueue.workload import any_owner_of

    async def ask(client: Client, namespace: str) -> list[str]:
        names = list[str]()
        for each in (await client.list(WORKLOADS, namespace=namespace)).items:
            owner = any_owner_of(each)
            kind, name = (owner.kind.lower(), owner.name) if owner else ("workload", each.metadata.name)
            names += [f"{kind}/{name}" if "/" in incomplete else name]
            names += [f"workload/{each.metadata.name}"] if "/" in incomplete else []
        return names

    return _names_from(ctx, incomplete, ask)


def _names_from(ctx: typer.Context, incomplete: str, question: Question) -> list[str]:
    target = ContextChoice(given(ctx, "kubeconfig"), given(ctx, "context"))

    async def work() -> list[str]:
        async with target.connect_in(ctx.params.get("namespace")) as (client, where):
            return await question(client, where)

    return beginning(incomplete, quietly(work))
