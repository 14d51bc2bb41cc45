"""What is told of a workload, and as which CloudEvent.

The identifier of a notice follows from what happened alone. So whoever tells it again, after a crash or from another recorder,
tells it by the same one, and a receiver drops what it knows.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from multikueue.api.meta import render_time
from multikueue_console.history.runs import Run

__all__ = ["Notice", "NoticeKind", "event_of", "notice_of_wait"]

TYPE = "dev.multikueue.workload."
"""What the types of all events begin with."""


class NoticeKind(StrEnum):
    """`MOVED` is a start on another cluster than that of the run before, `STARTED` any other start."""

    STARTED = "started"
    MOVED = "moved"
    WAITS = "waits"
    FAILED = "failed"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at `at` to the workload of `run`. `moved_from`: the cluster of the run before."""

    id: str
    kind: NoticeKind
    at: datetime
    run: Run
    moved_from: str = ""


def notice_of_wait(run: Run, longest: timedelta) -> Notice | None:
    """The notice that this wait took longer, at the moment when it did; None if its beginning is not known."""
    if run.queued_at is None:
        return None
    at = run.queued_at + longest
    return Notice(id=f"{run.workload}/waits/{render_time(at)}", kind=NoticeKind.WAITS, at=at, run=run)


def event_of(notice: Notice, source: str) -> bytes:
    """The CloudEvent 1.0 in JSON, structured: attributes and data are one object. What is not known is left out."""
    run = notice.run
    data: dict[str, Any] = {
        "namespace": run.namespace,
        "workload": run.name,
        "uid": run.workload,
        "user": run.user,
        "queue": run.queue,
        "clusterQueue": run.cluster_queue,
        "cluster": run.cluster,
        "movedFrom": notice.moved_from,
        "queuedAt": _time(run.queued_at),
        "reservedAt": _time(run.reserved_at),
        "startedAt": _time(run.started_at),
        "endedAt": _time(run.ended_at),
        "reason": run.reason,
    }
    event = {
        "specversion": "1.0",
        "id": notice.id,
        "source": source,
        "type": TYPE + notice.kind,
        "subject": f"{run.namespace}/{run.name}",
        "time": render_time(notice.at),
        "datacontenttype": "application/json",
        "data": {name: value for name, value in data.items() if value},
    }
    return msgspec.json.encode(event)


def _time(at: datetime | None) -> str:
    return render_time(at) if at is not None else ""
