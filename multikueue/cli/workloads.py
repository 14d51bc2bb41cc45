"""`multikueue workloads`: where they are, and why they are not where one wants them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.connection import Context, Kubeconfig, SettingsFile, Target, fetch, now, run_async
from multikueue.cli.exit import EPILOG, CommandFailed
from multikueue.cli.output import (
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
)

if TYPE_CHECKING:
    from multikueue.api.workload import Workload

__all__ = ["InNamespace", "app", "pick"]

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

InNamespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the workloads.")]


@app.command("list")
def list_workloads(
    namespace: InNamespace = "default",
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
    items = run_async(lambda: _fetch(Target(kubeconfig, context), "" if all_namespaces else namespace))
    pairs = [(item, workload) for item, workload in items if not queue or _queue(workload) == queue]
    moment = now()
    print_items(
        Listing(
            columns=COLUMNS,
            rows=[_row(workload, moment) for _, workload in pairs],
            items=[item for item, _ in pairs],
            resource="workload.kueue.x-k8s.io",
            nothing="No workloads found." if all_namespaces else f"No workloads found in namespace {namespace}.",
        ),
        output,
    )


@app.command("show")
def show_workload(
    name: Annotated[str, typer.Argument(help="Name of the workload, or of the job it stands for.")],
    namespace: InNamespace = "default",
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Tell the story of one workload: what happened, where it is, and what it waits for.

    \b
    Examples:
      multikueue workloads show -n team-a my-job
      multikueue workloads show job-my-job-6a1f2 -o yaml
    """
    items = run_async(lambda: _fetch(Target(kubeconfig, context), namespace))
    item, workload = pick(items, name, namespace)
    if output in (Format.JSON, Format.YAML):
        print_document(item, output)
    elif output is Format.NAME:
        print(f"workload.kueue.x-k8s.io/{workload.metadata.name}")
    else:
        _tell(workload)


async def _fetch(target: Target, namespace: str) -> list[tuple[dict[str, Any], Workload]]:
    from multikueue.api.kinds import WORKLOADS
    from multikueue.api.meta import decoder, encode

    async with target.connect() as client:
        items = await fetch(client, WORKLOADS, namespace=namespace)
    decode = decoder(WORKLOADS.type)
    return [(item, decode(encode(item))) for item in items]


def pick(items: list[tuple[dict[str, Any], Workload]], name: str, namespace: str) -> tuple[dict[str, Any], Workload]:
    """The workload of that name, or the only one whose job has it."""
    exact = [pair for pair in items if pair[1].metadata.name == name]
    owned = [pair for pair in items if any(owner.name == name for owner in pair[1].metadata.owner_references)]
    found = exact or owned
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(workload.metadata.name for _, workload in found)
        raise CommandFailed(f"several workloads in namespace {namespace} belong to {name!r}: choose one of {names}")
    raise CommandFailed(
        f"there is no workload {name!r} in namespace {namespace}, and no workload of a job with that name;"
        f" {_known([workload.metadata.name for _, workload in items])}"
    )


def _known(names: list[str], most: int = 10) -> str:
    if not names:
        return "there are none at all (another namespace: -n)"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"there are: {', '.join(sorted(names)[:most])}{more}"


def _queue(workload: Workload) -> str:
    from multikueue.api.workload import workload_spec

    return workload_spec(workload).queue_name


def _row(workload: Workload, moment: datetime) -> tuple[str, ...]:
    from multikueue.api.workload import workload_spec
    from multikueue.cli import story

    spec, meta, status = workload_spec(workload), workload.metadata, workload.status
    return (
        meta.namespace,
        meta.name,
        spec.queue_name,
        str(spec.priority),
        story.status(workload),
        status.cluster_name or "",
        age(meta.creation_timestamp, moment),
        story.owner(workload),
        ",".join(status.nominated_cluster_names),
        story.attempt(workload),
        story.reason(workload),
    )


def _tell(workload: Workload) -> None:
    from multikueue.cli import story

    print_facts(f"Workload {workload.key}", story.facts(workload))
    heading("Story")
    for event in story.events(workload):
        print(f"  {event}")
    heading("Now")
    print(f"  {story.now(workload)}")
    if not workload.status.conditions:
        note("No controller has looked at it yet: is the manager running?")
