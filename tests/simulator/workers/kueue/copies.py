"""What the tests of the simulated Kueue share."""

from __future__ import annotations

from datetime import timedelta

from fakekube.model.wire import Object

SECOND = timedelta(seconds=1)


def active(body: Object | None) -> tuple[str, str]:
    assert body is not None
    (condition,) = (c for c in body["status"]["conditions"] if c["type"] == "Active")
    return condition["status"], condition["reason"]
