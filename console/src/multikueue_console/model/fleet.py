"""The fleet at a glance: totals, queues, clusters and what is wrong, of what one person may see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from multikueue.answers.answer import JobAnswer
from multikueue_console.model.clusters import ClusterRow, cluster_rows
from multikueue_console.model.findings import FoundCause, found_causes
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.problems import Problem, of_clusters, of_queues, of_workloads
from multikueue_console.model.queues import CohortNode, LocalRow, QueueNode, local_rows, queue_trees
from multikueue_console.model.tallies import Tally
from multikueue_console.model.workloads import WorkloadRow

__all__ = ["FleetPicture", "Flow", "flat", "picture_of"]


class Flow(msgspec.Struct, frozen=True, gc=False):
    """How many workloads of a queue are on a cluster: asked of it, or there."""

    namespace: str
    queue: str
    cluster: str
    racing: int = 0
    there: int = 0


class FleetPicture(msgspec.Struct, frozen=True, gc=False):
    """`states`: how many workloads are in each state. `findings`: what is wrong with clusters, by cause."""

    states: dict[str, int]
    trees: tuple[CohortNode, ...]
    local: tuple[LocalRow, ...]
    clusters: tuple[ClusterRow, ...]
    flows: tuple[Flow, ...]
    problems: tuple[Problem, ...]
    findings: tuple[FoundCause, ...] = ()


def picture_of(seen: SeenObjects, tally: Tally, stuck: Iterable[tuple[WorkloadRow, JobAnswer, int]]) -> FleetPicture:
    """`tally`: of the workloads that are counted; `stuck`: for each reason that does not pass by itself one workload, and how
    many have it. Objects that `seen` does not have are left out."""
    trees, local, clusters = queue_trees(seen), local_rows(seen), cluster_rows(seen, tally.loads)
    problems = (*of_clusters(clusters), *of_queues(seen, flat(trees), local), *of_workloads(stuck))
    return FleetPicture(
        states={state: count for state, count in tally.states.items() if count},
        trees=trees,
        local=local,
        clusters=clusters,
        flows=tuple(Flow(*place, *counts) for place, counts in sorted(tally.flows.items()) if any(counts)),
        problems=tuple(sorted(problems, key=lambda each: (each.level != "error", -each.count))),
        findings=found_causes(seen, clusters),
    )


def flat(trees: Iterable[CohortNode]) -> Iterator[QueueNode]:
    """All queues of these trees."""
    for each in trees:
        yield from each.queues
        yield from flat(each.cohorts)
