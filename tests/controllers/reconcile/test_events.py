"""Events are told once, in order, and never in the way."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest

from fakekube.model.wire import Request
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.controllers.reconcile.events import AT_MOST, REMEMBERED, SILENCE, Recorder
from multikueue.errors import Forbidden
from multikueue.kube.decode import stub_of
from tests.builders import NOW, workload
from tests.cluster import Cluster

pytestmark = pytest.mark.anyio


class Told:
    def __init__(self) -> None:
        self.time = NOW
        self.recorder = Recorder(self.now)
        self.cluster = Cluster("manager", self.now)
        self.cluster.put(kinds.NAMESPACES, {"metadata": {"name": "ns"}})

    def now(self) -> datetime:
        return self.time

    def say(self, message: str, name: str = "wl", *, type_: str = "Warning") -> None:
        about = workload(name).build()
        self.recorder.emit(kinds.WORKLOADS, about, type_=type_, reason="MultiKueue", message=message)

    async def sent(self) -> list[str]:
        with anyio.move_on_after(0.05):
            await self.recorder.run(self.cluster)
        events = sorted(self.cluster.all(kinds.EVENTS), key=lambda body: int(body["metadata"]["resourceVersion"]))
        return [body["message"] for body in events]

    def set_aside(self, kind: Kind[Any], why: str, **metadata: str) -> None:
        self.recorder.unreadable("", kind, stub_of(json.dumps({"metadata": metadata}).encode()), why)


async def test_the_same_words_are_said_once_in_a_while() -> None:
    told = Told()
    told.say("lost")
    told.say("lost")
    told.say("found")
    told.say("lost", name="other")
    assert await told.sent() == ["lost", "found", "lost"]
    told.time += SILENCE
    told.say("lost")
    assert await told.sent() == ["lost", "found", "lost", "lost"]


async def test_a_warning_goes_first_and_a_burst_of_normal_events_drops_none() -> None:
    told = Told()
    told.say("lost")
    for number in range(REMEMBERED + 1):
        told.say("won", name=f"wl{number}", type_="Normal")
    told.say("lost")
    messages = [body["message"] for body in told.recorder.waiting()]
    assert messages == ["lost", *["won"] * REMEMBERED], "it is not said again either"
    told.cluster.fault = lambda _verb, _plural: Forbidden(403, "Forbidden", "no") if told.cluster.written else None
    assert await told.sent() == ["lost"]


async def test_an_event_names_its_object() -> None:
    told = Told()
    told.say("lost")
    await told.sent()
    (body,) = told.cluster.all(kinds.EVENTS)
    assert body["involvedObject"]["kind"] == "Workload"
    assert (body["metadata"]["namespace"], body["firstTimestamp"]) == ("default", "2026-01-01T12:00:00Z")


async def test_an_event_that_is_refused_is_lost_and_the_next_one_is_not() -> None:
    told = Told()
    refusals = iter([Forbidden(403, "Forbidden", "no")])
    told.cluster.fault = lambda _verb, _plural: next(refusals, None)
    told.say("first")
    told.say("second")
    assert await told.sent() == ["second"]


async def test_long_words_are_cut() -> None:
    told = Told()
    told.say("x" * 5000)
    assert [len(message) for message in await told.sent()] == [1024]


def test_silence_is_minutes() -> None:
    assert timedelta(minutes=1) < SILENCE < timedelta(hours=1)


async def test_much_ado_about_one_thing_is_cut_short() -> None:
    told = Told()
    for number in range(AT_MOST + 3):
        told.say(f"attempt {number} failed")
    told.say("another thing", name="other")
    assert len(await told.sent()) == AT_MOST + 1
    told.time += SILENCE
    told.say("attempt 99 failed")
    assert (await told.sent())[-1] == "attempt 99 failed"


@pytest.mark.parametrize(
    ("kind", "metadata", "namespace"),
    [
        pytest.param(kinds.JOBS, {"name": "odd", "namespace": "ns", "uid": "u-1"}, "ns", id="in a namespace"),
        pytest.param(kinds.CLUSTER_QUEUES, {"name": "odd", "uid": "u-1"}, "default", id="in none"),
    ],
)
async def test_an_object_that_is_set_aside_says_so(kind: Kind[Any], metadata: dict[str, str], namespace: str) -> None:
    told = Told()
    told.set_aside(kind, "it is nested too deeply", **metadata)
    assert await told.sent() == ["it is nested too deeply"]
    (body,) = told.cluster.all(kinds.EVENTS)
    about = {"apiVersion": kind.api_version, "kind": kind.kind, "namespace": "", **metadata}
    assert (body["involvedObject"], body["metadata"]["namespace"]) == (about, namespace)
    assert (body["type"], body["reason"]) == ("Warning", "Unreadable")


async def test_one_that_is_set_aside_says_each_reason_once_however_often_it_is_listed() -> None:
    told = Told()
    for why in ("odd", "odd", "deep", "odd"):
        told.set_aside(kinds.JOBS, why, name="odd", namespace="ns", uid="u-1")
    assert await told.sent() == ["odd", "deep"]


async def test_what_nobody_can_name_says_nothing() -> None:
    told = Told()
    told.set_aside(kinds.JOBS, "odd")
    assert await told.sent() == []


async def test_what_waited_for_a_leader_for_long_is_no_news() -> None:
    told = Told()
    told.say("long ago")
    told.time += SILENCE
    told.say("just now")
    assert await told.sent() == ["just now"]


async def hangs(_request: Request) -> None:
    await anyio.sleep_forever()


async def test_the_next_life_sends_what_the_last_one_left() -> None:
    told = Told()
    told.say("first")
    told.say("second")
    answering, told.cluster.api.before = told.cluster.api.before, hangs
    with anyio.move_on_after(0.01):
        await told.recorder.run(told.cluster)
    told.cluster.api.before = answering
    assert await told.sent() == ["second"]


async def test_what_became_of_events_is_counted() -> None:
    told = Told()
    refusals = iter([Forbidden(403, "Forbidden", "no")])
    told.cluster.fault = lambda _verb, _plural: next(refusals, None)
    for message in ("first", "second", "second"):
        told.say(message)
    await told.sent()
    exposed = told.recorder.metrics.render().decode()
    for outcome in ("lost", "sent", "suppressed"):
        assert f'multikueue_events_total{{outcome="{outcome}",reason="MultiKueue"}} 1.0' in exposed
