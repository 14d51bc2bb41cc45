"""Events for people: told once, sent in the background, never in the way of work."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import anyio
import structlog

from multikueue.api.kinds import EVENTS, Kind
from multikueue.api.meta import Object, render_time
from multikueue.errors import MultiKueueError
from multikueue.kube.client import Client

log = structlog.get_logger()

REMEMBERED = 4096
SILENCE = timedelta(minutes=10)
"""The same words about the same object are not said again within this time."""


@dataclass(slots=True)
class Recorder:
    """Collects events; `run` sends them. Overflow drops the oldest: an event is a courtesy, not a record."""

    now: Callable[[], datetime]
    _waiting: deque[tuple[str, dict[str, Any]]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _said: OrderedDict[tuple[str, str, str], datetime] = field(default_factory=OrderedDict)
    _news: anyio.Event = field(default_factory=anyio.Event)

    def emit(self, kind: Kind[Any], about: Object, *, type_: str, reason: str, message: str) -> None:
        """Say something about an object; `type_` is Normal or Warning."""
        said, now = (about.metadata.uid, reason, message), self.now()
        last = self._said.get(said)
        if last is not None and now < last + SILENCE:
            return
        self._said[said] = now
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        self._waiting.append(_event(kind, about, now, type_=type_, reason=reason, message=message))
        self._news.set()

    async def run(self, client: Client) -> None:
        """Sends what was said, in order, for ever."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._waiting:
                namespace, body = self._waiting.popleft()
                await _send(client, namespace, body)


async def _send(client: Client, namespace: str, body: dict[str, Any]) -> None:
    try:
        await client.create(EVENTS, namespace, body)
    except MultiKueueError as error:
        log.debug("event.lost", error=str(error), reason=body["reason"])


def _event(
    kind: Kind[Any], about: Object, now: datetime, *, type_: str, reason: str, message: str
) -> tuple[str, dict[str, Any]]:
    namespace = about.metadata.namespace or "default"
    return namespace, {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.metadata.name[:230]}.{uuid4().hex[:16]}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
        },
        "type": type_,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": "multikueue"},
        "reportingComponent": "multikueue",
        "firstTimestamp": render_time(now),
        "lastTimestamp": render_time(now),
        "count": 1,
    }
