"""`multikueue clusters discover`: what could be a worker, and what is one already."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from multikueue.cli.access.connection import run_async
from multikueue.cli.commands.clusters.sides import RegistrarOptions, WorkerKubeconfig
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Format, NoHeaders, Output, SortBy
from multikueue.cli.terminal.output import Column, PrintedList, note, print_items

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.registration.discovery import PossibleWorker

__all__ = ["Inventory", "candidates", "discover"]


class Inventory(StrEnum):
    """Where candidates are looked for."""

    KUBECONFIG = "kubeconfig"
    OCM = "ocm"
    CLUSTERPROFILES = "clusterprofiles"


COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("WORKER"),
    Column("WHY"),
    Column("SERVER", is_wide=True),
    Column("VERSION", is_wide=True),
    Column("SOURCE", is_wide=True),
)


@bundled
def discover(
    *,
    inventory: Annotated[
        Inventory,
        typer.Option("--from", help="Contexts of your kubeconfig, ManagedClusters of OCM, or ClusterProfiles."),
    ] = Inventory.KUBECONFIG,
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", help="Only those with these labels; contexts have none.", show_default=False),
    ] = "",
    kubeconfig: WorkerKubeconfig = None,
    at: RegistrarOptions,
    output: Output = Format.TABLE,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
) -> None:
    """List clusters that are, or could be, workers.

    Of a cluster that cannot be one, it says why.

    WORKER is the MultiKueueCluster that a cluster is already. No cluster is asked but the manager.

    \b
    Examples:
      multikueue clusters discover
      multikueue clusters discover --from ocm -l region=eu-west -o wide
    """

    async def work() -> list[PossibleWorker]:
        async with at.target.connect() as client:
            return await candidates(inventory, client, at, kubeconfig, selector)

    found = run_async(work)
    rows = [
        (each.name, each.state, each.registered, each.refusal, each.server, each.version, each.source) for each in found
    ]
    items = [{"metadata": {"name": each.name}, "state": each.state, **asdict(each)} for each in found]
    nothing = f"No clusters found by {inventory.value}."
    listing = PrintedList(columns=COLUMNS, rows=rows, items=items, resource="cluster", nothing=nothing)
    print_items(listing, output, sort_by=sort_by, has_headers=not no_headers)
    possible = sum(each.state == "Possible" for each in found)
    if possible and output in (Format.TABLE, Format.WIDE):
        note(f"{possible} could be registered: multikueue clusters register --from {inventory.value} --all")


async def candidates(
    inventory: Inventory,
    client: ClusterClient,
    at: RegistrarOptions,
    kubeconfig: Path | None,
    selector: str,
    *,
    by_agents: bool = False,
) -> list[PossibleWorker]:
    """All of an inventory, in the natural order of their names; `by_agents`: those of a hub need no contexts. Raises
    CommandFailed where the manager cluster does not have that inventory, BadParameter for a selector of contexts."""
    from multikueue.api.kinds import CLUSTER_PROFILES, MANAGED_CLUSTERS
    from multikueue.api.meta import natural
    from multikueue.cli.access.connection import fetch_pairs
    from multikueue.cli.access.worker_clusters import gather
    from multikueue.errors import NotFound
    from multikueue.kube.auth.credentials import contexts
    from multikueue.registration.discovery import KnownWorkers, of_contexts, of_managed_clusters, of_profiles

    if selector and inventory is Inventory.KUBECONFIG:
        raise typer.BadParameter("contexts have no labels: give names or --all, or another --from")
    members, _ = await gather(client, at.namespace)
    known = KnownWorkers(
        clusters=[member.cluster for member in members],
        servers={member.name: member.known.server for member in members},
        manager=(await at.target.credentials()).server,
    )
    labels = {"labelSelector": selector} if selector else None
    own = await contexts(kubeconfig)
    try:
        match inventory:
            case Inventory.KUBECONFIG:
                found = of_contexts(own, known)
            case Inventory.OCM:
                managed = await fetch_pairs(client, MANAGED_CLUSTERS, params=labels)
                found = of_managed_clusters((cluster for _, cluster in managed), None if by_agents else own, known)
            case Inventory.CLUSTERPROFILES:
                profiles = await fetch_pairs(client, CLUSTER_PROFILES, namespace=at.namespace, params=labels)
                found = of_profiles((profile for _, profile in profiles), known)
    except NotFound as error:
        what = "ManagedClusters: it is no hub of OCM" if inventory is Inventory.OCM else "ClusterProfiles"
        raise CommandFailed(f"the manager cluster does not serve {what}; --from takes another inventory") from error
    return sorted(found, key=lambda each: natural(each.name))
