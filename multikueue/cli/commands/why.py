"""`multikueue why`: the reasons why a workload waits: the manager's, else computed here from what the user may read.

One sentence on top; then the missing quota, or, for a workload without a worker, the answer of each worker; and where its pods
are others on a worker than those that are counted. What the user may not read is named, and is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multikueue.cli.access.connection import (
    Context,
    ContextChoice,
    Kubeconfig,
    SettingsFile,
    fetch_pairs,
    run_async,
)
from multikueue.cli.access.worker_access import SecretsNamespace, WorkerAccess, WorkerContext, WorkerKubeconfig
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.output import Column, heading, note, print_document, print_facts, print_table
from multikueue.cli.workload.explanation import Objects, explained, fetch_objects, in_words
from multikueue.cli.workload.lookup import InNamespace, Named, named, pick
from multikueue.cli.workload.refusals import RefusedJob, fetch_refused_jobs

if TYPE_CHECKING:
    from pathlib import Path

    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.workload.explanation import ManagerExplanation
    from multikueue.cli.workload.pod_policies import Elsewhere
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.quota.visibility.explain import Explanation
    from multikueue.settings import Settings
    from multikueue.workload.nomination.prospects import Prospect

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
WORKERS = (Column("CLUSTER"), Column("ANSWER"), Column("PLACE"), Column("MESSAGE"))
ENDINGS = (Column("WORKLOAD"), Column("CLUSTERQUEUE"), Column("AT LATEST"), Column("LEAVING"))


def why(
    name: Named,
    namespace: InNamespace = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: SettingsFile = None,
    worker_context: WorkerContext = None,
    worker_kubeconfig: WorkerKubeconfig = None,
    secrets_namespace: SecretsNamespace = "kueue-system",
) -> None:
    """Say why a workload waits.

    First in one sentence, then in full.

    For quota: what is lacking, who has it, which rules keep it from being taken, what has to end. For a worker: whether each
    could ever hold it, in which place it waits there, or why it is not asked. Of a worker that you may look at, also while it
    runs: where its pods are others there than those that are counted. What you may not see is said so, and is no error.

    \b
    Examples:
      multikueue why -n team-a my-job
      multikueue why my-job -o yaml
    """
    target = ContextChoice(kubeconfig, context)
    reach = WorkerAccess(
        manager=target, namespace=secrets_namespace, context=worker_context, kubeconfig=worker_kubeconfig
    )
    seen = run_async(lambda: _look(target, reach, namespace, name, config))
    if isinstance(seen, RefusedJob):
        _tell_refused(seen, output)
        return
    found = (
        None if seen.forbidden or seen.workers else seen.told or explained(seen.objects, seen.workload, seen.settings)
    )
    _answer(seen, found, output)


def _tell_refused(job: RefusedJob, output: Form) -> None:
    if is_document(output):
        print_document({"job": f"{job.namespace}/{job.name}", "kind": job.kind, "summary": str(job)}, output)
    elif output is Format.NAME:
        print(f"{job.kind.lower()}/{job.name}")
    else:
        print(job)


def _answer(seen: _Seen, found: Explanation | None, output: Form) -> None:
    import msgspec

    from multikueue.cli.workload import description
    from multikueue.cli.workload.repairs import repair

    workload, summary = seen.workload, _summary(seen, found)
    if is_document(output):
        state = {"workload": str(workload.key), "state": description.status(workload), "summary": summary}
        state |= {"repair": repair(workload)} if repair(workload) else {}
        full = msgspec.to_builtins(found) if found else {"message": description.now(workload)}
        if seen.workers:
            full |= {"workers": [msgspec.to_builtins(each) for each in seen.workers]}
        if seen.elsewhere:
            full |= {"differences": [each.document() for each in seen.elsewhere]}
        print_document(state | full | ({"unseen": seen.unseen} if seen.unseen else {}), output)
        return
    if output is Format.NAME:
        print(f"workload.kueue.x-k8s.io/{workload.metadata.name}")
        return
    if found is None and not seen.workers and not seen.forbidden:
        note(f"Workload {workload.key} does not wait for quota: {description.now(workload)}")
        _print_elsewhere(seen)
        return
    helps = repair(workload)
    print(f"{summary}{f' {helps}' if helps and helps not in summary else ''}\n")
    if found is not None:
        _print_explanation(found, output)
    elif seen.workers:
        from multikueue.cli.workload.prospects import row

        print_facts(f"Workload {workload.key}", (("Now", description.now(workload)),))
        _block("Workers", WORKERS, (row(each) for each in seen.workers), output)
    _print_elsewhere(seen)
    for text in seen.unseen:
        note(f"Not seen: {text}")


def _print_elsewhere(seen: _Seen) -> None:
    if seen.elsewhere:
        print()
        heading("Where its pods are others")
    for each in seen.elsewhere:
        print(f"  {each}")
    for text in seen.uncompared:
        note(text)


def _summary(seen: _Seen, found: Explanation | None) -> str:
    """The sentence on top."""
    from multikueue.cli.workload import description

    if seen.workers:
        from multikueue.cli.workload.prospects import sentence

        return sentence(seen.workers, seen.workload)
    if found is None:
        return description.now(seen.workload)
    return in_words(found)


def _print_explanation(found: Explanation, output: Form) -> None:
    place = f"number {found.place}" if found.place else "in no line"
    facts = {
        "ClusterQueue": found.cluster_queue,
        "Place": f"{place}, behind {found.behind}, which has to go first" if found.behind else place,
        "Message": found.message,
        "Problem": found.problem,
    }
    if found.partial:
        facts["Partial"] = "there are too many reservations to look at all of them"
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


# --- the quota engine, on what the cluster shows ---------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """The workload, and the objects that it depends on. `forbidden`: kinds that the user may not list, though quota
    depends on them; `unseen`: what the user may not see, in words; `told`: the manager's explanation of its quota;
    `settings`: the manager's, without that; `elsewhere`: what its workers make of it that differs from what is counted, and
    `uncompared` what was not compared, in words."""

    workload: Workload
    objects: Objects
    forbidden: list[str]
    workers: list[Prospect]
    unseen: list[str]
    told: Explanation | None = None
    settings: Settings | None = None
    elsewhere: list[Elsewhere] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)


async def _look(
    target: ContextChoice, reach: WorkerAccess, namespace: str | None, name: str, config: Path | None
) -> _Seen | RefusedJob:
    from multikueue.api import kinds
    from multikueue.cli.access.manager_settings import load_settings

    async with target.connect_in(namespace) as (client, where):
        mine = await fetch_pairs(client, kinds.WORKLOADS, namespace=where)
        if not named(mine, name):
            for job in await fetch_refused_jobs(client, where, (workload for _, workload in mine)):
                if job.is_named(name):
                    return job
        seen = _Seen(pick(mine, name, where)[1], {}, [], [], [])
        asked, seen.settings = await _ask(client, seen.workload), load_settings(config)
        if asked is not None:
            seen.told = asked.quota
        else:
            seen.objects, seen.forbidden = await fetch_objects(client, where, seen.settings)
            seen.unseen = [f"quota: you may not list {', '.join(seen.forbidden)}"] if seen.forbidden else []
        if _is_waiting_for_worker(seen.workload):
            from multikueue.cli.workload.prospects import prospects

            seen.workers, seen.unseen = await prospects(client, reach, seen.workload, asked.workers if asked else ())
        await _compare(client, reach, seen)
    return seen


async def _compare(client: ClusterClient, reach: WorkerAccess, seen: _Seen) -> None:
    """Looks for what workers make of its pods, if they are other ones there; of workers that the user may look at."""
    from multikueue.cli.workload.pod_policies import elsewhere, not_compared, read_policies
    from multikueue.cli.workload.prospects import policies_there

    namespace = seen.workload.metadata.namespace
    theirs = await policies_there(client, reach, await _workers(client, seen), namespace)
    if theirs:
        ours = await read_policies(client, (namespace,))
        seen.elsewhere = list(elsewhere(seen.workload, ours, theirs, seen.settings))
        seen.uncompared = list(not_compared(ours, theirs))


async def _workers(client: ClusterClient, seen: _Seen) -> tuple[str, ...]:
    """The worker that has it, else those that may get it; none if they are not known, or if it is over."""
    from multikueue.api.kinds import LOCAL_QUEUES
    from multikueue.api.kueue.workload import ADMITTED, FINISHED, queue_of, workload_spec
    from multikueue.errors import ApiError
    from multikueue.registration.preflight import routes
    from multikueue.workload.nomination.prospects import State

    workload = seen.workload
    if workload.has(FINISHED) or not workload_spec(workload).active:
        return ()
    if workload.has(ADMITTED):
        return tuple(filter(None, (workload.status.cluster_name,)))
    if seen.workers:
        able = (State.WAITS.value, State.NOT_ASKED.value, State.NEVER.value)
        return tuple(each.cluster for each in seen.workers if each.state in able)
    try:
        local = await client.get(LOCAL_QUEUES, queue_of(workload))
        way = await routes(client)
    except ApiError:  # no such queue, or no right to see where it leads
        return ()
    queue = next((each for each in way.cluster_queues if each.metadata.name == local.spec.cluster_queue), None)
    return (way.clusters_of(queue) or ()) if queue is not None else ()


async def _ask(client: ClusterClient, workload: Workload) -> ManagerExplanation | None:
    """The manager's explanation, which needs a right to that API only; None without an answer."""
    from multikueue.cli.workload.explanation import fetch_explanation
    from multikueue.errors import ApiError

    try:
        return await fetch_explanation(client, workload.key)
    except ApiError:  # no such API, no right to it, or no server behind it: the reasons are computed here
        return None


def _is_waiting_for_worker(workload: Workload) -> bool:
    from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, FITS_NO_WORKER, QUOTA_RESERVED

    if workload.has(FINISHED) or workload.has(ADMITTED):
        return False
    if workload.has(QUOTA_RESERVED):
        return not workload.has(EVICTED)
    return workload.has(FITS_NO_WORKER) and workload.has(EVICTED)
