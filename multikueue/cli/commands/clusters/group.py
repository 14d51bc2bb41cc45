"""`multikueue clusters`: join workers to the manager, look at them, take them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.completion import cluster_queues
from multikueue.cli.access.connection import (
    Context,
    ContextChoice,
    Kubeconfig,
    ManagerOptions,
    Namespace,
    SettingsFile,
    now,
    run_async,
)
from multikueue.cli.access.groups import group
from multikueue.cli.commands.clusters.cordoning import cordon, uncordon
from multikueue.cli.commands.clusters.discovery import discover
from multikueue.cli.commands.clusters.draining import drain
from multikueue.cli.commands.clusters.joining import register, remove_clusters, rotate
from multikueue.cli.commands.clusters.sides import MeantClusters, connect_with, end_by
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import ExitCode
from multikueue.cli.terminal.formats import Format, NoHeaders, Output, SortBy, is_document
from multikueue.cli.terminal.output import Ticker, note, print_document, print_facts, print_items

if TYPE_CHECKING:
    from multikueue.api.multikueue.clusters import MultiKueueCluster
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.errors import MultiKueueError

__all__ = ["app", "list_clusters", "watch_clusters"]

app = group("clusters", "Register, show, check and remove worker clusters.")

app.command("discover")(discover)
app.command("register")(register)


@app.command("list")
def list_clusters(
    namespace: Namespace = "kueue-system",
    _config: SettingsFile = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show each change.")] = False,
    output: Output = Format.TABLE,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the worker clusters and their connections.

    With -o wide, workers are asked too, by the credentials in their Secrets: version and latency.

    \b
    Examples:
      multikueue clusters list -w
      multikueue clusters list -o wide --context prod
    """
    from multikueue.cli.access import worker_clusters

    if watch:
        if output is not Format.TABLE:
            raise typer.BadParameter("--watch shows a table")
        run_async(lambda: watch_clusters(ContextChoice(kubeconfig, context), has_headers=not no_headers))
        return

    async def work() -> list[WorkerCluster]:
        async with ContextChoice(kubeconfig, context).connect() as client:
            is_wide = output is Format.WIDE
            members, _ = await worker_clusters.gather(client, namespace, should_read_secrets=is_wide)
            return await worker_clusters.looked_at(client, members, connect_with) if is_wide else members

    members = run_async(work)
    print_items(worker_clusters.listing(members, now()), output, sort_by=sort_by, has_headers=not no_headers)
    if members and not any(member.active for member in members):
        note("No manager has looked at these clusters yet: `multikueue run` starts one.")


@app.command("show")
@bundled
def show_clusters(
    *,
    meant: MeantClusters,
    namespace: Namespace = "kueue-system",
    output: Output = Format.TABLE,
    manager: ManagerOptions,
) -> None:
    """Show workers: connection, credential, configs.

    \b
    Examples:
      multikueue clusters show worker-1
      multikueue clusters show -l zone=eu -o yaml
    """
    from multikueue.cli.access import worker_clusters

    meant.refuse_unclear()

    async def work() -> tuple[list[WorkerCluster], list[MultiKueueError]]:
        async with manager.target.connect() as client:
            return await meant.find(client, namespace)

    members, failures = run_async(work)
    if is_document(output) and len(members) == 1:
        print_document(members[0].item, output)
    elif is_document(output) or output is Format.NAME:
        print_items(worker_clusters.listing(members, now()), output)
    else:
        for number, member in enumerate(members):
            print(end="\n" if number else "")
            print_facts(f"MultiKueueCluster {member.name}", worker_clusters.facts(member, now()))
    if failures:
        raise ExceptionGroup("not shown", failures)


