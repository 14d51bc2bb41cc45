"""Requests to an API server and its answers, over HTTP or by a call in the same process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

__all__ = ["JSON", "Json", "Object", "Refused", "Request", "Response", "User", "Watch", "object_of", "status_body"]

Json = Any
"""A decoded JSON value."""

Object = dict[str, Any]
"""A decoded Kubernetes object. A stored object is never changed: an update makes a new one that shares unchanged
parts."""

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str = "admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `path` is decoded and has no query; the last value of a repeated query parameter counts."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user: User = field(default_factory=User)
    user_agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class Watch:
    """The answer to a watch: a queue of lines, each with its line end.

    The server calls `feed` and `end`, the reader uses the rest. `wake`, if set, is called after each `feed` or `end`.
    """

    content_type = JSON

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        self.ended = False
        self.wake: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None

    async def fill(self) -> None:
        """Feed it for as long as it is read, where no other reader does."""

    def feed(self, line: bytes) -> None:
        self.lines.append(line)
        if self.wake is not None:
            self.wake()

    def end(self) -> None:
        """End the stream after the lines already in it."""
        self.ended = True
        if self.wake is not None:
            self.wake()

    def close(self) -> None:
        """Called by the reader when it disconnects."""
        self.ended = True
        if self.on_close is not None:
            self.on_close()
            self.on_close = None


class Refused(Exception):
    """A refusal of the server: a Kubernetes Status. `causes` are (reason, message, field)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        causes: Sequence[tuple[str, str, str]] = (),
        retry_after: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.metadata = dict(metadata or {})
        self.details, self.causes, self.retry_after = dict(details or {}), tuple(causes), retry_after

    def response(self) -> Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return Response(status=self.code, body=msgspec.json.encode(status_body(self)), headers=headers)


def object_of(answer: Response | Watch) -> Object:
    """The body of a complete answer. Raises Refused for a refusal."""
    assert isinstance(answer, Response)
    decoded: Object = msgspec.json.decode(answer.body)
    if answer.status >= 400:
        reason, message = decoded.get("reason", ""), decoded.get("message", "")
        raise Refused(answer.status, reason, message, details=decoded.get("details"))
    return decoded


def status_body(error: Refused) -> Object:
    """The Status object of a refusal, for an answer's body and a watch's ERROR line."""
    details = dict(error.details)
    if error.causes:
        causes = ({"reason": r, "message": m, "field": f} for r, m, f in error.causes)
        details["causes"] = [{key: text for key, text in cause.items() if text} for cause in causes]
    if error.retry_after is not None:
        details["retryAfterSeconds"] = error.retry_after
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": error.metadata,
        "status": "Failure",
        "message": error.message,
        **({"reason": error.reason} if error.reason else {}),
        **({"details": details} if details else {}),
        "code": error.code,
    }
