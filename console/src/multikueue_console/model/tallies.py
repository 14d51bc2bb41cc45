"""Counts of workloads, kept up with each change: a picture of 50,000 workloads must not take a look at each of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from multikueue_console.model.workloads import ORDINARY, WorkloadRow

__all__ = ["Load", "Tally", "merged"]


class Load(msgspec.Struct, gc=False):
    """What is on a cluster: how many were asked of it, start, run and are over there. `amounts`: the quota of those that
    start or run, by resource."""

    racing: int = 0
    starting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    amounts: dict[str, int] = msgspec.field(default_factory=dict)

    def count(self, row: WorkloadRow, by: int) -> None:
        match row.state:
            case "Finished":
                self.done += by
            case "Failed":
                self.failed += by
            case "Running" | "Unknown":
                self.running += by
            case _:
                self.starting += by
        for name, amount in () if row.is_over else row.amounts.items():
            self.amounts[name] = self.amounts.get(name, 0) + by * amount


class Tally:
    """Of the workloads of one namespace: how many are in each state, what is on each cluster, how many of each queue are asked
    of a cluster (0) and are there (1), and which have a reason to wait that does not pass by itself (UIDs by code)."""

    def __init__(self, rows: Iterable[WorkloadRow] = ()) -> None:
        self.states: dict[str, int] = {}
        self.loads: dict[str, Load] = {}
        self.flows: dict[tuple[str, str, str], list[int]] = {}
        self.stuck: dict[tuple[str, str], dict[str, None]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: WorkloadRow) -> None:
        self._count(row, 1)
        if row.code and row.code not in ORDINARY:
            self.stuck.setdefault((row.code, row.namespace), {})[row.uid] = None

    def remove(self, row: WorkloadRow) -> None:
        """`row`: as it was added."""
        self._count(row, -1)
        place = (row.code, row.namespace)
        if row.uid in self.stuck.get(place, ()):
            del self.stuck[place][row.uid]
            if not self.stuck[place]:
                del self.stuck[place]

    def _count(self, row: WorkloadRow, by: int) -> None:
        self.states[row.state] = self.states.get(row.state, 0) + by
        if row.cluster:
            self.loads.setdefault(row.cluster, Load()).count(row, by)
        elif row.state == "Pending":
            for name in row.nominated:
                self.loads.setdefault(name, Load()).racing += by
        if not row.is_over:
            for name in (row.cluster,) if row.cluster else row.nominated:
                self.flows.setdefault((row.namespace, row.queue, name), [0, 0])[bool(row.cluster)] += by

    def take(self, other: Tally) -> None:
        """Counts all that the other has counted."""
        for state, count in other.states.items():
            self.states[state] = self.states.get(state, 0) + count
        for name, load in other.loads.items():
            mine = self.loads.setdefault(name, Load())
            for field in ("racing", "starting", "running", "done", "failed"):
                setattr(mine, field, getattr(mine, field) + getattr(load, field))
            for resource, amount in load.amounts.items():
                mine.amounts[resource] = mine.amounts.get(resource, 0) + amount
        self.flows |= other.flows
        self.stuck |= other.stuck


def merged(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies of different namespaces."""
    total = Tally()
    for each in tallies:
        total.take(each)
    return total
