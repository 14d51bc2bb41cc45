"""`multikueue workloads pods`: the pods of a job on the cluster where it runs, as `kubectl get pods` shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import (
    ManagerOptions,
    now,
    run_async,
)
from multikueue.cli.access.worker_access import (
    WorkerAccess,
    WorkerOptions,
)
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.output import Column, PrintedList, Ticker, age, note, print_items
from multikueue.cli.workload.lookup import InNamespace, Named

if TYPE_CHECKING:
    from multikueue.api.kubernetes.printed import ContainerStatus, PrintedPod
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.workload.view import WorkloadView

__all__ = ["COLUMNS", "no_pods", "pods", "row"]

COLUMNS = (
    Column("NAME"),
    Column("READY"),
    Column("STATUS"),
    Column("RESTARTS"),
    Column("AGE"),
    Column("CLUSTER"),
    Column("IP", is_wide=True),
    Column("NODE", is_wide=True),
    Column("POD SET", is_wide=True),
)

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on and show each change, also on the next cluster.")]


@bundled
def pods(
    name: Named,
    namespace: InNamespace = None,
    watch: Watch = False,
    output: Output = Format.TABLE,
    *,
    workers: WorkerOptions,
    manager: ManagerOptions,
) -> None:
    """List the pods of a job, wherever it runs.

    \b
    Examples:
      multikueue workloads pods -n team-a my-job
      multikueue workloads pods jobset/train -o wide -w
    """
    if watch and is_document(output):
        raise typer.BadParameter("--watch shows a table: choose table, wide or name")
    reach = workers.access(manager.target)
    run_async(lambda: _watch(name, namespace, reach, output) if watch else _list(name, namespace, reach, output))


async def _list(named: str, namespace: str | None, reach: WorkerAccess, output: Form) -> None:
    from multikueue.cli.workload.session import open_workload

    async with open_workload(named, namespace, reach) as session, session.winner() as view:
        found = await view.pods()
    moment = now()
    listing = PrintedList(
        columns=COLUMNS,
        rows=[row(pod, view.cluster, moment) for _, pod in found],
        items=[item for item, _ in found],
        resource="pod",
        nothing=no_pods(session.workload, view.unseen),
    )
    print_items(listing, output)
    for text in view.unseen if found else ():
        note(f"There may be more: {text}")


async def _watch(named: str, namespace: str | None, reach: WorkerAccess, output: Form) -> None:
    from multikueue.cli.workload.session import open_workload

    async with open_workload(named, namespace, reach) as session:
        workload = await session.stay(_Show(output))
    note(no_pods(workload))


class _Show:
    """Shows each change of the pods as a row."""

    def __init__(self, output: Form) -> None:
        self._output, self._ticker = output, Ticker(COLUMNS, output)

    async def play(self, view: WorkloadView, /) -> None:
        async def take(pod: PrintedPod, is_gone: bool) -> None:
            self._print(pod, view.cluster, is_gone=is_gone)

        await view.follow_pods(take, self._ticker.flush)

    async def drain(self) -> None:
        """No wait: changes after the end of the job do not matter."""

    def _print(self, pod: PrintedPod, cluster: str, *, is_gone: bool) -> None:
        if self._output is Format.NAME:
            print(f"pod/{pod.metadata.name}", flush=True)
        else:
            self._ticker.add(row(pod, cluster, now(), is_gone=is_gone))


def no_pods(workload: Workload, unseen: Sequence[str] = ()) -> str:
    """The message where there are no pods, or no longer any; `unseen` says why some may be missing."""
    from multikueue.answers.seen import typed_name
    from multikueue.api.kueue.workload import FINISHED
    from multikueue.api.meta import render_time
    from multikueue.cli.workload.session import ended
    from multikueue.workload.decision_rules import COPY_RETENTION

    finished = workload.condition(FINISHED)
    if workload.has(FINISHED) and finished is not None:
        end, what = finished.last_transition_time, typed_name(workload)
        at = f" It ended at {render_time(end)}." if end else ""
        return (
            f"{ended(workload)}{at} {_gone(workload, now())} To keep them for longer next time, before it ends: "
            f"kubectl annotate -n {workload.key.namespace} {what} {COPY_RETENTION}=12h"
        )
    reasons = f" ({'; '.join(unseen)})" if unseen else ""
    return f"No pods of workload {workload.key} found on {workload.status.cluster_name}{reasons}."


def _gone(workload: Workload, moment: datetime) -> str:
    """Since when the pods of a finished workload are gone, and their logs with them."""
    from multikueue.api.kueue.workload import logs_until
    from multikueue.api.meta import render_time

    until = logs_until(workload)
    if until is None:
        return "Its pods are gone from the cluster since then, and their logs with them."
    if until <= moment:
        return f"Its pods are gone from the cluster since {render_time(until)}, and their logs with them."
    return (
        f"Its pods were to stay until {render_time(until)}, and are gone, with their logs: the cluster itself removed them, or "
        "others that ended later have their place (setting retention.most_copies)."
    )


# --- a pod in words --------------------------------------------------------------------------------------------------


def row(pod: PrintedPod, cluster: str, moment: datetime, *, is_gone: bool = False) -> tuple[str, ...]:
    """One pod as a row of `COLUMNS`."""
    from multikueue.api.kubernetes.printed import POD_SET_LABEL

    statuses = pod.status.container_statuses
    ready = sum(each.ready for each in statuses)
    restarts = sum(each.restart_count for each in statuses)
    return (
        pod.metadata.name,
        f"{ready}/{len(pod.spec.containers)}",
        "Gone" if is_gone else status(pod),
        str(restarts),
        age(pod.metadata.creation_timestamp, moment),
        cluster,
        pod.status.pod_ip,
        pod.spec.node_name,
        pod.metadata.labels.get(POD_SET_LABEL, ""),
    )


def status(pod: PrintedPod) -> str:
    """The state in one word, as in kubectl: the reason of a container that does not run says more than the phase."""
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    starting = [_trouble(each) for each in pod.status.init_container_statuses if _is_holding_up(each)]
    if starting:
        return f"Init:{starting[0]}" if starting[0] else "Init"
    troubles = [trouble for each in pod.status.container_statuses if (trouble := _trouble(each))]
    runs = any(each.state.running for each in pod.status.container_statuses)
    if troubles and not (runs and set(troubles) == {"Completed"}):
        return troubles[-1]
    return pod.status.reason or pod.status.phase or "Unknown"


def _is_holding_up(container: ContainerStatus) -> bool:
    """Whether the pod waits for this container that runs before the others."""
    ended = container.state.terminated
    return not (ended and ended.exit_code == 0) and not (container.state.running and container.ready)


def _trouble(container: ContainerStatus) -> str:
    """The reason why the container does not run; empty while it runs."""
    waiting, ended = container.state.waiting, container.state.terminated
    if waiting is not None:
        return waiting.reason
    if ended is None:
        return ""
    return ended.reason or (f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}")
