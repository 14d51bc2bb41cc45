"""An OCM hub in memory for the tests: Placements, and decisions written as OCM's placement controller writes them.

One pass over a Placement is a list of single writes, in the controller's order (ocm.md 2.4): each slice in turn is made
empty if it is missing, then gets its status; the labels of one that was there stay as they were; surplus slices go;
the Placement's status is last. Only a later pass corrects labels.

This is no API server but OCM's controller: nothing of it calls or watches, its objects go straight into the store's caches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from multikueue.api.kind import Kind
from multikueue.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS
from multikueue.api.meta import ObjectKey, encode
from multikueue.api.multikueue.ocm import FROZEN_ANNOTATION, GROUP_INDEX_LABEL, OCM_GROUP, PLACEMENT_LABEL
from multikueue.kube.decode import object_of
from multikueue.store.caches.placements import Placements
from multikueue.testing import NOW

Body = dict[str, Any]
Write = Callable[[], None]
Groups = Sequence[Sequence[str]]

NAMESPACE, NAME = "kueue-system", "gpu"
KEY = ObjectKey(NAMESPACE, NAME)


class Hub:
    """The objects as the API server has them, fed into a `Placements`; `touched` lists the workloads woken."""

    def __init__(self, *, begun: bool = True, slice_size: int = 100) -> None:
        self.time = NOW
        self.touched: list[str] = []
        self.slice_size = slice_size
        self.objects: dict[tuple[str, str], Body] = {}
        self._versions = itertools.count(1)
        self.start(begun=begun)

    def start(self, *, begun: bool = True) -> None:
        """A new process over the objects as they are."""
        self.placements = Placements(lambda key: self.touched.append(key.name), self.now)
        for (plural, _), body in self.objects.items():
            self._tell(plural, body)
        if begun:
            self.placements.begin()

    def now(self) -> datetime:
        return self.time

    def later(self, by: timedelta) -> None:
        self.time += by

    # Single writes.

    def place(self, *, uid: str = "uid-1", conditions: Sequence[Body] = (), frozen: bool = False, **meta: Any) -> None:
        """Somebody makes the Placement, or its conditions change."""
        old = self.objects.get((PLACEMENTS.plural, NAME), {})
        annotations = {FROZEN_ANNOTATION: "true"} if frozen else {}
        metadata = {"name": NAME, "namespace": NAMESPACE, "uid": uid, "annotations": annotations, **meta}
        self.put(PLACEMENTS, {"metadata": metadata, "status": {**old.get("status", {}), "conditions": [*conditions]}})

    def remove_placement(self) -> None:
        self.drop(PLACEMENTS, NAME)

    def slice(self, number: int, clusters: Sequence[str] | None, *, group: str = "0", uid: str = "uid-1") -> None:
        """One decision object as a whole; None for one without a status."""
        labels = {PLACEMENT_LABEL: NAME, GROUP_INDEX_LABEL: group}
        status = {} if clusters is None else {"status": {"decisions": [_decision(name) for name in clusters]}}
        self.put(PLACEMENT_DECISIONS, {"metadata": self._meta(number, labels, uid), **status})

    def put(self, kind: Kind[Any], body: Body) -> None:
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[kind.plural, body["metadata"]["name"]] = body
        self._tell(kind.plural, body)

    def drop(self, kind: Kind[Any], name: str) -> None:
        body = self.objects.pop((kind.plural, name))
        self._cache(kind.plural).remove(_value(kind.plural, body))

    # A pass of the controller.

    def decide(self, *groups: Sequence[str]) -> None:
        """A whole pass at once."""
        for write in self.passes(groups):
            write()

    def passes(self, groups: Groups) -> Iterator[Write]:
        """The writes of one pass."""
        wanted = [
            (index, part) for index, group in enumerate(groups) for part in _cut(sorted(group), self.slice_size)
        ] or [(0, [])]
        for number, (index, part) in enumerate(wanted, 1):
            if self._slice(number) is None:
                yield lambda number=number, index=index: self.slice(number, None, group=str(index))  # type: ignore[misc]
            yield lambda number=number, index=index, part=part: self._patch(number, index, part)  # type: ignore[misc]
        there = [name for plural, name in self.objects if plural == PLACEMENT_DECISIONS.plural]
        for name in there:
            if int(name.rpartition("-")[2]) > len(wanted):
                yield lambda name=name: self.drop(PLACEMENT_DECISIONS, name)  # type: ignore[misc]
        yield lambda: self._finish(wanted)

    def _patch(self, number: int, index: int, part: Sequence[str]) -> None:
        """The status, or the labels if the status is right already."""
        body = self._slice(number)
        assert body is not None
        decisions = [_decision(name) for name in part]
        if body.get("status", {}).get("decisions") == decisions:
            body["metadata"]["labels"][GROUP_INDEX_LABEL] = str(index)
        self.put(PLACEMENT_DECISIONS, body | {"status": {"decisions": decisions}})

    def _finish(self, wanted: Sequence[tuple[int, Sequence[str]]]) -> None:
        groups: dict[int, list[str]] = {}
        for number, (index, _) in enumerate(wanted, 1):
            groups.setdefault(index, []).append(f"{NAME}-decision-{number}")
        listed = [{"decisionGroupIndex": index, "decisions": names} for index, names in groups.items()]
        total = sum(len(part) for _, part in wanted)
        satisfied = condition("PlacementSatisfied", "True" if total else "False", "No clusters")
        body = self.objects[PLACEMENTS.plural, NAME]
        self.put(PLACEMENTS, body | {"status": {"decisionGroups": listed, "conditions": [satisfied]}})

    def _slice(self, number: int) -> Body | None:
        return self.objects.get((PLACEMENT_DECISIONS.plural, f"{NAME}-decision-{number}"))

    def _meta(self, number: int, labels: Body, uid: str) -> Body:
        owner = {"apiVersion": f"{OCM_GROUP}/v1beta1", "kind": "Placement", "name": NAME, "uid": uid}
        name = f"{NAME}-decision-{number}"
        return {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"{name}-{next(self._versions)}",
            "labels": labels,
            "ownerReferences": [owner],
        }

    def _tell(self, plural: str, body: Body) -> None:
        self._cache(plural).upsert(_value(plural, body))

    def _cache(self, plural: str) -> Any:
        return self.placements.placements if plural == PLACEMENTS.plural else self.placements.decisions


def condition(type_: str, status: str, message: str = "") -> Body:
    return {"type": type_, "status": status, "reason": "Tested", "message": message}


def _value(plural: str, body: Body) -> Any:
    kind: Kind[Any] = PLACEMENTS if plural == PLACEMENTS.plural else PLACEMENT_DECISIONS
    value_type: Any = kind.type
    return object_of(value_type)(encode(body))


def _decision(cluster: str) -> Body:
    return {"clusterName": cluster, "reason": ""}


def _cut(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
