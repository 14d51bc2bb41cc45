"""`multikueue workloads`: where they are, what they wait for, and commands that change that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, SettingsFile, now, run_async
from multikueue.cli.access.groups import group
from multikueue.cli.access.worker_access import SecretsNamespace, WorkerAccess, WorkerContext, WorkerKubeconfig
from multikueue.cli.commands.workloads import actions, events, pods
from multikueue.cli.commands.workloads.listing import list_workloads
from multikueue.cli.commands.workloads.logs import logs
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.output import (
    Column,
    heading,
    note_unseen,
    print_answer,
    print_document,
    print_facts,
    print_table,
)
from multikueue.cli.workload.lookup import InNamespace, Named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multikueue.answers.answer import JobAnswer
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.commands.workloads.cluster_view import ClusterView
    from multikueue.cli.workload.session import WorkloadSession

__all__ = ["app"]

app = group("workloads", "List jobs and their workloads, and act on them.")

CLUSTERS = (
    Column("CLUSTER"),
    Column("ROLE"),
    Column("COPY"),
    Column("JOB"),
    Column("PODS"),
    Column("MESSAGE"),
)

LATEST = 10
"""Maximum events on one screen; the command `events` shows all."""


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
    """Show everything about one workload.

    First the answer of `multikueue why`: its state, what stands in the way, what helps. Then what happened, and where it is.
    Its copies, its job and its pods are looked up on the clusters. What you cannot see there is said so, and is no error.
    With -o json or yaml: the Workload of the manager, and the answer under `answer`.

    \b
    Examples:
      multikueue workloads show -n team-a my-job
      multikueue workloads show jobset/train -o wide
      multikueue workloads show job-my-job-6a1f2 -o yaml
    """
    reach = WorkerAccess(
        manager=ContextChoice(kubeconfig, context),
        namespace=secrets_namespace,
        context=worker_context,
        kubeconfig=worker_kubeconfig,
    )
    run_async(lambda: _show(name, namespace, reach, output))


app.command("list")(list_workloads)
app.command("pods")(pods.pods)
for _action in (actions.cancel, actions.hold, actions.release, actions.requeue, actions.move):
    app.command(_action.__name__)(_action)
app.command("logs")(logs)
app.command("events")(events.events)


async def _show(named: str, namespace: str | None, reach: WorkerAccess, output: Form) -> None:
    from multikueue.cli.workload.session import WithoutWorkload, open_workload

    try:
        async with open_workload(named, namespace, reach) as session:
            await _show_workload(session, output)
    except WithoutWorkload as alone:
        told = alone.answer
        if is_document(output):
            print_document({"answer": told.document()}, output)
        else:
            print(told.job) if output is Format.NAME else print_answer(told)


async def _show_workload(session: WorkloadSession, output: Form) -> None:
    from multikueue.cli.commands.workloads.cluster_view import look_around
    from multikueue.cli.workload.seen import job_names

    workload, names = session.workload, job_names(session.mine)
    if is_document(output):
        print_document({**session.item, "answer": (await session.answer()).document()}, output)
    elif output is Format.NAME:
        print(f"workload.kueue.x-k8s.io/{workload.metadata.name}")
    else:
        told, views = await session.answer(), await look_around(session)
        seen = await events.at_home(session)
        _print_workload(workload, told, names)
        _print_where(views, output)
        _print_events([*seen, *(each for view in views for each in view.told)], names, output)


def _print_workload(workload: Workload, told: JobAnswer, names: Mapping[str, str]) -> None:
    from multikueue.answers.past import with_names
    from multikueue.cli.workload.history import facts, history

    print_answer(told)
    print()
    print_facts(f"Workload {workload.key}", facts(workload))
    heading("Story")
    for event in history(workload):
        print(f"  {with_names(str(event), names)}")
    note_unseen(told)


def _print_where(views: list[ClusterView], output: Form) -> None:
    if not views:
        return
    _section("Clusters")
    print_table(CLUSTERS, [view.row() for view in views], output)
    moment = now()
    rows = [pods.row(pod, view.cluster, moment) for view in views for pod in view.pods]
    if rows:
        _section("Pods")
        print_table(pods.COLUMNS, rows, output)


def _print_events(told: list[events.LocatedEvent], names: Mapping[str, str], output: Form) -> None:
    from multikueue.answers.past import with_names

    latest, moment = events.in_order(told)[-LATEST:], now()
    if latest:
        _section("Latest events" if len(told) > LATEST else "Events")
        rows = (events.row(each.event, each.cluster, moment) for each in latest)
        print_table(events.COLUMNS, [tuple(with_names(text, names) for text in row) for row in rows], output)


def _section(title: str) -> None:
    print()
    heading(title)
