"""`multikueue workloads`: where they are, and why they are not where one wants them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import Context, Kubeconfig, SettingsFile, Target, now, run_async
from multikueue.cli.access.worker_access import Reach, SecretsNamespace, WorkerContext, WorkerKubeconfig
from multikueue.cli.commands.workloads import events, pods
from multikueue.cli.commands.workloads.logs import logs
from multikueue.cli.terminal.exit import EPILOG
from multikueue.cli.terminal.output import (
    Column,
    Format,
    Listing,
    Output,
    age,
    heading,
    note,
    print_document,
    print_facts,
    print_items,
    print_table,
)
from multikueue.cli.workload.lookup import InNamespace, Named, Pair, fetch_workloads

if TYPE_CHECKING:
    from multikueue.api.workload import Workload
    from multikueue.cli.commands.workloads.cluster_view import Sight

__all__ = ["app"]

app = typer.Typer(
    name="workloads",
    help="See where workloads are, and why.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)

COLUMNS = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("QUEUE"),
    Column("PRIORITY"),
    Column("STATUS"),
    Column("CLUSTER"),
    Column("AGE"),
    Column("OWNER", wide=True),
    Column("NOMINATED", wide=True),
    Column("ATTEMPT", wide=True),
    Column("MESSAGE", wide=True),
)

CLUSTERS = (
    Column("CLUSTER"),
    Column("ROLE"),
    Column("COPY"),
    Column("JOB"),
    Column("PODS"),
    Column("MESSAGE"),
)

LATEST = 10
"""Events on one screen; `events` has them all."""


@app.command("list")
def list_workloads(
    namespace: InNamespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    queue: Annotated[
        str, typer.Option("--queue", "-q", help="Only those of this LocalQueue.", show_default=False)
    ] = "",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """List workloads with their state and their cluster.

    \b
    Examples:
      multikueue workloads list -n team-a
      multikueue workloads list -A -q main -o wide
    """
    target = Target(kubeconfig, context)
    where, items = run_async(lambda: _fetch(target, namespace, everywhere=all_namespaces))
    pairs = [(item, workload) for item, workload in items if not queue or _queue(workload) == queue]
    moment = now()
    print_items(
        Listing(
            columns=COLUMNS,
            rows=[_row(workload, moment) for _, workload in pairs],
            items=[item for item, _ in pairs],
            resource="workload.kueue.x-k8s.io",
            nothing="No workloads found." if all_namespaces else f"No workloads found in namespace {where}.",
        ),
        output,
    )


@app.command("show")
def show_workload(
    name: Named,
    namespace: InNamespace = None,
    output: Output = Format.TABLE,
    worker_context: WorkerContext = None,
    worker_kubeconfig: WorkerKubeconfig = None,
    secrets_namespace: SecretsNamespace = "kueue-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Show all there is to know of one workload on one screen: what happened, where it is, and what it waits for.

    Its copies, its job and its pods are looked up on the clusters. What you cannot see there is said so, and is no error.
    With -o json or yaml: the Workload of the manager.

    \b
    Examples:
      multikueue workloads show -n team-a my-job
      multikueue workloads show jobset/train -o wide
      multikueue workloads show job-my-job-6a1f2 -o yaml
    """
    reach = Reach(
        manager=Target(kubeconfig, context),
        namespace=secrets_namespace,
        context=worker_context,
        kubeconfig=worker_kubeconfig,
    )
    run_async(lambda: _show(name, namespace, reach, output))


app.command("pods")(pods.pods)
app.command("logs")(logs)
app.command("events")(events.events)


async def _show(named: str, namespace: str | None, reach: Reach, output: Format) -> None:
    from multikueue.cli.commands.workloads.cluster_view import look_around
    from multikueue.cli.workload.session import open_scene

    async with open_scene(named, namespace, reach) as scene:
        workload = scene.workload
        if output in (Format.JSON, Format.YAML):
            print_document(scene.item, output)
        elif output is Format.NAME:
            print(f"workload.kueue.x-k8s.io/{workload.metadata.name}")
        else:
            sights, told = await look_around(scene), await events.at_home(scene)
            _tell(workload)
            _tell_where(sights, output)
            _tell_events([*told, *(each for sight in sights for each in sight.told)], output)


async def _fetch(target: Target, namespace: str | None, *, everywhere: bool) -> tuple[str, list[Pair]]:
    """The namespace that is meant, and its workloads."""
    async with target.connect_in(namespace) as (client, meant):
        where = "" if everywhere else meant
        return where, await fetch_workloads(client, where)


def _queue(workload: Workload) -> str:
    from multikueue.api.workload import workload_spec

    return workload_spec(workload).queue_name


def _row(workload: Workload, moment: datetime) -> tuple[str, ...]:
    from multikueue.api.workload import workload_spec
    from multikueue.cli.workload import description

    spec, meta, status = workload_spec(workload), workload.metadata, workload.status
    return (
        meta.namespace,
        meta.name,
        spec.queue_name,
        str(spec.priority),
        description.status(workload),
        status.cluster_name or "",
        age(meta.creation_timestamp, moment),
        description.owner(workload),
        ",".join(status.nominated_cluster_names),
        description.attempt(workload),
        description.reason(workload),
    )


def _tell(workload: Workload) -> None:
    from multikueue.cli.workload import description

    print_facts(f"Workload {workload.key}", description.facts(workload))
    heading("Story")
    for event in description.events(workload):
        print(f"  {event}")
    heading("Now")
    print(f"  {description.now(workload)}")
    if not workload.status.conditions:
        note("No controller has looked at it yet: is the manager running?")


def _tell_where(sights: list[Sight], output: Format) -> None:
    if not sights:
        return
    _section("Clusters")
    print_table(CLUSTERS, [sight.row() for sight in sights], output)
    moment = now()
    rows = [pods.row(pod, sight.cluster, moment) for sight in sights for pod in sight.pods]
    if rows:
        _section("Pods")
        print_table(pods.COLUMNS, rows, output)


def _tell_events(told: list[events.Told], output: Format) -> None:
    latest, moment = events.in_order(told)[-LATEST:], now()
    if latest:
        _section("Latest events" if len(told) > LATEST else "Events")
        print_table(events.COLUMNS, [events.row(each.event, each.cluster, moment) for each in latest], output)


def _section(title: str) -> None:
    print()
    heading(title)
