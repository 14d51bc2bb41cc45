"""`multikueue why`: the reasons why a workload waits: the manager's, else computed here from what the user may read.

One sentence on top; then the missing quota, or, for a workload without a worker, the answer of each worker; and where its pods
are others on a worker than those that are counted. What the user may not read is named, and is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from multikueue.cli.access.connection import (
    ContextChoice,
    ManagerOptions,
    run_async,
)
from multikueue.cli.access.worker_access import SecretsNamespace, WorkerAccess, WorkerContext, WorkerKubeconfig
from multikueue.cli.terminal.bundles import bundled
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
from multikueue.cli.workload.expected_starts import HistoryPlace, expected_starts, sentence
from multikueue.cli.workload.lookup import InNamespace, Named

if TYPE_CHECKING:
    from pathlib import Path

    from multikueue.cli.workload.seen import Inspection
    from multikueue.quota.visibility.explain import Explanation

__all__ = ["why"]

LACKS = (
    Column("POD SET"),
    Column("FLAVOR"),
    Column("RESOURCE"),
    Column("NEEDED"),
    Column("AVAILABLE"),
    Column("MISSING"),
    Column("PROBLEM"),
)
HOLDERS = (
    Column("FLAVOR"),
    Column("RESOURCE"),
    Column("CLUSTERQUEUE"),
    Column("WORKLOADS"),
    Column("AMOUNT"),
    Column("BORROWED"),
    Column("PATH", is_wide=True),
)
BARRIERS = (
    Column("FLAVOR"),
    Column("RESOURCE"),
    Column("CLUSTERQUEUE"),
    Column("WORKLOADS"),
    Column("AMOUNT"),
    Column("RULE"),
)
ENDINGS = (Column("WORKLOAD"), Column("CLUSTERQUEUE"), Column("AT LATEST"), Column("LEAVING"))


@bundled
def why(
    name: Named,
    namespace: InNamespace = None,
    output: Output = Format.TABLE,
    *,
    manager: ManagerOptions,
    worker_context: WorkerContext = None,
    worker_kubeconfig: WorkerKubeconfig = None,
    secrets_namespace: SecretsNamespace = "kueue-system",
    history: HistoryPlace = None,
) -> None:
    """Say why a workload waits.

    First in one sentence, then in full.

    For quota: what is lacking, who has it, which rules keep it from being taken, what has to end. For a worker: whether each
    could ever hold it, in which place it waits there, or why it is not asked. Of a worker that you may look at, also while it
    runs: where its pods are others there than those that are counted. What you may not see is said so, and is no error.
    With --history: when it starts, or that this is unknown.

    \b
    Examples:
      multikueue why -n team-a my-job
      multikueue why my-job -o yaml
    """
    target = manager.target
    reach = WorkerAccess(
        manager=target, namespace=secrets_namespace, context=worker_context, kubeconfig=worker_kubeconfig
    )
    found = run_async(lambda: _look(target, reach, namespace, name, manager.config, history))
    _print(found, output)


async def _look(
    target: ContextChoice,
    reach: WorkerAccess,
    namespace: str | None,
    name: str,
    config: Path | None,
    history: str | None,
) -> Inspection:
    from multikueue.api.kueue.workload import waits_for_quota
    from multikueue.cli.access.manager_settings import load_settings
    from multikueue.cli.workload.seen import look

    async with target.connect_in(namespace) as (client, where):
        found = await look(client, reach, where, name, load_settings(config))
        workload = found.seen.workload
        if history and workload is not None and waits_for_quota(workload):
            found.start = sentence(await expected_starts(client, history), workload.key)
        return found


def _print(found: Inspection, output: Form) -> None:
    from multikueue.cli.workload.pod_policies import print_elsewhere
    from multikueue.cli.workload.prospects import print_workers

    seen, told = found.seen, found.answer()
    if is_document(output):
        print_document(found.document(told), output)
    elif output is Format.NAME:
        print(f"workload.kueue.x-k8s.io/{seen.workload.metadata.name}" if seen.workload else seen.name)
    else:
        print_answer(told)
        if found.start:
            print(f"Start: {found.start}")
        if seen.quota is not None and (seen.quota.lacks or seen.quota.behind):
            _print_explanation(seen.quota, output)
        if seen.workers and told.state == "Pending":
            print()
            print_workers(seen.workers, output)
        if found.elsewhere:
            print()
        print_elsewhere(found.elsewhere, found.uncompared)
        note_unseen(told)


def _print_explanation(found: Explanation, output: Form) -> None:
    place = f"number {found.place}" if found.place else "not in the queue"
    facts = {
        "ClusterQueue": found.cluster_queue,
        "Place": f"{place}, behind {found.behind}, which has to go first" if found.behind else place,
        "Message": found.message,
        "Problem": found.problem,
    }
    if found.partial:
        facts["Partial"] = "there are too many reservations to look at all of them"
    print()
    print_facts(f"Workload {found.workload}", facts.items())
    _block("What is lacking", LACKS, _lacks(found), output)
    _block("Who has it", HOLDERS, _holders(found), output)
    _block("Why they keep it", BARRIERS, _barriers(found), output)
    _block("What would have to end", ENDINGS, _endings(found), output)


def _block(title: str, columns: tuple[Column, ...], rows: Iterable[tuple[str, ...]], output: Form) -> None:
    listed = list(rows)
    if listed:
        print()
        heading(title)
        print_table(columns, listed, output)


def _lacks(found: Explanation) -> Iterator[tuple[str, ...]]:
    for lack in found.lacks:
        amounts = lack.needed, lack.available, lack.missing
        yield lack.pod_set, lack.flavor, lack.resource, *amounts, lack.problem


def _holders(found: Explanation) -> Iterator[tuple[str, ...]]:
    for lack in found.lacks:
        for holder in lack.holders:
            amounts = str(holder.workloads), holder.amount, holder.borrowed
            yield lack.flavor, lack.resource, holder.cluster_queue, *amounts, holder.path


def _barriers(found: Explanation) -> Iterator[tuple[str, ...]]:
    for lack in found.lacks:
        for barrier in lack.barriers:
            amounts = str(barrier.workloads), barrier.amount
            yield lack.flavor, lack.resource, barrier.cluster_queue, *amounts, barrier.rule


def _endings(found: Explanation) -> Iterator[tuple[str, ...]]:
    from multikueue.api.meta import render_time

    for each in found.endings:
        latest = render_time(each.at_latest) if each.at_latest else ""
        yield each.workload, each.cluster_queue, latest, "yes" if each.leaving else "no"
