"""Logs of simulated pods: a line a second, made from the Pod object, so that they can be read and followed.

A pod that goes on elsewhere starts over, as one without a checkpoint does: its first line says on which cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fakekube.model.refusals import method_not_allowed
from fakekube.model.wire import Object, Refused, Request, Response, Watch
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server, Timer
from fakekube.server.verbs.reads import present

__all__ = ["PodLogs", "lines", "wanted"]

_STEP = timedelta(seconds=1)
_TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log, and its time."""

    at: datetime
    text: str

    def rendered(self, query: Any) -> bytes:
        stamp = f"{self.at:%Y-%m-%dT%H:%M:%S.%fZ} " if query.get("timestamps") == "true" else ""
        return f"{stamp}{self.text}\n".encode()


def lines(pod: Object, cluster: str, now: datetime) -> list[LogLine]:
    """All lines of a pod until now."""
    begun, ended, failed = _life(pod)
    if begun is None or begun > now:
        return []
    last = min(now, ended) if ended is not None else now
    found = [LogLine(begun, f"{pod['metadata']['name']} begins on {cluster}")]
    found += [LogLine(at, f"step {n:3}  loss {2.5 / (1 + n) ** 0.5:.3f}") for n, at in _steps(begun, last)]
    if ended is not None and ended <= now:
        found.append(LogLine(ended, "failed with exit code 1" if failed else "done"))
    return found


def wanted(found: list[LogLine], query: Any, now: datetime) -> list[LogLine]:
    """The lines that a request asks for."""
    if query.get("sinceSeconds"):
        oldest = now - timedelta(seconds=int(query["sinceSeconds"]))
        found = [line for line in found if line.at >= oldest]
    tail = int(query.get("tailLines") or len(found))
    return found[len(found) - min(tail, len(found)) :]


def _steps(begun: datetime, last: datetime) -> Iterator[tuple[int, datetime]]:
    for number in range(1, int((last - begun) / _STEP) + 1):
        yield number, begun + number * _STEP


def _life(pod: Object) -> tuple[datetime | None, datetime | None, bool]:
    """The start, the end, and whether it failed."""
    status = pod.get("status") or {}
    ends = [(each.get("state") or {}).get("terminated") for each in status.get("containerStatuses") or ()]
    end = next((each for each in ends if each), None)
    start = status.get("startTime")
    ended = datetime.fromisoformat(end["finishedAt"]) if end else None
    return datetime.fromisoformat(start) if start else None, ended, bool(end and end["exitCode"])


class PodLogs:
    """Answers for the logs of a cluster's pods."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    async def __call__(self, server: Server, route: Route, request: Request) -> Response | Watch:
        if request.method != "GET":
            raise method_not_allowed()
        pod, now = present(server, route).object, server.now()
        found = lines(pod, self._cluster, now)
        chosen = b"".join(line.rendered(request.query) for line in wanted(found, request.query, now))
        if request.query.get("follow") != "true" or _life(pod)[1] is not None:
            return Response(body=chosen, content_type=_TEXT)
        return _Following(self, server, route, request, chosen, len(found))

    def after(self, server: Server, route: Route, uid: str, count: int) -> tuple[list[LogLine], bool]:
        """The lines after the first `count` ones, and whether these were the last."""
        try:
            pod = present(server, route).object
        except Refused:
            return [], True
        if pod["metadata"]["uid"] != uid:
            return [], True
        return lines(pod, self._cluster, server.now())[count:], _life(pod)[1] is not None


class _Following(Watch):
    """A log that is followed: once a second it is looked at again, until its pod ends or goes."""

    content_type = _TEXT

    def __init__(self, logs: PodLogs, server: Server, route: Route, request: Request, first: bytes, count: int) -> None:
        super().__init__()
        self._logs, self._server, self._route, self._query = logs, server, route, request.query
        self._uid: str = present(server, route).object["metadata"]["uid"]
        self._count = count
        self._timer: Timer = server.scheduler.call_later(1.0, self._look)
        self.on_close = self._stop
        if first:
            self.feed(first)

    def _look(self) -> None:
        if self.ended:
            return
        found, over = self._logs.after(self._server, self._route, self._uid, self._count)
        self._count += len(found)
        for line in found:
            self.feed(line.rendered(self._query))
        if over:
            self.end()
        else:
            self._timer = self._server.scheduler.call_later(1.0, self._look)

    def _stop(self) -> None:
        self._timer.cancel()
