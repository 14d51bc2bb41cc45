"""The fleet at a glance: totals, queues, clusters and what is wrong, of what one person may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from multikueue_console.model.clusters import ClusterRow
from multikueue_console.model.problems import Problem
from multikueue_console.model.queues import CohortNode, LocalRow, QueueNode
from multikueue_console.model.workloads import WorkloadRow

__all__ = ["FleetPicture", "Flow", "flat", "flows_of"]


class Flow(msgspec.Struct, frozen=True, gc=False):
    """How many workloads of a queue are on a cluster: asked of it, or there."""

    namespace: str
    queue: str
    cluster: str
    racing: int = 0
    there: int = 0


class FleetPicture(msgspec.Struct, frozen=True, gc=False):
    """`states`: how many workloads are in each state."""

    states: dict[str, int]
    trees: tuple[CohortNode, ...]
    local: tuple[LocalRow, ...]
    clusters: tuple[ClusterRow, ...]
    flows: tuple[Flow, ...]
    problems: tuple[Problem, ...]


def flows_of(rows: Iterable[WorkloadRow]) -> tuple[Flow, ...]:
    """What goes where, of workloads that are not over."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        if row.is_over:
            continue
        if row.cluster:
            found.setdefault((row.namespace, row.queue, row.cluster), [0, 0])[1] += 1
        elif row.state == "Pending":
            for name in row.nominated:
                found.setdefault((row.namespace, row.queue, name), [0, 0])[0] += 1
    return tuple(Flow(*place, *counts) for place, counts in sorted(found.items()))


def flat(trees: Iterable[CohortNode]) -> Iterator[QueueNode]:
    """All queues of these trees."""
    for each in trees:
        yield from each.queues
        yield from flat(each.cohorts)
