"""Why a workload has no quota, computed here by the manager's own rules, from what the user may read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from multikueue.cli.access.connection import fetch_pairs, now

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.quota.visibility.explain import Explanation, Shortage

__all__ = ["Objects", "explained", "fetch_objects", "in_words"]

Objects = dict[str, list[tuple[dict[str, Any], Any]]]
"""Objects by the plural of their kind: each as the server sent it, and as a value."""


async def fetch_objects(client: ClusterClient, where: str) -> tuple[Objects, list[str]]:
    """Objects that quota depends on, and the kinds that may not be listed; workloads of the own namespace at least."""
    from multikueue.api import kinds
    from multikueue.errors import Forbidden

    found, hidden = Objects(), list[str]()
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
        try:
            found[kind.plural] = await fetch_pairs(client, kind)
        except Forbidden:
            hidden.append(f"{kind.plural} of all namespaces" if kind.namespaced else kind.plural)
    if kinds.WORKLOADS.plural not in found:
        found[kinds.WORKLOADS.plural] = await fetch_pairs(client, kinds.WORKLOADS, namespace=where)
    return found, hidden


def explained(objects: Objects, workload: Workload, config: Path | None) -> Explanation | None:
    from multikueue import settings
    from multikueue.manager.engine import engine_of
    from multikueue.quota.visibility.explain import explain

    engine = engine_of(settings.load(config).quota)
    for values in objects.values():
        for _, value in values:
            engine.observe(None, value, now())
    return explain(engine.view, workload.key, now())


def in_words(found: Explanation) -> str:
    """One sentence."""
    place = f"Waits for quota in ClusterQueue {found.cluster_queue}"
    place += f", number {found.place} there" if found.place else ""
    if found.problem:
        return f"{place}: {found.problem}."
    if found.behind:
        return f"{place}: {found.behind} has to go first."
    return f"{place}: {_shortest(found.lacks)}."


def _shortest(lacks: tuple[Shortage, ...]) -> str:
    """The first lack in words: quota that others hold goes before quota that can never exist."""
    lacking = [lack for lack in lacks if not lack.problem] or list(lacks)
    if not lacking:
        return "nothing is lacking, it is about to be looked at"
    first = lacking[0]
    of = f"{first.resource} of flavor {first.flavor}" if first.flavor else first.resource
    more = f", and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    if first.problem:
        return f"{of}: {first.problem}{more}"
    return f"{first.missing} {of} more is needed than there is{more}"
