"""Who plays: strategies with their options, as users write them, and two that no strategy can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from multikueue import registry
from multikueue.strategy import Nomination

if TYPE_CHECKING:
    from benchmarks.mixes.play import Chooser, World
    from benchmarks.mixes.traces import Cluster, Job

__all__ = ["CONTESTANTS", "Contestant"]


@dataclass(frozen=True, slots=True)
class Contestant:
    """`make` builds it for a fleet."""

    title: str
    make: Callable[[tuple[Cluster, ...]], Chooser]


def _ours(name: str, **options: Any) -> Callable[[tuple[Cluster, ...]], Chooser]:
    return lambda _clusters: registry.load(name, options)


def _composed(*scorers: Any, **options: Any) -> Callable[[tuple[Cluster, ...]], Chooser]:
    """One copy, and no more."""
    return _ours("composed", **{"scorers": list(scorers), "patience": None} | options)


def _by_price(clusters: tuple[Cluster, ...]) -> Chooser:
    prices = {each.name: {"nvidia.com/gpu": each.price} for each in clusters}
    return _composed({"price": {"prices": prices}, "weight": 3}, "room", filters=["room"])(clusters)


def _by_data(clusters: tuple[Cluster, ...]) -> Chooser:
    places = {each.name: [each.name] for each in clusters}
    return _composed({"data": {"places": places}, "weight": 3}, "room", **HEDGED)(clusters)


def _oracle(world: World, job: Job) -> Nomination:
    """Knows how long everything runs: the worker where it starts first."""
    return Nomination((min(world.starts(job))[1],), revisit_after=timedelta(minutes=1))


HEDGED: Mapping[str, Any] = {"hedge": 0.95, "patience": "5m", "most": 2}
ANYWHERE: Mapping[str, Any] = {**HEDGED, "extra": "any"}

CONTESTANTS: Mapping[str, Contestant] = {
    "race": Contestant("all-at-once", _ours("all-at-once")),
    "rounds": Contestant("incremental, three workers every five minutes", _ours("incremental")),
    "order": Contestant(
        "external, a fixed order, the next one after five minutes", _ours("external", placement="order")
    ),
    "chance": Contestant("composed without scorers: one copy, somewhere", _composed()),
    "room": Contestant("composed, one copy by room", _composed("room")),
    "wait": Contestant("composed, one copy by learned waits and room", _composed("wait", "room")),
    "hedge": Contestant("composed by room, hedged at 95 %: two copies at most", _composed("room", **HEDGED)),
    "anywhere": Contestant("as hedge, the second copy also where there is no room", _composed("room", **ANYWHERE)),
    "yields": Contestant(
        "as anywhere, the second copy behind all others", _composed("room", **ANYWHERE, extra_priority="lowest")
    ),
    "idle": Contestant("copies wherever there is room", _ours("composed", filters=["room"], copies=99, patience=None)),
    "price": Contestant("composed by price and room, which waits until there is room", _by_price),
    "data": Contestant("composed by data and room, hedged at 95 %", _by_data),
    "oracle": Contestant("knows how long everything runs", lambda _clusters: _oracle),
}
