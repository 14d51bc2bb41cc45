"""`multikueue workloads list`: many workloads, each as a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from multikueue.cli.access.completion import clusters, queues, workloads
from multikueue.cli.access.connection import (
    ContextChoice,
    ManagerOptions,
    fetch_pairs,
    now,
    run_async,
)
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Form, Format, NoHeaders, Output, SortBy, is_document
from multikueue.cli.terminal.nearest import there_are
from multikueue.cli.terminal.output import Column, PrintedList, Ticker, age, note, print_items
from multikueue.cli.workload.lookup import InNamespace, Pair, named, names, refuse_unknown

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.workload.refusals import RefusedJob
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["Selection", "list_workloads", "watch_workloads"]

NAMESPACE = Column("NAMESPACE")

COLUMNS = (
    Column("NAME"),
    Column("JOB"),
    Column("QUEUE"),
    Column("STATUS"),
    Column("CLUSTER"),
    Column("AGE"),
    Column("PRIORITY", is_wide=True),
    Column("NOMINATED", is_wide=True),
    Column("ATTEMPT", is_wide=True),
    Column("MESSAGE", is_wide=True),
)
"""A column for the namespace stands before these if there are several. Six fit on a screen of 80 characters."""

Test = Callable[["Workload"], bool]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of workloads: by name, queue, state and cluster."""

    names: tuple[str, ...]
    queue: str
    status: str
    cluster: str

    def is_selected(self, workload: Workload) -> bool:
        """Whether the workload passes; `of` tests the names, since an unknown name is an error."""
        from multikueue.api.kueue.workload import workload_spec
        from multikueue.cli.workload import description

        state = workload.status
        return (
            self.queue in ("", workload_spec(workload).queue_name)
            and self.status.lower() in ("", description.status(workload).lower())
            and self.cluster in ("", state.cluster_name, *state.nominated_cluster_names)
        )

    def of(self, pairs: list[Pair], where: str) -> list[Pair]:
        """The selected pairs. Raises CommandFailed for a name that no workload or job has."""
        for name in self.names:
            if not named(pairs, name):
                what = f"in namespace {where}" if where else "at all"
                raise CommandFailed(f"there is no workload or job {name!r} {what}; {there_are(name, names(pairs))}")
        chosen = {id(pair) for name in self.names for pair in named(pairs, name)}
        return [pair for pair in pairs if (not self.names or id(pair) in chosen) and self.is_selected(pair[1])]


def _status(text: str) -> str:
    from multikueue.cli.workload import description

    if text and text.lower() not in map(str.lower, description.STATES):
        raise typer.BadParameter(f"there is no status {text!r}; {there_are(text, description.STATES)}")
    return text


def _states() -> list[str]:
    from multikueue.cli.workload import description

    return list(description.STATES)


@dataclass(frozen=True)
class SelectionOptions:
    """The options that say which workloads are meant."""

    selector: Annotated[
        str, typer.Option("--selector", "-l", help="Only those with these labels.", show_default=False)
    ] = ""
    queue: Annotated[
        str,
        typer.Option("--queue", "-q", help="Only those of this LocalQueue.", show_default=False, autocompletion=queues),
    ] = ""
    status: Annotated[
        str,
        typer.Option(
            help="Only those in this state, such as Pending, Admitted or Failed.",
            show_default=False,
            callback=_status,
            autocompletion=_states,
        ),
    ] = ""
    cluster: Annotated[
        str,
        typer.Option(help="Only those that are on this cluster or may get there.", autocompletion=clusters),
    ] = ""

    def of(self, names: tuple[str, ...]) -> Selection:
        return Selection(names=names, queue=self.queue, status=self.status, cluster=self.cluster)


