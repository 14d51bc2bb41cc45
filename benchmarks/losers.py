"""What copies cost that do not win: quota of workers that they hold, and workloads that they put out of it.

Told by the watches of all clusters alone. A copy is called like the workload on the manager cluster. Whom Kueue puts out
has the condition `Preempted`, which says for which workload that was, by its UID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

__all__ = ["Losers"]

PREEMPTOR = re.compile(r"\(UID: ([^,)]+)")


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    message: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    cluster_name: str | None = None


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()

    def said(self, condition: str) -> str | None:
        """The message of a condition that is true."""
        return next((c.message for c in self.status.conditions if (c.type, c.status) == (condition, "True")), None)


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: _Workload


_event = msgspec.json.Decoder(_Event).decode


@dataclass(slots=True)
class Losers:
    """Knows at the end who won, and so which of all the copies did not."""

    winners: dict[str, str] = field(default_factory=dict)
    """The MultiKueueCluster by workload."""

    _names: dict[tuple[str, str], str] = field(default_factory=dict)  # by cluster and UID
    _since: dict[tuple[str, str], float] = field(default_factory=dict)  # by cluster and name
    _spans: list[tuple[str, str, float]] = field(default_factory=list)  # cluster, name and seconds
    _preempted: set[tuple[str, str, str]] = field(
        default_factory=set
    )  # cluster, UID of the victim and of the preemptor

    def on_workload(self, line: bytes) -> str:
        """A line of the watch on the manager cluster; answers its version."""
        seen = _event(line).object
        if seen.status.cluster_name:
            self.winners[seen.metadata.name] = seen.status.cluster_name
        return seen.metadata.resource_version

    def on_copy(self, cluster: str, line: bytes, at: float) -> str:
        """A line of the watch on a worker; answers its version."""
        event = _event(line)
        seen, about = event.object, event.object.metadata
        self._names[cluster, about.uid] = about.name
        held = event.type != "DELETED" and seen.said("QuotaReserved") is not None
        if held:
            self._since.setdefault((cluster, about.name), at)
        elif (since := self._since.pop((cluster, about.name), None)) is not None:
            self._spans.append((cluster, about.name, at - since))
        if found := PREEMPTOR.search(seen.said("Preempted") or ""):
            self._preempted.add((cluster, about.uid, found[1]))
        return about.resource_version

    def seconds(self) -> float:
        """For how long copies had quota that did not win, together."""
        return sum(seconds for cluster, name, seconds in self._spans if self._lost(cluster, name))

    def preemptions(self) -> int:
        """How many workloads were put out for copies that did not win."""
        preemptors = [(cluster, self._names.get((cluster, uid), "")) for cluster, _, uid in self._preempted]
        return sum(self._lost(cluster, name) for cluster, name in preemptors)

    def _lost(self, cluster: str, name: str) -> bool:
        return name in self.winners and self.winners[name] != cluster
