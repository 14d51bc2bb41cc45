from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kubernetes.printed import PRINTED_EVENTS, PrintedEvent, PrintedPod
from multikueue.api.meta import decoder, render_time


def event(**fields: Any) -> PrintedEvent:
    return decoder(PrintedEvent)(
        msgspec.json.encode({"metadata": {"creationTimestamp": "2026-01-01T12:00:00Z"}, **fields})
    )


@pytest.mark.parametrize(
    ("told", "minute"),
    [
        (event(), 0),
        (event(firstTimestamp="2026-01-01T12:01:00Z", lastTimestamp=None), 1),
        (event(eventTime="2026-01-01T12:02:00.000000Z", firstTimestamp=None), 2),
        (event(lastTimestamp="2026-01-01T12:03:00Z", firstTimestamp="2026-01-01T12:01:00Z"), 3),
        (event(series={"lastObservedTime": "2026-01-01T12:04:00.5Z"}, lastTimestamp="2026-01-01T12:03:00Z"), 4),
    ],
    ids=["made", "first seen", "seen once", "seen last", "a series"],
)
def test_the_time_of_an_event_is_when_it_was_seen_last(told: PrintedEvent, minute: int) -> None:
    assert told.at is not None
    assert render_time(told.at) == f"2026-01-01T12:0{minute}:00Z"


def test_what_servers_write_is_read() -> None:
    status = {"podIP": "10.0.0.1", "containerStatuses": None, "initContainerStatuses": [{"name": "a", "state": {}}]}
    pod = decoder(PrintedPod)(msgspec.json.encode({"spec": {"nodeName": "n", "volumes": []}, "status": status}))
    assert (pod.status.pod_ip, pod.spec.node_name, pod.status.init_container_statuses[0].name) == ("10.0.0.1", "n", "a")
    assert PRINTED_EVENTS.collection("default") == "/api/v1/namespaces/default/events"