@bundled
def list_workloads(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[[KIND/]NAME]...",
            help="Names of jobs or workloads. (default: all)",
            show_default=False,
            autocompletion=workloads,
        ),
    ] = None,
    namespace: InNamespace = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    *,
    wanted: SelectionOptions,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show each change.")] = False,
    output: Output = Format.TABLE,
    sort_by: SortBy = "",
    no_headers: NoHeaders = False,
    manager: ManagerOptions,
) -> None:
    """List workloads with their state and their cluster.

    \b
    Examples:
      multikueue workloads list -n team-a
      multikueue workloads list -A -q main -o wide
      multikueue workloads list --status Pending --sort-by .metadata.creationTimestamp
      multikueue workloads list -l team=vision -w
    """
    if watch and is_document(output):
        raise typer.BadParameter("--watch shows rows: choose table, wide or name")
    target = manager.target
    selector, choice = wanted.selector, wanted.of(tuple(named or ()))
    if watch:
        run_async(
            lambda: watch_workloads(
                target, "" if all_namespaces else namespace, selector, choice, output, not no_headers
            )
        )
        return
    where, pairs, refused = run_async(lambda: _fetch(target, namespace, selector, choice, is_everywhere=all_namespaces))
    for job in refused:
        if not choice.names or any(map(job.is_named, choice.names)):
            note(str(job))
    if choice.names and refused:
        without = {name for name in choice.names if any(job.is_named(name) for job in refused)}
        choice = msgspec.structs.replace(choice, names=tuple(name for name in choice.names if name not in without))
        pairs = pairs if choice.names else []
    found, moment = choice.of(pairs, where), now()
    print_items(
        PrintedList(
            columns=_columns(where),
            rows=[_row(workload, where, moment) for _, workload in found],
            items=[item for item, _ in found],
            resource="workload.kueue.x-k8s.io",
            nothing=f"No workloads found in namespace {where}." if where else "No workloads found.",
        ),
        output,
        sort_by=sort_by,
        has_headers=not no_headers,
    )


async def _fetch(
    target: ContextChoice, namespace: str | None, selector: str, choice: Selection, *, is_everywhere: bool
) -> tuple[str, list[Pair], list[RefusedJob]]:
    """The namespace in effect, empty for all, its workloads, and its jobs that have none since it is refused."""
    from multikueue.api.kinds import WORKLOADS
    from multikueue.cli.workload.refusals import fetch_refused_jobs

    async with target.connect_in(namespace) as (client, meant):
        where = "" if is_everywhere else meant
        params = {"labelSelector": selector} if selector else None
        pairs = await fetch_pairs(client, WORKLOADS, namespace=where, params=params)
        if not any(choice.is_selected(workload) for _, workload in pairs):
            await _refuse_unknown(client, choice, where)
        refused = [] if selector else await fetch_refused_jobs(client, where, (workload for _, workload in pairs))
        return where, pairs, refused


async def _refuse_unknown(client: ClusterClient, choice: Selection, where: str) -> None:
    """Raises CommandFailed for a filter by a queue or a cluster that does not exist: nothing passes it."""
    from multikueue.api.kinds import LOCAL_QUEUES, MULTIKUEUE_CLUSTERS

    if choice.queue:
        await refuse_unknown(client, LOCAL_QUEUES, choice.queue, where)
    if choice.cluster:
        await refuse_unknown(client, MULTIKUEUE_CLUSTERS, choice.cluster)


async def watch_workloads(
    target: ContextChoice, namespace: str | None, selector: str, choice: Selection, output: Form, has_headers: bool
) -> None:
    """Prints the workloads, then each change; a workload that leaves the selection is shown once more."""
    from multikueue.api.kinds import WORKLOADS
    from multikueue.cli.access.following import follow

    async with target.connect_in(namespace) as (client, meant):
        where = "" if namespace == "" else meant
        await _refuse_unknown(client, choice, where)
        ticker, shown = Ticker(_columns(where), output, headers=has_headers), set[str]()

        async def take(workload: Workload, is_gone: bool) -> None:
            uid = workload.metadata.uid
            pair: Pair = ({}, workload)
            mine = choice.is_selected(workload) and (
                not choice.names or any(named([pair], each) for each in choice.names)
            )
            if not mine and uid not in shown:
                return
            shown.add(uid) if mine and not is_gone else shown.discard(uid)
            if output is Format.NAME:
                print(f"workload.kueue.x-k8s.io/{workload.metadata.name}", flush=True)
            else:
                ticker.add(_row(workload, where, now(), is_gone=is_gone))

        await follow(client, WORKLOADS, where, take, selector=selector, rest=ticker.flush)


def _columns(where: str) -> tuple[Column, ...]:
    return COLUMNS if where else (NAMESPACE, *COLUMNS)


def _row(workload: Workload, where: str, moment: datetime, *, is_gone: bool = False) -> tuple[str, ...]:
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload import description

    spec, meta, status = workload_spec(workload), workload.metadata, workload.status
    return (
        *(() if where else (meta.namespace,)),
        meta.name,
        description.owner(workload),
        spec.queue_name,
        "Gone" if is_gone else description.status(workload),
        status.cluster_name or "",
        age(meta.creation_timestamp, moment),
        str(spec.priority),
        ",".join(status.nominated_cluster_names),
        description.attempt(workload),
        description.reason(workload),
    )
