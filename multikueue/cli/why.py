"""`multikueue why`: the reasons of a workload that waits, worked out here from what the manager cluster shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multikueue.cli.connection import Context, Kubeconfig, SettingsFile, Target, fetch_pairs, now, run_async
from multikueue.cli.naming import InNamespace, Named, pick
from multikueue.cli.output import (
    Column,
    Format,
    Output,
    heading,
    note,
    print_document,
    print_facts,
    print_table,
)

if TYPE_CHECKING:
    from multikueue.api.workload import Workload
    from multikueue.quota.explain import Explanation

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
    Column("PATH", wide=True),
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


def why(
    name: Named,
    namespace: InNamespace = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: SettingsFile = None,
) -> None:
    """Say why a workload waits: what is lacking, who has it, which rules keep it from being taken, what has to end.

    \b
    Examples:
      multikueue why -n team-a my-job
      multikueue why my-job -o yaml
    """
    target = Target(kubeconfig, context)
    where, objects = run_async(lambda: _fetch(target, namespace))
    workload = pick(_workloads(objects, where), name, where)[1]
    _answer(workload, _explained(objects, workload, config), output)


def _answer(workload: Workload, found: Explanation | None, output: Format) -> None:
    import msgspec

    from multikueue.cli import story

    if output in (Format.JSON, Format.YAML):
        state = {"workload": str(workload.key), "state": story.status(workload)}
        print_document(state | (msgspec.to_builtins(found) if found else {"message": story.now(workload)}), output)
    elif output is Format.NAME:
        print(f"workload.kueue.x-k8s.io/{workload.metadata.name}")
    elif found is None:
        note(f"Workload {workload.key} does not wait for quota: {story.now(workload)}")
    else:
        _tell(found, output)


def _tell(found: Explanation, output: Format) -> None:
    place = f"number {found.place}" if found.place else "in no line"
    facts = {
        "ClusterQueue": found.cluster_queue,
        "Place": f"{place}, behind {found.behind}, which has to go first" if found.behind else place,
        "Message": found.message,
        "Problem": found.problem,
    }
    print_facts(f"Workload {found.workload}", facts.items())
    _block("What is lacking", LACKS, _lacks(found), output)
    _block("Who has it", HOLDERS, _holders(found), output)
    _block("Why they keep it", BARRIERS, _barriers(found), output)
    _block("What would have to end", ENDINGS, _endings(found), output)


def _block(title: str, columns: tuple[Column, ...], rows: Iterable[tuple[str, ...]], output: Format) -> None:
    listed = list(rows)
    if listed:
        heading(f"\n{title}")
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

Objects = dict[str, list[tuple[dict[str, Any], Any]]]
"""By plural: each object as the server sent it, and as a value."""


async def _fetch(target: Target, namespace: str | None) -> tuple[str, Objects]:
    """The namespace that is meant, and all that quota depends on."""
    from multikueue.api import kinds

    found = Objects()
    async with target.connect_in(namespace) as (client, where):
        for kind in (
            kinds.NAMESPACES,
            kinds.LIMIT_RANGES,
            kinds.RUNTIME_CLASSES,
            kinds.RESOURCE_FLAVORS,
            kinds.ADMISSION_CHECKS,
            kinds.COHORTS,
            kinds.CLUSTER_QUEUES,
            kinds.LOCAL_QUEUES,
            kinds.WORKLOADS,
        ):
            found[kind.plural] = await fetch_pairs(client, kind)
    return where, found


def _workloads(objects: Objects, namespace: str) -> list[tuple[dict[str, Any], Workload]]:
    return [pair for pair in objects["workloads"] if pair[1].metadata.namespace == namespace]


def _explained(objects: Objects, workload: Workload, config: Path | None) -> Explanation | None:
    from multikueue import settings
    from multikueue.manager import engine_of
    from multikueue.quota.explain import explain

    engine = engine_of(settings.load(config).quota)
    for values in objects.values():
        for _, value in values:
            engine.observe(None, value, now())
    return explain(engine.view, workload.key, now())
