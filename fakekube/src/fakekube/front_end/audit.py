"""Audit events of one API server: one per resource request, to count, or to write and read in kube-apiserver's format.

A watch is recorded when it begins, any other request when it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from fakekube.front_end.attributes import Attributes, attributes
from fakekube.model.wire import Request

__all__ = ["WRITES", "Call", "Event", "Log", "Record", "event", "read"]

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Call(NamedTuple):
    """The key by which requests are counted; `agent` is the user agent up to the first slash."""

    user: str
    agent: str
    verb: str
    resource: str

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @property
    def is_watch(self) -> bool:
        return self.verb == "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One request. `resource` includes the subresource: `jobs/status`; `received` is an RFC 3339 time with
    microseconds."""

    user: str
    user_agent: str
    verb: str
    resource: str
    group: str
    version: str
    namespace: str
    name: str
    code: int
    received: str

    @property
    def call(self) -> Call:
        return Call(self.user, self.user_agent.partition("/")[0], self.verb, self.resource)


Record = Callable[[Event], None]
"""Receives each event: `list.append`, or a Log."""


def event(request: Request, code: int, *, received: datetime) -> Event | None:
    """The event of an answered request or a begun watch; None for a non-resource request."""
    asked = attributes(request)
    if not asked.resource:
        return None
    return Event(
        user=request.user.name,
        user_agent=request.user_agent,
        verb=asked.verb,
        resource=asked.qualified,
        group=asked.group,
        version=asked.version,
        namespace=asked.namespace,
        name=asked.name or _name_in(request, asked),
        code=code,
        received=received.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Body(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


_decode = msgspec.json.Decoder(_Body).decode


def _name_in(request: Request, asked: Attributes) -> str:
    """The name in the body of a create, whose path has none."""
    if asked.verb != "create":
        return ""
    try:
        return _decode(request.body).metadata.name
    except (msgspec.MsgspecError, RecursionError):
        return ""


class Log:
    """Appends events to a file, one line of JSON each, in the format of kube-apiserver's audit log."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("ab", buffering=0)

    def __call__(self, event: Event) -> None:
        resource, _, subresource = event.resource.partition("/")
        target = {
            "resource": resource,
            "namespace": event.namespace,
            "name": event.name,
            "apiGroup": event.group,
            "apiVersion": event.version,
            "subresource": subresource,
        }
        entry = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": "ResponseStarted" if event.verb == "watch" else "ResponseComplete",
            "verb": event.verb,
            "user": {"username": event.user},
            "userAgent": event.user_agent,
            "objectRef": {key: value for key, value in target.items() if value},
            "responseStatus": {"code": event.code},
            "requestReceivedTimestamp": event.received,
        }
        self._file.write(msgspec.json.encode(entry) + b"\n")

    def close(self) -> None:
        self._file.close()


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Target(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    subresource: str = ""
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""


class _Answer(msgspec.Struct, frozen=True):
    code: int = 0


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    stage: str
    verb: str
    user: _User
    user_agent: str = ""
    object_ref: _Target | None = None
    response_status: _Answer = _Answer()
    request_received_timestamp: str = ""


_entry = msgspec.json.Decoder(_Entry).decode


def read(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of the lines of a log, ours or kube-apiserver's. Raises msgspec.MsgspecError for a line of another form.

    kube-apiserver writes two lines for a watch, when it begins and when it ends; the second is left out.
    """
    for line in lines:
        entry = _entry(line)
        target = entry.object_ref
        if target is None or (entry.stage == "ResponseStarted") != (entry.verb == "watch"):
            continue
        yield Event(
            user=entry.user.username,
            user_agent=entry.user_agent,
            verb=entry.verb,
            resource="/".join(part for part in (target.resource, target.subresource) if part),
            group=target.api_group,
            version=target.api_version,
            namespace=target.namespace,
            name=target.name,
            code=entry.response_status.code,
            received=entry.request_received_timestamp,
        )
