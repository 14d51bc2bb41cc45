"""`multikueue workloads list`: many jobs, each as a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.completion import workloads
from multikueue.cli.access.connection import ContextChoice, ManagerOptions, now, run_async
from multikueue.cli.commands.workloads.rows import Selection, SelectionOptions, columns, refuse_unknown_filters, row
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Format, NoHeaders, Output, SortBy, is_document
from multikueue.cli.terminal.output import PrintedList, print_items
from multikueue.cli.workload.lookup import InNamespace

if TYPE_CHECKING:
    from multikueue.cli.workload.overview import Overview

__all__ = ["list_workloads"]


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
    """List jobs with their state, their place and the reason.

    \b
    STATUS is Pending, Starting, Running, Finished, Failed, Held or Unknown: Running once a pod is ready, Unknown while the
    worker of the job does not answer. POSITION counts the workloads that wait for the same ClusterQueue.

    REASON is a code (docs/why.md), told by the manager cluster alone: what takes a look at workers and pods, or at who has
    the quota, is for `multikueue why`.

    \b
    Examples:
      multikueue jobs list -n team-a
      multikueue jobs list -A -q main -o wide
      multikueue jobs list --status Pending --sort-by .metadata.creationTimestamp
      multikueue jobs list -l team=vision -w
      multikueue workloads list -o custom-columns=JOB:.answer.job,WHY:.answer.summary
    """
    if watch and is_document(output):
        raise typer.BadParameter("--watch shows rows: choose table, wide or name")
    target = manager.target
    choice = wanted.of(tuple(named or ()))
    if watch:
        from multikueue.cli.commands.workloads.watching import watch_jobs

        within = "" if all_namespaces else namespace
        run_async(lambda: watch_jobs(target, within, choice, output, has_headers=not no_headers))
        return
    found = run_async(lambda: _fetch(target, namespace, choice, is_everywhere=all_namespaces))
    chosen, moment = choice.of(found.listed(), found.where), now()
    print_items(
        PrintedList(
            columns=columns(found.where),
            rows=[row(job, found.where, moment) for job in chosen],
            items=[job.document() for job in chosen],
            resource="",
            nothing=f"No jobs found in namespace {found.where}." if found.where else "No jobs found.",
        ),
        output,
        sort_by=sort_by,
        has_headers=not no_headers,
    )


async def _fetch(target: ContextChoice, namespace: str | None, choice: Selection, *, is_everywhere: bool) -> Overview:
    from multikueue.cli.workload.overview import look_over

    async with target.connect_in(namespace) as (client, meant):
        found = await look_over(client, "" if is_everywhere else meant)
        if not any(choice.is_selected(job) for job in found.listed()):
            await refuse_unknown_filters(client, choice, found.where)
        return found
