"""Visibility of a worker: the namespaces that it offers, and what is missing in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, WORKLOADS
from multikueue.api.kubernetes.builtins import is_namespace
from multikueue.api.multikueue.clusters import MultiKueueCluster

__all__ = ["EVERYWHERE", "NAMESPACES_ANNOTATION", "Lack", "Sight", "is_needed", "namespaces_of"]

NAMESPACES_ANNOTATION = "multikueue.dev/namespaces"
"""On a MultiKueueCluster: the namespaces, comma separated, in which the worker lets us run jobs. Default: all."""

EVERYWHERE = ("",)
"""The namespaces of a worker that offers all: one collection of each kind."""

NEEDED = (WORKLOADS, JOBS)
_NEEDED_NAMES = frozenset(kind.name for kind in NEEDED)


def namespaces_of(cluster: MultiKueueCluster) -> tuple[str, ...]:
    """The namespaces that a worker offers. Invalid names are ignored."""
    text = cluster.metadata.annotations.get(NAMESPACES_ANNOTATION)
    if text is None:
        return EVERYWHERE
    return tuple(sorted({name for each in text.split(",") if is_namespace(name := each.strip())}))


def is_needed(kind: Kind[Any]) -> bool:
    """Whether nothing works without the kind. Where any other kind is missing, only its jobs go elsewhere."""
    return kind in NEEDED


class Lack(msgspec.Struct, frozen=True):
    """Why something is not visible, since when, and the time of the last failed probe; None: nothing probes it."""

    why: str
    since: datetime
    last_failed_probe: datetime | None = None


@dataclass(slots=True)
class Sight:
    """Visibility of one worker. Owner: its connection. `since`: when it began to offer these `namespaces`."""

    since: datetime
    namespaces: tuple[str, ...] = EVERYWHERE
    _lacking: dict[tuple[str, str], Lack] = field(default_factory=dict)

    def offer(self, namespaces: tuple[str, ...], now: datetime) -> bool:
        """The worker offers these namespaces from now on. Returns whether that is new."""
        if namespaces == self.namespaces:
            return False
        self.since, self.namespaces = now, namespaces
        self._lacking.clear()
        return True

    def note(self, kind: Kind[Any], namespace: str, why: str, now: datetime) -> bool:
        """The kind is not visible in a namespace, for this reason (empty: it is). Returns whether that is new."""
        before = self._lacking.pop((kind.name, namespace), None)
        if why:
            since = before.since if before is not None else now
            self._lacking[kind.name, namespace] = Lack(why, since, now)
        return why != (before.why if before is not None else "")

    def lack(self, kind: str, namespace: str) -> Lack | None:
        """Why a namespace there can have no jobs of a kind; None if it can."""
        return self._lacking.get((kind, self._collection(namespace)))

    def missing(self, kind: str, namespace: str) -> str:
        """Why no job of a kind will ever be in a namespace there, unless the worker is changed; empty if one may."""
        if self._collection(namespace) not in self.namespaces:
            return f"namespace {namespace} is not offered"
        lacking = kind not in _NEEDED_NAMES and self.lack(kind, namespace) is not None
        return f"{kind} is not there" if lacking else ""

    def blindness(self, namespace: str) -> Lack | None:
        """Why nothing of a namespace is visible; None if it is."""
        collection = self._collection(namespace)
        if collection not in self.namespaces:
            return Lack(f"it does not offer namespace {namespace}", self.since)
        if not self._lacking:  # nearly always
            return None
        return next(filter(None, (self._lacking.get((kind.name, collection)) for kind in NEEDED)), None)

    def blind(self) -> Iterator[tuple[str, str]]:
        """The offered namespaces of which nothing is visible, and why."""
        found = ((namespace, self.blindness(namespace)) for namespace in self.namespaces)
        return ((namespace, lack.why) for namespace, lack in found if lack is not None)

    def _collection(self, namespace: str) -> str:
        return "" if self.namespaces == EVERYWHERE else namespace
