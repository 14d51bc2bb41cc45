"""Actions on jobs: cancel, hold, release, requeue, move. Each announces its effects, and asks before it stops a job.

With several jobs, one that fails keeps no other from it. All use the caller's own rights and change objects of the manager
cluster only; the manager does the rest. A job that has no Workload can be cancelled; the others say what it lacks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from multikueue.cli.access.completion import queues, workloads
from multikueue.cli.access.connection import ManagerOptions, Yes, run_async
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note
from multikueue.cli.terminal.progress import spinner
from multikueue.cli.workload.lookup import InNamespace, Pair, fetch_workloads, pick, refuse_unknown

if TYPE_CHECKING:
    from multikueue.answers.seen import Seen
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["PLANS", "JobStep", "cancel", "hold", "move", "release", "requeue"]

MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class _Meant:
    """The arguments that say which jobs are meant."""

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND/]NAME...",
            help="Names of jobs or workloads; with the kind in front (job/x, jobset/x, workload/x) if several have it.",
            show_default=False,
            autocompletion=workloads,
        ),
    ] = None
    selector: Annotated[
        str,
        typer.Option(
            "--selector",
            "-l",
            help="In place of names: all jobs with these labels, of their own or of the workload.",
            show_default=False,
        ),
    ] = ""
    namespace: InNamespace = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False


class JobStep(msgspec.Struct, frozen=True):
    """What is done to one job: its effect in words, whether a user has to agree, a word for the time that it takes, and the
    act, which answers what it has done."""

    effect: str
    doing: str
    act: Callable[[], Awaitable[str]]
    should_ask: bool = False


_Plan = Callable[["ClusterClient", "Workload"], Awaitable[JobStep | None]]
"""The step for a job, None if there is nothing to do. Raises CommandFailed for a job that it cannot be done to."""

_PlanAlone = Callable[["ClusterClient", "Seen", str], JobStep]
"""The same for a job without a Workload, given as this name."""


@bundled
def cancel(*, meant: _Meant, yes: Yes = False, manager: ManagerOptions) -> None:
    """Delete jobs, wherever they wait or run.

    \b
    Examples:
      multikueue workloads cancel -n team-a my-job
      multikueue workloads cancel jobset/train job/test --yes
      multikueue workloads cancel -l team=vision --dry-run
    """
    _carry_out(meant, manager, _cancel, is_confirmed=yes, alone=_cancel_alone)


@bundled
def hold(*, meant: _Meant, yes: Yes = False, manager: ManagerOptions) -> None:
    """Keep jobs from running until they are released.

    One that runs is stopped, and what it has not saved is lost.

    \b
    Examples:
      multikueue workloads hold -n team-a my-job
      multikueue workloads hold -n team-a -l team=vision
    """
    _carry_out(meant, manager, _hold, is_confirmed=yes)


@bundled
def release(*, meant: _Meant, manager: ManagerOptions) -> None:
    """Let held jobs queue again.

    \b
    Examples:
      multikueue workloads release -n team-a my-job other-job
    """
    _carry_out(meant, manager, _release)


@bundled
def requeue(*, meant: _Meant, yes: Yes = False, manager: ManagerOptions) -> None:
    """Stop jobs on their cluster and queue them again.

    One that waits to be queued again by its back-off queues at once.

    \b
    Examples:
      multikueue workloads requeue -n team-a my-job
    """
    _carry_out(meant, manager, _requeue, is_confirmed=yes)


@bundled
def move(
    *,
    meant: _Meant,
    queue: Annotated[
        str, typer.Option("--to", help="The LocalQueue they should wait in.", show_default=False, autocompletion=queues)
    ],
    manager: ManagerOptions,
) -> None:
    """Move waiting jobs to another queue.

    \b
    Examples:
      multikueue workloads move -n team-a my-job --to night
    """
    _carry_out(meant, manager, lambda client, workload: _move(client, workload, queue))


def _refuse_alone(_client: ClusterClient, seen: Seen, _name: str) -> JobStep:
    from multikueue.cli.workload.session import WithoutWorkload

    raise WithoutWorkload(seen)


def _carry_out(
    meant: _Meant,
    manager: ManagerOptions,
    plan: _Plan,
    *,
    is_confirmed: bool = False,
    alone: _PlanAlone = _refuse_alone,
) -> None:
    """Raises BadParameter without exactly one of names and selector."""
    if bool(meant.names) is bool(meant.selector):
        raise typer.BadParameter("expected the names of jobs, or a selector (-l) in place of them")

    async def planned(client: ClusterClient, where: str, pairs: list[Pair], name: str) -> JobStep | None:
        from multikueue.cli.workload.seen import look_without_workload

        seen = await look_without_workload(client, where, name, pairs)
        return alone(client, seen, name) if seen else await plan(client, pick(pairs, name, where)[1])

    run_async(lambda: _run(meant, manager, planned, is_confirmed=is_confirmed))


async def _run(
    meant: _Meant,
    manager: ManagerOptions,
    plan: Callable[[ClusterClient, str, list[Pair], str], Awaitable[JobStep | None]],
    *,
    is_confirmed: bool,
) -> None:
    """Announces all effects, asks once if need be, and does one after the other. Raises what failed in the end."""
    from multikueue.cli.commands.workloads.rows import with_labels
    from multikueue.errors import ApiError, MultiKueueError

    failures: list[MultiKueueError] = []
    async with manager.target.connect_in(meant.namespace) as (client, where):
        steps = list[JobStep]()
        async with spinner(f"looking for {', '.join(meant.names or ()) or meant.selector}"):
            pairs = await fetch_workloads(client, where)
            chosen = [*dict.fromkeys(meant.names or ()), *(await with_labels(client, where, meant.selector))]
            for name in chosen:
                try:
                    step = await plan(client, where, pairs, name)
                    steps += [step] if step else []
                except (CommandFailed, ApiError) as error:
                    failures.append(error)
        if not chosen:
            note(f"No workloads found in namespace {where}.")
        for step in steps:
            note(f"{step.effect}{' (dry run)' if meant.dry_run else ''}")
        if not meant.dry_run:
            if any(step.should_ask for step in steps) and not is_confirmed:
                typer.confirm("Go on?", abort=True, err=True)
            for step in steps:
                try:
                    async with spinner(step.doing):
                        done = await step.act()
                    print(done)
                except (CommandFailed, ApiError) as error:
                    failures.append(error)
    if failures:
        raise ExceptionGroup("not done", failures)


async def _cancel(client: ClusterClient, workload: Workload) -> JobStep:
    from multikueue.answers.seen import typed_name
    from multikueue.api.kueue.workload import FINISHED
    from multikueue.cli.workload.deletion import delete_job

    what = typed_name(workload)
    cluster = "" if workload.has(FINISHED) else workload.status.cluster_name
    where = f" and its copy on {cluster}" if cluster else ""

    async def act() -> str:
        await delete_job(client, workload)
        return f"{what} deleted"

    return JobStep(
        f"Deletes {what} in namespace {workload.metadata.namespace}{where}.", f"deleting {what}", act, should_ask=True
    )


def _cancel_alone(client: ClusterClient, seen: Seen, name: str) -> JobStep:
    """An object that names no queue may be no business of the manager, such as the Deployment of a web page: if it is no Job
    that waits, who means it names its kind."""
    from multikueue.answers.codes import Code
    from multikueue.cli.workload.deletion import delete_job_alone
    from multikueue.cli.workload.session import WithoutWorkload

    job, refusal = seen.job, WithoutWorkload(seen)
    assert job is not None, "it was seen"
    if refusal.answer.heaviest and refusal.answer.heaviest.code == Code.PartOfAnother.name:
        raise refusal
    waits = job.kind == "Job" and not job.ready and job.end is None
    if "/" not in name and not job.queue and not waits:
        raise CommandFailed(f"{seen.name} names no queue: to delete it all the same, name it {seen.name}")

    async def act() -> str:
        await delete_job_alone(client, job)
        return f"{seen.name} deleted"

    effect = f"Deletes {seen.name} in namespace {seen.namespace}, which has no workload."
    return JobStep(effect, f"deleting {seen.name}", act, should_ask=True)


async def _hold(client: ClusterClient, workload: Workload) -> JobStep | None:
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload.activation import activate

    _refuse_finished(workload)
    if not workload_spec(workload).active:
        note(f"{workload.key} is held already.")
        return None
    stops = _running_on(workload)
    what = f"Stops {workload.key} on {stops}; it waits" if stops else f"Keeps {workload.key} waiting"

    async def act() -> str:
        await activate(client, workload, is_active=False)
        return f"{workload.key} held"

    return JobStep(
        f"{what} until `multikueue workloads release`.", f"holding {workload.key}", act, should_ask=bool(stops)
    )


async def _release(client: ClusterClient, workload: Workload) -> JobStep | None:
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload.activation import activate

    _refuse_finished(workload)
    if workload_spec(workload).active:
        note(f"{workload.key} is not held.")
        return None

    async def act() -> str:
        await activate(client, workload, is_active=True)
        return f"{workload.key} released"

    return JobStep(f"Queues {workload.key} again.", f"releasing {workload.key}", act)


async def _requeue(client: ClusterClient, workload: Workload) -> JobStep:
    from multikueue.cli.workload import activation

    _refuse_finished(workload)
    stops = _running_on(workload)
    what = f"Stops {workload.key} on {stops} and queues it again" if stops else f"Queues {workload.key} again"

    async def act() -> str:
        await activation.requeue(client, workload)
        return f"{workload.key} requeued"

    return JobStep(f"{what}.", f"requeuing {workload.key}", act, should_ask=bool(stops))


async def _move(client: ClusterClient, workload: Workload, queue: str) -> JobStep:
    from multikueue.api.kinds import LOCAL_QUEUES
    from multikueue.api.kueue.workload import QUEUE_LABEL, QUOTA_RESERVED, any_owner_of, workload_spec
    from multikueue.cli.workload.related_objects import RelatedObjects

    _refuse_finished(workload)
    await refuse_unknown(client, LOCAL_QUEUES, queue, workload.key.namespace)
    if workload.has(QUOTA_RESERVED):
        raise CommandFailed(f"{workload.key} has quota by now: `multikueue workloads hold` it first")
    await _refuse_unreached(client, workload, queue)

    async def act() -> str:
        own = (
            {"metadata": {"labels": {QUEUE_LABEL: queue}}} if any_owner_of(workload) else {"spec": {"queueName": queue}}
        )
        path = await RelatedObjects(client, workload).path()
        await client.request("PATCH", path, body=own, content_type=MERGE)
        return f"{workload.key} moved to {queue}"

    return JobStep(
        f"Moves {workload.key} from queue {workload_spec(workload).queue_name} to {queue}.",
        f"moving {workload.key}",
        act,
    )


async def _refuse_unreached(client: ClusterClient, workload: Workload, queue: str) -> None:
    """Raises CommandFailed for a job that would run nowhere in that queue."""
    import json

    from multikueue.answers.never import never_starts
    from multikueue.answers.seen import Seen, typed_name
    from multikueue.api.kueue.queues import has_manager_as_worker
    from multikueue.api.kueue.workload import any_owner_of
    from multikueue.api.meta import ObjectKey
    from multikueue.cli.workload.related_objects import RelatedObjects
    from multikueue.cli.workload.seen import seen_job
    from multikueue.errors import Forbidden
    from multikueue.jobs.framework.nesting import is_whole
    from multikueue.jobs.integrations.frameworks import known_kind
    from multikueue.registration.preflight import routes

    owner = any_owner_of(workload)
    adapter = known_kind(owner.api_version, owner.kind) if owner else None
    if owner is None or adapter is None:
        return
    try:
        job = json.loads(await client.request("GET", await RelatedObjects(client, workload).path()))
        way = await routes(client)
    except Forbidden as error:
        note(f"Not seen: whether {workload.key} can run in queue {queue}: {error.message}")
        return
    behind = way.behind(ObjectKey(workload.key.namespace, queue))
    if behind is None:
        return
    is_dispatched = way.clusters_of(behind) is not None and not has_manager_as_worker(behind)
    if not (is_dispatched or is_whole(adapter)):
        return
    tree = {**job, "apiVersion": owner.api_version, "kind": owner.kind}
    seen = Seen(name=typed_name(workload), namespace=workload.key.namespace, job=seen_job(tree), workload=workload)
    found = never_starts(seen, queue, is_dispatched=is_dispatched)
    if found is not None:
        raise CommandFailed(f"{seen.name}: {found.text}. What helps: {found.repair}")


def _running_on(workload: Workload) -> str:
    from multikueue.api.kueue.workload import ADMITTED

    return workload.status.cluster_name or "" if workload.has(ADMITTED) else ""


def _refuse_finished(workload: Workload) -> None:
    from multikueue.api.kueue.workload import FINISHED

    if workload.has(FINISHED):
        raise CommandFailed(f"{workload.key} is finished")


PLANS: Mapping[str, _Plan] = {"cancel": _cancel, "hold": _hold, "release": _release, "requeue": _requeue}
"""The plans of the commands that take nothing but a job, for callers whose client has the rights of a person."""
