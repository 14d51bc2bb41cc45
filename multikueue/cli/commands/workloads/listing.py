"""`multikueue workloads list`: many jobs, each as a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.access.completion import workloads
from multikueue.cli.access.connection import ContextChoice, ManagerOptions, now, run_async
from multikueue.cli.commands.workloads.rows import Selection, SelectionOptions, columns, refuse_unknown_filters, row
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Format, NoHeaders, Output, SortBy, is_document
from multikueue.cli.terminal.output import Column, PrintedList, print_items
from multikueue.cli.workload.expected_starts import UNKNOWN, HistoryPlace, Starts, expected_starts, sentence
from multikueue.cli.workload.lookup import InNamespace

if TYPE_CHECKING:
    from multikueue.cli.workload.overview import ListedJob, Overview

__all__ = ["list_workloads"]

START = Column("START")


@dataclass(frozen=True)
class RowOptions:
    """The options that say how rows are shown, and what more they have."""

    sort_by: SortBy = ""
    no_headers: NoHeaders = False
    history: HistoryPlace = None


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
    rows: RowOptions,
    manager: ManagerOptions,
) -> None:
    """List jobs with their state, their place and the reason.

    \b
    STATUS is Pending, Starting, Running, Finished, Failed, Held or Unknown: Running once a pod is ready, Unknown while the
    worker of the job does not answer. POSITION counts the workloads that wait for the same ClusterQueue.

    REASON is a code (docs/why.md) from the manager cluster alone: `multikueue why` also looks at workers, pods and who has
    the quota. With --history START says how long those that wait for quota go on waiting in four of five cases, or that
    this is unknown.

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
        run_async(lambda: watch_jobs(target, within, choice, output, has_headers=not rows.no_headers))
        return
    found, starts = run_async(lambda: _fetch(target, namespace, choice, rows.history, is_everywhere=all_namespaces))
    chosen, moment = choice.of(found.listed(), found.where), now()
    print_items(
        PrintedList(
            columns=(*columns(found.where), *((START,) if starts else ())),
            rows=[(*row(job, found.where, moment), *_start(job, starts, moment)) for job in chosen],
            items=[_document(job, starts) for job in chosen],
            resource="",
            nothing=f"No jobs found in namespace {found.where}." if found.where else "No jobs found.",
        ),
        output,
        sort_by=rows.sort_by,
        has_headers=not rows.no_headers,
    )


def _start(job: ListedJob, starts: Starts | str, moment: datetime) -> tuple[str, ...]:
    from multikueue.api.kueue.workload import waits_for_quota

    if not starts:
        return ()
    if job.workload is None or not waits_for_quota(job.workload):
        return ("",)
    found = None if isinstance(starts, str) else starts.get(job.workload.key)
    return (found.within(moment) if found is not None else UNKNOWN,)


def _document(job: ListedJob, starts: Starts | str) -> dict[str, Any]:
    from multikueue.api.kueue.workload import waits_for_quota

    full = job.document()
    if starts and job.workload is not None and waits_for_quota(job.workload):
        full["answer"]["start"] = sentence(starts, job.workload.key)
    return full


async def _fetch(
    target: ContextChoice, namespace: str | None, choice: Selection, history: str | None, *, is_everywhere: bool
) -> tuple[Overview, Starts | str]:
    from multikueue.cli.workload.overview import look_over

    async with target.connect_in(namespace) as (client, meant):
        found = await look_over(client, "" if is_everywhere else meant)
        if not any(choice.is_selected(job) for job in found.listed()):
            await refuse_unknown_filters(client, choice, found.where)
        return found, await expected_starts(client, history) if history else ""
