"""The scorers that come with `composed`: each gives a worker from 0 to 1, by its place, labels, price, data or hub."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import ClassVar

from multikueue.strategy import Fleet, Score, Worker, Workload
from multikueue_strategies.once import Once

TIER = "multikueue.dev/tier"
"""The label of a MultiKueueCluster with its tier, such as `reserved` or `spot`."""

DATA = "multikueue.dev/data"
"""On a workload or its job: what it reads and how much, such as `s3://bucket/prefix=12Ti, s3://other=300Gi`."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)(i?)(?:B)?")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Order:
    """Prefers workers in the order of the MultiKueueConfig: the first has 1, the last 0."""

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        place = _places(fleet)[worker.name]
        return Score(1 - place / max(1, len(fleet.workers) - 1), f"place {place + 1}")


@dataclass(frozen=True, slots=True)
class Tiers:
    """Prefers workers by their tier, the first of `order` most: `order: [on-premises, reserved, on-demand, spot]`.

    The tier is the value of a `label` of the MultiKueueCluster. The last tier has 0.
    """

    order: tuple[str, ...]
    label: str = TIER

    def __post_init__(self) -> None:
        if not self.order or len(set(self.order)) < len(self.order):
            raise ValueError("expected order to name at least one tier, and none twice")

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        tier = worker.labels.get(self.label)
        if tier not in self.order:
            return Score(None, f"tier {tier[:_LONGEST]} has no place" if tier else "no tier")
        return Score(1 - self.order.index(tier) / max(1, len(self.order) - 1), f"tier {tier[:_LONGEST]}")


@dataclass(frozen=True, slots=True)
class Preferred:
    """Prefers workers with certain labels of the MultiKueueCluster: `labels: {region=eu: 3, gpu=h100: 1}`.

    The score is the share of all these weights that the worker's labels earn. `region` alone is earned by any value.
    """

    labels: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.labels or not all(0 < weight < float("inf") for weight in self.labels.values()):
            raise ValueError("expected labels to name at least one label, with weights greater than 0")

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        found = [wish for wish in self.labels if _has(worker.labels, wish)]
        earned = sum(self.labels[wish] for wish in found) / sum(self.labels.values())
        return Score(min(1.0, earned), ", ".join(found)[:_LONGEST] or "none of the labels")


@dataclass(frozen=True, slots=True)
class Price:
    """Prefers workers where what the workload requests costs less. The cheapest has 1, one of double that price 0.5.

    Prices are in the annotation `multikueue.dev/prices` of the MultiKueueCluster: money for an hour, by resource, or by flavor
    and resource: `cpu=0.04, h100/nvidia.com/gpu=2.5`. Those in `prices`, by worker, go before it:
    `{cloud: {cpu: 0.04, h100/nvidia.com/gpu: 2.5}}`. A unit is a core of cpu, a GiB of memory or ephemeral storage, and
    one of all else. A resource without a price costs nothing. Flavors are those that the manager gave the workload.
    """

    reads: ClassVar[tuple[str, ...]] = ("flavors",)
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(0 <= price < float("inf") for prices in self.prices.values() for price in prices.values()):
            raise ValueError("expected prices of 0 or more")

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        prices = _prices(self, workload, fleet)
        price = prices.get(worker.name)
        if price is None:
            return Score(None, "no price")
        cheapest = next(iter(prices.values()))
        return Score(cheapest / price if price > 0 else 1.0, f"{price:.4g} an hour")


@dataclass(frozen=True, slots=True)
class Data:
    """Prefers workers that lie near what the workload reads: the score is the share of its bytes that need no transfer.

    A workload or its job says what it reads by the annotation `multikueue.dev/data`: `s3://bucket/prefix=12Ti`, several
    separated by commas. `places` says which workers have what: `{s3://bucket: [worker-1, worker-2]}`; the longest prefix
    counts.
    """

    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        text = workload.annotations.get(DATA, "")
        if not text:
            return Score(None, "no data named")
        sizes = _sizes(text)
        if sizes is None:
            return Score(None, f"annotation {DATA}: expected PREFIX=SIZE, such as s3://bucket=12Ti")
        near = {prefix: worker.name in workers for prefix in sizes if (workers := self._holders(prefix)) is not None}
        if not near:
            return Score(None, "nobody knows where its data lies")
        share = sum(sizes[prefix] for prefix, is_here in near.items() if is_here) / sum(sizes[p] for p in near)
        return Score(min(1.0, share), f"{share:.0%} of its data")

    def _holders(self, prefix: str) -> tuple[str, ...] | None:
        known = [place for place in self.places if prefix == place or prefix.startswith(place.rstrip("/") + "/")]
        return self.places[max(known, key=len)] if known else None


@dataclass(frozen=True, slots=True)
class HubScore:
    """Prefers workers by a score of their OCM hub: `name: resource-usage-score/gpuClusterAvailable`, object and score.

    OCM's -100 is 0, its 100 is 1. Of a worker without that score, or whose score is over, nothing is known.
    """

    reads: ClassVar[tuple[str, ...]] = ("scores",)

    name: str

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        found = worker.scores.get(self.name)
        if found is None:
            return Score(None, f"no score {self.name}")
        return Score((min(100, max(-100, found)) + 100) / 200, f"score {found}")


@Once
def _places(fleet: Fleet) -> Mapping[str, int]:
    return {worker.name: place for place, worker in enumerate(fleet.workers)}


@Once
def _prices(price: Price, workload: Workload, fleet: Fleet) -> Mapping[str, float]:
    """What an hour of the workload costs on the workers that have prices, the cheapest first."""
    found = {
        worker.name: workload.hourly(prices)
        for worker in fleet.workers
        if (prices := price.prices.get(worker.name, worker.prices or None)) is not None
    }
    return dict(sorted(found.items(), key=itemgetter(1)))


def _has(labels: Mapping[str, str], wish: str) -> bool:
    key, equals, value = wish.partition("=")
    return labels.get(key) == value if equals else key in labels


def _sizes(text: str) -> dict[str, float] | None:
    """Bytes by prefix; None if the text cannot be read."""
    found: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        prefix, _, size = part.rpartition("=")
        match = _SIZE.fullmatch(size)
        if not prefix or match is None:
            return None
        found[prefix] = found.get(prefix, 0.0) + _bytes(match)
    return found if sum(found.values()) > 0 else None


def _bytes(size: re.Match[str]) -> float:
    number, prefix, binary = size.groups()
    return float(number) * (1024.0 if binary else 1000.0) ** (" KMGTPE".index(prefix) if prefix else 0)
