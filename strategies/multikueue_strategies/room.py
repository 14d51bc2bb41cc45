"""Parts that read what workers have room for: the filter `room`, and the scorers `room` and `quota`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from multikueue.strategy import FlavorRoom, Fleet, Room, Score, Worker, Workload
from multikueue_strategies.once import Once

_MIDDLE = 0.5


@dataclass(frozen=True, slots=True)
class FreeRoom:
    """Refuses workers whose queue has no room for the workload now. A copy that is there already may stay and wait.

    With `preempting`, what the workload may preempt there counts as room, too. A worker of which nothing is known is not
    refused, unless it is about to be known; nor is one that could never hold the workload, for only its own Kueue may say so.
    """

    reads: ClassVar[tuple[str, ...]] = ("room",)
    preempting: bool = False

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        if worker.room is None or worker.name in workload.nominated_clusters:
            return ""
        if not worker.room.quotas:
            return "its room is not known yet" if worker.room.doubt else "its queue is missing or has no quota"
        return "no room now" if holds_now(workload, worker.room, preempting=self.preempting) is False else ""


@dataclass(frozen=True, slots=True)
class MostRoom:
    """Prefers workers whose queue has most room, by the share of its quota that would be free with the workload in it.

    One that would be empty but for it has nearly 1, and one that would be full 0.5. One where it has to wait has less, the more
    waits there. With `fit: tight` it is the other way round as long as there is room: what fills a worker goes first, and large
    room stays whole for large workloads.
    """

    reads: ClassVar[tuple[str, ...]] = ("room",)
    fit: Literal["most-free", "tight"] = "most-free"

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        return _judged(workload, worker.room, self._by_load)

    def _by_load(self, chosen: list[tuple[FlavorRoom, int]]) -> tuple[float, str]:
        load = _highest(chosen)
        value = (1 + load) / 2 if load <= 1 and self.fit == "tight" else 1 / (1 + load)
        return value, "room" if load <= 1 else "no room"


@dataclass(frozen=True, slots=True)
class QuotaQuality:
    """Prefers workers by the quota that the workload would get there.

    Its queue's own quota has 1, borrowed quota 0.8, quota that others borrow and would lose to it 0.4, quota of its own queue's
    workloads, which it would preempt, 0.2, and no quota 0.
    """

    reads: ClassVar[tuple[str, ...]] = ("room",)

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        def worst(chosen: list[tuple[FlavorRoom, int]]) -> tuple[float, str]:
            return min((_quality(each, need, workload.priority) for each, need in chosen), default=_OWN)

        return _judged(workload, worker.room, worst)


def _judged(
    workload: Workload, room: Room | None, judge: Callable[[list[tuple[FlavorRoom, int]]], tuple[float, str]]
) -> Score:
    """The score by what the workload would take there. What may not be all, or not be of now, counts half."""
    if room is None or not room.quotas:
        return Score(None, "room unknown")
    chosen = _chosen(workload, room)
    if chosen is None:
        return Score(0.0, "no quota of what it requests")
    value, reason = judge(chosen)
    return Score((value + _MIDDLE) / 2 if room.doubt else value, reason)


def holds_now(workload: Workload, room: Room | None, *, preempting: bool = False) -> bool | None:
    """Whether a worker's queue has room for the workload. None: it is unknown, or its own Kueue will say that it can never be
    admitted there, and then the worker is not usable."""
    chosen = _chosen(workload, room) if room is not None and room.quotas else None
    if chosen is None or any(need > each.most for each, need in chosen):
        return None
    return all(
        need <= (each.free_after_preemption(workload.priority) if preempting else each.free) for each, need in chosen
    )


_OWN = (1.0, "own quota")


def _quality(room: FlavorRoom, need: int, priority: int) -> tuple[float, str]:
    if need <= room.free:
        return _OWN if room.used + need <= room.nominal else (0.8, "borrowed quota")
    if need <= room.free_after_reclaim(priority):
        return 0.4, "quota that others borrow"
    if need <= room.free_after_preemption(priority):
        return 0.2, "quota of lower priorities"
    return 0.0, "no quota now"


def _load(room: FlavorRoom, need: int) -> float:
    """What would be used with the workload in it, waiting ones included, by what could be."""
    used = room.most - room.free + need
    return (used / room.most if used > 0 else 0.0) if room.most else float("inf")


def _chosen(workload: Workload, room: Room) -> list[tuple[FlavorRoom, int]] | None:
    """The room that the workload would take, and how much of it: in each group of resources the flavor that would be used
    least. None if there is no quota of a resource."""
    wanted = _wanted(workload)
    found = [(each, wanted[each.resource]) for each in room.quotas if each.resource in wanted]
    if len(found) < len(wanted):
        return None
    if len(found) == 1:
        return found
    best: dict[frozenset[str], list[tuple[FlavorRoom, int]]] = {}
    for flavor in _by_flavor(room):
        takes = [(each, wanted[each.resource]) for each in flavor if each.resource in wanted]
        known = best.get(group := frozenset(each.resource for each in flavor))
        if takes and (known is None or _highest(takes) < _highest(known)):
            best[group] = takes
    chosen = [each for takes in best.values() for each in takes]
    return chosen if {each.resource for each, _ in chosen} == wanted.keys() else None


@Once
def _wanted(workload: Workload) -> dict[str, int]:
    return {name: amount for name, amount in workload.requests.items() if amount > 0}


def _highest(takes: list[tuple[FlavorRoom, int]]) -> float:
    return max([_load(each, need) for each, need in takes], default=0.0)


def _by_flavor(room: Room) -> Iterator[list[FlavorRoom]]:
    """The resources of each flavor; they come together, and two flavors there may have one name here."""
    found: list[FlavorRoom] = []
    for each in room.quotas:
        if found and (each.flavor != found[0].flavor or any(each.resource == other.resource for other in found)):
            yield found
            found = []
        found.append(each)
    if found:
        yield found
