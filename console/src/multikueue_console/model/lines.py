"""The line of a ClusterQueue: who waits for quota, in the order in which they come."""

from __future__ import annotations

from multikueue.api.kueue.workload import queue_of, waits_for_quota, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.quota.workload.ordering import Rank, queue_rank
from multikueue_console.model.objects import SeenObjects

__all__ = ["lines_of", "places_in"]


def lines_of(seen: SeenObjects) -> dict[str, tuple[ObjectKey, ...]]:
    """The keys of those that wait, by ClusterQueue, by priority and then by age as in Kueue. Of a workload whose LocalQueue is
    not known nobody can tell where it waits."""
    found: dict[str, list[tuple[Rank, ObjectKey]]] = {}
    for key, each in seen.workloads.items():
        if waits_for_quota(each) and (name := seen.cluster_queue_of(queue_of(each))):
            found.setdefault(name, []).append((queue_rank(each, workload_spec(each).priority), key))
    return {name: tuple(key for _, key in sorted(line)) for name, line in found.items()}


def places_in(line: tuple[ObjectKey, ...]) -> dict[ObjectKey, int]:
    """Each workload's place in a line, from 1 on."""
    return {key: place for place, key in enumerate(line, 1)}
