"""The scope of the watches on a worker: the namespaces that it offers, and the kinds that cannot be watched in each."""

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

__all__ = ["EVERYWHERE", "NAMESPACES_ANNOTATION", "WatchFailure", "WatchScope", "is_needed", "namespaces_of"]

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
    """Whether nothing works without the kind. If another kind is missing, only its jobs go elsewhere."""
    return kind in NEEDED


class WatchFailure(msgspec.Struct, frozen=True):
    """Why objects cannot be watched, since when, and the time of the last failed probe; None: nothing probes them."""

    why: str
    since: datetime
    last_failed_probe: datetime | None = None


@dataclass(slots=True)
class WatchScope:
    """The namespaces and kinds of one worker that can be watched. Owner: its connection. The worker has offered these
    `namespaces` since the time `since`."""

    since: datetime
    namespaces: tuple[str, ...] = EVERYWHERE
    _failures: dict[tuple[str, str], WatchFailure] = field(default_factory=dict)

    def offer(self, namespaces: tuple[str, ...], now: datetime) -> bool:
        """The worker offers these namespaces from now on. Returns whether that is new."""
        if namespaces == self.namespaces:
            return False
        self.since, self.namespaces = now, namespaces
        self._failures.clear()
        return True

    def record(self, kind: Kind[Any], namespace: str, why: str, now: datetime) -> bool:
        """The kind cannot be watched in a namespace, for the reason `why`; empty: it can. Returns whether that is new."""
        before = self._failures.pop((kind.name, namespace), None)
        if why:
            since = before.since if before is not None else now
            self._failures[kind.name, namespace] = WatchFailure(why, since, now)
        return why != (before.why if before is not None else "")

    def restart(self, now: datetime) -> None:
        """What cannot be watched, and what is not offered, counts from now on."""
        self.since = now
        for place, failure in self._failures.items():
            self._failures[place] = msgspec.structs.replace(failure, since=now)

    def failure(self, kind: str, namespace: str) -> WatchFailure | None:
        """Why jobs of a kind cannot be watched in a namespace; None if they can."""
        return self._failures.get((kind, self._collection(namespace)))

    def why_missing(self, kind: str, namespace: str) -> str:
        """Why no job of a kind can ever be in a namespace, unless the worker is changed; empty if one may."""
        if self._collection(namespace) not in self.namespaces:
            return f"namespace {namespace} is not offered"
        is_missing = kind not in _NEEDED_NAMES and self.failure(kind, namespace) is not None
        return f"{kind} is not there" if is_missing else ""

    def namespace_failure(self, namespace: str) -> WatchFailure | None:
        """Why nothing can be watched in a namespace; None if something can."""
        if not self._failures and self.namespaces == EVERYWHERE:  # nearly always
            return None
        collection = self._collection(namespace)
        if collection not in self.namespaces:
            return WatchFailure(f"it does not offer namespace {namespace}", self.since)
        return next(filter(None, (self._failures.get((kind.name, collection)) for kind in NEEDED)), None)

    def failed_namespaces(self) -> Iterator[tuple[str, str]]:
        """The offered namespaces in which nothing can be watched, and why."""
        found = ((namespace, self.namespace_failure(namespace)) for namespace in self.namespaces)
        return ((namespace, failure.why) for namespace, failure in found if failure is not None)

    def _collection(self, namespace: str) -> str:
        return "" if self.namespaces == EVERYWHERE else namespace
