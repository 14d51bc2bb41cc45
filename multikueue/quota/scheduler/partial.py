"""Partial admission: fewer pods than asked for, where a workload allows it (quota-engine 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import PodSet
from multikueue.quota.requests.amounts import Demand, PodSetDemand, scaled

T = TypeVar("T")


class Reduction(msgspec.Struct, frozen=True):
    """The steps from all pods (0) to the minimum (`steps`). Each pod set gives in proportion to what it can spare."""

    full: tuple[int, ...]
    spare: tuple[int, ...]

    @property
    def steps(self) -> int:
        return sum(self.spare)

    def counts(self, step: int) -> tuple[int, ...]:
        return tuple(full - spare * step // self.steps for full, spare in zip(self.full, self.spare, strict=True))


def reduction(pod_sets: Sequence[PodSet]) -> Reduction:
    """The steps for the counts in the spec. Reclaimed pods do not make the counts smaller still."""
    full = tuple(each.count for each in pod_sets)
    least = (each.count if each.min_count is None else max(0, each.min_count) for each in pod_sets)
    return Reduction(full, tuple(count - minimum for count, minimum in zip(full, least, strict=True)))


def largest(reduction: Reduction, judge: Callable[[tuple[int, ...]], T | None]) -> T | None:
    """The answer of `judge` to the largest counts that it does not answer with None; None if there are no such counts.

    As in Kueue, fewer pods are assumed to fit whenever more do. With evictions that can be wrong, and the answer is
    then not the largest.
    """
    found: T | None = None
    low, high = 0, reduction.steps + 1
    while reduction.steps > 0 and low < high:
        middle = (low + high) // 2
        verdict = judge(reduction.counts(middle))
        if verdict is None:
            low = middle + 1
        else:
            found, high = verdict, middle
    return found


def reduced(demand: Demand, counts: Sequence[int]) -> Demand:
    """The demand with these counts of pods, one per pod set."""
    pod_sets = zip(demand.pod_sets, counts, strict=True)
    return replace(demand, pod_sets=tuple(_reduced(pod_set, count) for pod_set, count in pod_sets))


def _reduced(pod_set: PodSetDemand, count: int) -> PodSetDemand:
    if pod_set.count in (0, count):
        return pod_set
    requests = {name: scaled(total, of=pod_set.count, to=count) for name, total in pod_set.requests.items()}
    return replace(pod_set, count=count, requests=requests)
