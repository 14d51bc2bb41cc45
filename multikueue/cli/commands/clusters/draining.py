"""`multikueue clusters drain`: workers get no new workloads, and give up those they have, by a policy and until a deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, Yes, now, run_async
from multikueue.cli.commands.clusters.cordoning import annotate, mark
from multikueue.cli.commands.clusters.sides import MeantClusters
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note, say, since
from multikueue.cli.terminal.progress import AT_ONCE, conclude, each, estimate, spinner

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.errors import MultiKueueError
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["RunningPolicy", "drain", "drain_intent", "drain_now"]

WITHDRAWN_WITHIN = timedelta(seconds=10)
"""The time of the manager to take back copies that wait on a worker once it is cordoned, before they are queued again."""

LOOK_EVERY = timedelta(seconds=5)
"""Each look lists all workloads."""


class RunningPolicy(StrEnum):
    """What becomes of what runs on a worker that is drained."""

    REQUEUE = "requeue"
    WAIT = "wait"
    SIGNAL = "signal"


@dataclass(frozen=True)
class DrainPolicy:
    """The options that say what becomes of what runs, and when."""

    running: Annotated[
        RunningPolicy,
        typer.Option(
            help="What to do with what runs there. requeue: stop it, and it queues again. wait: let it run to its end."
            " signal: tell its pods when their time is over; what is left then queues again."
        ),
    ] = RunningPolicy.REQUEUE
    timeout: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="How long the command waits, or the pods have; needed for signal. (default: without end)",
            show_default=False,
        ),
    ] = None
    parallel: Annotated[int, typer.Option(min=1, help="How many are stopped at a time.")] = AT_ONCE


@bundled
def drain(
    *,
    meant: MeantClusters,
    policy: DrainPolicy,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
    manager: ManagerOptions,
) -> None:
    """Cordon workers, and move what runs there elsewhere.

    What waits there is withdrawn. What runs there is stopped and queues again, and loses what it has not saved; with
    --running it runs to its end, or its pods are asked to end. Ends with 1 if something is still there after --timeout. The
    manager moves the jobs of a worker that is not connected after dispatch.worker_lost_timeout.

    With --running signal each pod gets the annotation multikueue.dev/drain-at with the time, which it may read by the downward
    API. That needs the right to patch pods there, by your context with the name of the worker.

    \b
    Examples:
      multikueue clusters drain worker-1 --dry-run
      multikueue clusters drain worker-1 worker-2 --yes
      multikueue clusters drain -l zone=eu --running wait --timeout 8h
      multikueue clusters drain worker-1 --running signal --timeout 15m --parallel 3
    """
    meant.refuse_unclear()
    if policy.running is RunningPolicy.SIGNAL and policy.timeout is None:
        raise typer.BadParameter("--running signal takes a --timeout: the time that the pods have")
    run_async(lambda: _drain(manager.target, meant, policy, is_confirmed=yes, dry_run=dry_run))


async def _drain(
    target: ContextChoice, meant: MeantClusters, policy: DrainPolicy, *, is_confirmed: bool, dry_run: bool
) -> None:
    """Those that cannot be drained are left as they are: nothing there could be stopped."""
    async with target.connect() as client:
        async with spinner("looking for workloads"):
            found, failures = await meant.find(client, should_read_secrets=False)
            workers = [one for one in found if one.is_connected]
            running, waiting = _there([one.name for one in workers], await _workloads(client) if workers else [])
        for name in (one.name for one in found if not one.is_connected):
            why = f"{name} is not connected: `multikueue clusters cordon {name}` keeps new work away"
            failures.append(CommandFailed(why))
        for name, workloads in running.items():
            note(_intent(name, workloads, len(waiting[name]), policy) + (" (dry run)" if dry_run else ""))
        if dry_run:
            return conclude("would be drained", len(workers), failures)
        if any(running.values()) and not is_confirmed and policy.running is not RunningPolicy.WAIT:
            typer.confirm("Go on?", abort=True, err=True)
        cordoned, refused = await annotate(client, workers, is_cordoned=True)
        failures += refused
        there = {one.name: running[one.name] for one in cordoned}
        drained, problems = await _empty(client, target, there, policy)
    return conclude("drained", len(drained), [*failures, *problems])


def _intent(name: str, workloads: Sequence[Workload], waiting: int, policy: DrainPolicy) -> str:
    """What is done, in one sentence or two."""
    jobs = ", ".join(str(one.key) for one in workloads) or "nothing"
    time = since(policy.timeout) if policy.timeout is not None else ""
    does = {
        RunningPolicy.REQUEUE: f"stops what runs there and queues it again: {jobs}",
        RunningPolicy.WAIT: f"waits{f' {time} at most' if time else ''} for the end of what runs there: {jobs}",
        RunningPolicy.SIGNAL: f"tells what runs there that it has {time}, and queues again what is left then: {jobs}",
    }[policy.running]
    return f"Cordons {name}, and {does}.{f' Withdraws {waiting} that wait there.' if waiting else ''}"


async def _workloads(client: ClusterClient) -> list[Workload]:
    """Those that are not over, of all namespaces."""
    from multikueue.api.kueue.workload import FINISHED
    from multikueue.cli.workload.lookup import fetch_workloads

    return [each for _, each in await fetch_workloads(client, "") if not each.has(FINISHED)]


def _there(
    names: Sequence[str], workloads: Sequence[Workload]
) -> tuple[dict[str, list[Workload]], dict[str, list[Workload]]]:
    """What runs on each of the workers, and what waits there."""
    running = {name: [each for each in workloads if each.status.cluster_name == name] for name in names}
    waiting = {
        name: [
            each for each in workloads if not each.status.cluster_name and name in each.status.nominated_cluster_names
        ]
        for name in names
    }
    return running, waiting


async def drain_intent(client: ClusterClient, name: str) -> str:
    """What `drain_now` does to a worker as it is now, as the command announces it. Raises ApiError and ClusterUnreachable."""
    running, waiting = _there([name], await _workloads(client))
    return _intent(name, running[name], len(waiting[name]), DrainPolicy())


async def drain_now(client: ClusterClient, name: str) -> None:
    """Cordon a worker and queue again what is there, as the command does without options. Raises CommandFailed if something
    is left, ApiError and ClusterUnreachable; Forbidden also without the right to list workloads of all namespaces."""
    running, _ = _there([name], await _workloads(client))
    await mark(client, name, is_cordoned=True)
    _, failures = await _empty(client, ContextChoice(kubeconfig=None, context=None), running, DrainPolicy())
    if failures:
        raise failures[0]


async def _empty(
    client: ClusterClient, target: ContextChoice, running: Mapping[str, Sequence[Workload]], policy: DrainPolicy
) -> tuple[list[str], list[MultiKueueError]]:
    """Have these cordoned workers lose what is there: the names of those on which nothing is left, and what failed."""
    until = now() + policy.timeout if policy.timeout is not None else None
    untold: dict[str, MultiKueueError] = {}
    if policy.running is RunningPolicy.SIGNAL and until is not None:
        untold = await _signal(client, target, running, until)
    names = [name for name in running if name not in untold]
    await _withdraw(client, names)
    if policy.running is not RunningPolicy.REQUEUE:
        await _until_over(client, {name: running[name] for name in names}, until)
    if policy.running is not RunningPolicy.WAIT:
        await _requeue(client, names, policy, until)
    left, _ = _there(names, await _workloads(client) if names else [])
    failures = list(untold.values())
    for name in names:
        if left[name]:
            number = max(len(running[name]), len(left[name]))
            failures.append(CommandFailed(f"{len(left[name])} of {number} workloads are still on {name}"))
        else:
            say(f"{name} drained")
    return [name for name in names if not left[name]], failures


async def _signal(
    client: ClusterClient, target: ContextChoice, running: Mapping[str, Sequence[Workload]], until: datetime
) -> dict[str, MultiKueueError]:
    """Annotate the pods there with the end of their time. Returns the workers where that failed, and why."""
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.errors import MultiKueueError
    from multikueue.kube.relatives import tell_pods

    remedy = "have a context {0!r} in your kubeconfig that may"
    access = WorkerAccess(manager=target, rights="list and patch pods", remedy=remedy)
    untold: dict[str, MultiKueueError] = {}

    async def tell(name: str) -> None:
        try:
            async with access.connect(client, name) as worker:
                for workload in running[name]:
                    number = await tell_pods(worker.client, workload, until)
                    say(f"{workload.key}: {number} pods told")
        except MultiKueueError as error:
            untold[name] = error

    await each("telling pods on", [name for name in running if running[name]], tell)
    return untold


async def _withdraw(client: ClusterClient, names: Sequence[str]) -> None:
    """Wait until the manager has taken back the copies that wait there; those that it leaves are queued again."""
    import anyio

    started = now()
    while True:
        _, waiting = _there(names, await _workloads(client) if names else [])
        there = {each.key: each for one in waiting.values() for each in one}
        if not there:
            return
        if now() - started >= WITHDRAWN_WITHIN:
            break
        await anyio.sleep(LOOK_EVERY.total_seconds())
    await _requeue_all(client, "withdrawing", [*there.values()], "withdrawn", at_once=AT_ONCE, until=None)


async def _until_over(client: ClusterClient, seen: Mapping[str, Sequence[Workload]], until: datetime | None) -> None:
    """Wait for the end of what runs there, or for the deadline. `seen`: what ran there before."""
    import anyio

    started, names = now(), [*seen]
    left = {each.key: name for name, workloads in seen.items() for each in workloads}
    first = dict(left)

    def shown() -> str:
        over, seconds = len(first) - len(left), (now() - started).total_seconds()
        return f"waiting for what runs there ({over} of {len(first)}{estimate(over, len(first), seconds)})"

    async with spinner(shown):
        while True:
            running, _ = _there(names, await _workloads(client) if names else [])
            there = {each.key: name for name, workloads in running.items() for each in workloads}
            first.update(there)
            for key, name in left.items():
                if key not in there:
                    say(f"{key} is not on {name} any more")
            left = there
            if not left or (until is not None and now() >= until):
                return
            pause = LOOK_EVERY if until is None else min(LOOK_EVERY, until - now())
            await anyio.sleep(max(0.0, pause.total_seconds()))


async def _requeue(client: ClusterClient, names: Sequence[str], policy: DrainPolicy, until: datetime | None) -> None:
    """Queue again what runs there."""
    running, _ = _there(names, await _workloads(client) if names else [])
    latest = until if policy.running is RunningPolicy.REQUEUE else None
    workloads = [each for name in names for each in running[name]]
    doing = f"draining {names[0] if len(names) == 1 else f'{len(names)} workers'}"
    await _requeue_all(client, doing, workloads, "requeued", at_once=policy.parallel, until=latest)


async def _requeue_all(
    client: ClusterClient, doing: str, workloads: Sequence[Workload], done: str, *, at_once: int, until: datetime | None
) -> None:
    """Queue workloads again, so many at a time, and none after the deadline. Why one stays is noted."""
    from multikueue.cli.workload import activation

    async def requeue(workload: Workload) -> None:
        if until is not None and now() >= until:
            raise CommandFailed(f"{workload.key} is left: the time is over")
        await activation.requeue(client, workload)
        say(f"{workload.key} {done}")

    _, problems = await each(doing, workloads, requeue, at_once=at_once)
    for problem in problems:
        note(str(problem))
