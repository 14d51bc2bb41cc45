"""Parts that keep the workloads of a group together or apart: two filters, and the scorers `together` and `spread`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from multikueue.strategy import Fleet, Score, Worker, Workload
from multikueue_strategies.once import Once

ZONE = "multikueue.dev/zone"
"""The label of a MultiKueueCluster with its failure domain."""


@dataclass(frozen=True, slots=True)
class OnlyTogether:
    """Refuses workers where none of the workload's group is, once one of them is anywhere.

    A group are the jobs of a namespace with the same label `multikueue.dev/group`.
    """

    reads: ClassVar[tuple[str, ...]] = ("mates",)

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        return "none of its group is there" if workload.mates and worker.name not in workload.mates else ""


@dataclass(frozen=True, slots=True)
class OnlyApart:
    """Refuses workers where another one of the workload's group is.

    A group are the jobs of a namespace with the same label `multikueue.dev/group`.
    """

    reads: ClassVar[tuple[str, ...]] = ("mates",)

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        return "one of its group is there" if worker.name in workload.mates else ""


@dataclass(frozen=True, slots=True)
class Together:
    """Prefers workers where more of the workload's group are, by their share of it."""

    reads: ClassVar[tuple[str, ...]] = ("mates",)

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        if not workload.mates:
            return Score(None, "none of its group is anywhere")
        there = workload.mates.get(worker.name, 0)
        return Score(there / sum(workload.mates.values()), f"{there} of its group")


@dataclass(frozen=True, slots=True)
class Spread:
    """Prefers workers in failure domains where fewer of the workload's group are. One without any has 1, that with most 0.

    The domain is the value of a `label` of the MultiKueueCluster; a worker without it is a domain of its own.
    """

    reads: ClassVar[tuple[str, ...]] = ("mates",)
    label: str = ZONE

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        if not workload.mates:
            return Score(None, "none of its group is anywhere")
        counted = _by_domain(self.label, workload.mates, fleet)
        there = counted[_domain(self.label, worker)]
        most = max(counted.values(), default=0)
        return Score(1 - there / most if most else 1.0, f"{there} of its group in its domain")


@Once
def _by_domain(label: str, mates: Mapping[str, int], fleet: Fleet) -> Counter[str]:
    found: Counter[str] = Counter()
    for worker in fleet.workers:
        found[_domain(label, worker)] += mates.get(worker.name, 0)
    return found


def _domain(label: str, worker: Worker) -> str:
    return worker.labels.get(label) or f"={worker.name}"
