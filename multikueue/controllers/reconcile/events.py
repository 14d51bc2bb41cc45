"""Events for people: without repetitions, few about one object, and sent in the background so that no work waits."""

from __future__ import annotations

import logging
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import anyio

from multikueue.api.kind import Kind
from multikueue.api.kinds import EVENTS
from multikueue.api.meta import Object, render_time
from multikueue.errors import MultiKueueError
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.decode import Stub
from multikueue.telemetry import get_logger
from multikueue.telemetry.metrics import Metrics

log = get_logger()

REMEMBERED = 4096
SILENCE = timedelta(minutes=10)
"""The same message about the same object is not sent again within this time."""

AT_MOST = 5
"""Maximum number of events about one object for one reason within that time, whatever their messages: an error text
that changes with each attempt is no news."""

LONGEST = 1024
"""Characters in the message of an event; the API takes no more."""

_Topic = tuple[str, str]
_Waiting = tuple[datetime, str, dict[str, Any]]


def some(texts: Sequence[str], most: int, between: str = "; ") -> str:
    """So many of the texts, and the number of the others."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return between.join(texts[:most]) + more


def log_state(plural: str) -> Callable[[bool, str], None]:
    """A callback that logs each time a watch of the manager cluster is established or broken."""

    def on_state(is_healthy: bool, why: str) -> None:
        log.log(
            logging.INFO if is_healthy else logging.WARNING,
            "watch.stands" if is_healthy else "watch.broken",
            kind=plural,
            why=why,
        )

    return on_state


def log_unreadable(cluster: str, kind: Kind[Any], about: Object | Stub, why: str) -> None:
    """Logs that an object cannot be decoded or cached: its last version stays, and nothing is decided about it."""
    log.error("object.unreadable", cluster=cluster or "manager", kind=kind.kind, object=str(about.key), error=why)


@dataclass(slots=True)
class _Line:
    """The events of one type that wait to be sent, oldest first, and those sent lately."""

    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _said: OrderedDict[_Topic, dict[str, datetime]] = field(default_factory=OrderedDict)

    def is_news(self, topic: _Topic, message: str, now: datetime) -> bool:
        """Whether neither `SILENCE` nor `AT_MOST` suppresses the message; if so, records it as sent now."""
        said = {words: when for words, when in self._said.pop(topic, {}).items() if now < when + SILENCE}
        is_news = message not in said and len(said) < AT_MOST
        if is_news:
            said[message] = now
        self._said[topic] = said
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        return is_news


@dataclass(slots=True)
class Recorder:
    """Collects events; `run` sends them, while this process leads. Overflow drops the oldest event of the type, and an
    event that waited for `SILENCE` is dropped as well: an event is no record.

    Warnings have a line of their own, which goes first: a burst of Normal events, such as one per win, neither drops
    nor delays a warning, nor is a warning repeated for it.
    """

    now: Callable[[], datetime]
    metrics: Metrics = field(default_factory=Metrics)
    _warnings: _Line = field(default_factory=_Line)
    _normal: _Line = field(default_factory=_Line)
    _news: anyio.Event = field(default_factory=anyio.Event)

    def unreadable(self, cluster: str, kind: Kind[Any], about: Object | Stub, why: str) -> None:
        """Logs an unreadable object of the manager cluster, and emits an event about it where its key is known."""
        log_unreadable(cluster, kind, about, why)
        if about.key is not None:
            self.emit(kind, about, type_="Warning", reason="Unreadable", message=why)

    def emit(self, kind: Kind[Any], about: Object | Stub, *, type_: str, reason: str, message: str) -> None:
        """Queues an event about an object; `type_` is Normal or Warning."""
        now, message = self.now(), message[:LONGEST]
        line = self._normal if type_ == "Normal" else self._warnings
        if not line.is_news((about.metadata.uid, reason), message, now):
            self._count(reason, "suppressed")
            return
        if len(line.waiting) == REMEMBERED:
            self._count(line.waiting[0][2]["reason"], "lost")
        namespace, body = _event(kind, about, now, type_=type_, reason=reason, message=message)
        line.waiting.append((now, namespace, body))
        self._news.set()

    def waiting(self) -> Iterator[dict[str, Any]]:
        """The events to be sent, in order."""
        return (body for line in (self._warnings, self._normal) for _, _, body in line.waiting)

    def _count(self, reason: str, outcome: str) -> None:
        self.metrics.guarded("events", lambda: self.metrics.events(reason, outcome).inc())()

    async def run(self, client: ClusterClient) -> None:
        """Sends the collected events forever: warnings first, and each type in order."""
        while True:
            while waiting := self._warnings.waiting or self._normal.waiting:
                said, namespace, body = waiting.popleft()
                if self.now() < said + SILENCE:
                    await self._send(client, namespace, body)
                else:
                    self._count(body["reason"], "lost")
            await self._news.wait()
            self._news = anyio.Event()

    async def _send(self, client: ClusterClient, namespace: str, body: dict[str, Any]) -> None:
        try:
            await client.create(EVENTS, namespace, body)
        except MultiKueueError as error:
            self._count(body["reason"], "lost")
            log.debug("event.lost", error=str(error), reason=body["reason"])
        else:
            self._count(body["reason"], "sent")


def _event(
    kind: Kind[Any], about: Object | Stub, now: datetime, *, type_: str, reason: str, message: str
) -> tuple[str, dict[str, Any]]:
    namespace = about.metadata.namespace or "default"
    name = f"{about.metadata.name[:230]}.{random.getrandbits(64):016x}"
    return namespace, {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
        },
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": "multikueue"},
        "reportingComponent": "multikueue",
        "firstTimestamp": render_time(now),
        "lastTimestamp": render_time(now),
        "count": 1,
    }