@app.command("check")
@bundled
def check_clusters(
    *,
    meant: MeantClusters,
    namespace: Namespace = "kueue-system",
    output: Output = Format.TABLE,
    manager: ManagerOptions,
) -> None:
    """Check workers with the manager's own credentials.

    Do they answer, and do they have what the manager needs? Without names or a selector, all are looked at.

    Kinds, of your own too, rights, and the LocalQueues that the manager's queues lead to. Credentials that only the
    manager has (a file, a ClusterProfile) cannot be checked from here; what the manager says of its connection is
    shown all the same. Kinds that are declared in settings are known from --config.

    LimitRanges, RuntimeClasses, PriorityClasses and ResourceClaimTemplates where they make something else of pods there
    than the manager counts; flavors that the manager does not know. What devices count as, and which flavor is which, is
    known from --config.

    Clocks, certificates, quotas beside nodes and requests that wait, names of jobs, what their pods name, and whether two names
    lead to one cluster, as far as the account may see it.

    Of the manager cluster: whether a Kueue runs there too, whether it serves versions of Kueue's API without conversion, and
    what lost fields by that.

    Ends with 1 if anything is wrong, with 3 if a worker cannot be reached or checked from here. `multikueue doctor` shows
    the same by cause.

    \b
    Examples:
      multikueue clusters check
      multikueue clusters check worker-1 worker-2 -o json
      multikueue clusters check -l zone=eu
    """
    from multikueue.cli.commands.clusters import inspection
    from multikueue.cli.commands.clusters.doctor import look_at

    reports, failures = run_async(lambda: look_at(meant, namespace, manager))
    print_items(inspection.findings_listing(reports), output)
    note(inspection.summary(reports))
    if failures:
        raise ExceptionGroup("not checked", failures)
    end_by(reports)


@app.command("capacity")
def show_capacity(
    queue: Annotated[
        str | None,
        typer.Argument(
            help="Name of a ClusterQueue. (default: all)", show_default=False, autocompletion=cluster_queues
        ),
    ] = None,
    namespace: Namespace = "kueue-system",
    config: SettingsFile = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what the workers have for each ClusterQueue.

    And what its nominal quotas would be if they followed that.

    Nothing is changed. Workers are read with the manager's own credentials, as by `check`. The settings in --config say
    reserve and flavors; what is away now counts for nothing, though the manager waits a while before it takes quota away.

    Ends with 3 if a worker cannot be reached or read from here.

    \b
    Examples:
      multikueue clusters capacity
      multikueue clusters capacity team-a -o wide --config multikueue.yaml
    """
    from multikueue.cli.access import worker_clusters
    from multikueue.cli.access.manager_settings import load_settings
    from multikueue.cli.commands.clusters import capacity
    from multikueue.cli.terminal.progress import spinner
    from multikueue.controllers.quota.worker_queues import rules_of
    from multikueue.quota.capacity.following import Rules

    settings = load_settings(config)
    rules = rules_of(settings.capacity_follow) if settings is not None else Rules()

    async def work() -> capacity.Survey:
        async with ContextChoice(kubeconfig, context).connect() as client:
            members, _ = await worker_clusters.gather(client, namespace)
            async with spinner(f"asking {len(members)} clusters"):
                return await capacity.survey(client, members, connect=connect_with, rules=rules, moment=now())

    found = run_async(work).of(queue)
    print_items(capacity.listing(found), output)
    for text in found.remarks:
        note(text)
    if found.unread:
        raise typer.Exit(ExitCode.UNREACHABLE)


app.command("cordon")(cordon)
app.command("uncordon")(uncordon)
app.command("drain")(drain)
app.command("rotate")(rotate)
app.command("remove")(remove_clusters)


async def watch_clusters(target: ContextChoice, *, has_headers: bool) -> None:
    """Prints all clusters, then each change."""
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.cli.access import worker_clusters
    from multikueue.cli.access.following import follow

    ticker = Ticker(worker_clusters.COLUMNS, Format.TABLE, headers=has_headers)

    async def take(cluster: MultiKueueCluster, is_gone: bool) -> None:
        name, _, _, *rest = row = worker_clusters.row(worker_clusters.WorkerCluster(item={}, cluster=cluster), now())
        ticker.add((name, "Gone", "", *rest) if is_gone else row)

    async with target.connect() as client:
        await follow(client, MULTIKUEUE_CLUSTERS, "", take, rest=ticker.flush)
