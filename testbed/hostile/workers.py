"""Attacks of a worker, one file, a table: answers of its API server (by the liar before it), and contents of its objects."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from aiohttp import web

from testbed import objects
from testbed.client import ApiError
from testbed.hostile.case import Account, Case, Play
from testbed.hostile.liar import Change, Liar, Lie
from testbed.hostile.stage import HOSTILE, QUEUE, Stage
from testbed.objects import CLUSTER_QUEUE, JOB, WORKLOAD, Object

__all__ = ["CASES", "LIES", "Told"]

JSON = "application/json"
DIGITS = "9" * 5000
FAR = "9999-12-31T23:59:59Z"
LONG = "m" * 32_768
ORIGIN = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
LARGE = 9 * 2**17
FOREVER = 10**9
FOLLOW = "multikueue.dev/follow-capacity"
BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Workload","apiVersion":"kueue.x-k8s.io/v1beta2",'
    b'"metadata":{"resourceVersion":"7","creationTimestamp":null},"spec":{}}}\n'
)
EXPIRED = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "x"}


# Answers of the API server


@dataclass(frozen=True, slots=True)
class Told:
    """Has the liar tell the lie for `dwell` seconds; with `reconnects` to a new connection of the manager. A worker that is
    unreachable harms only itself."""

    lie: Lie
    dwell: float = 3.0
    reconnects: bool = False

    async def __call__(self, stage: Stage) -> Account:
        stage.undo.push_async_callback(stage.introduce_liar)
        stage.undo.callback(stage.liar.tell, None)
        stage.liar.tell(self.lie)
        if self.reconnects:
            await stage.introduce_liar()
        await anyio.sleep(self.dwell)

        async def account() -> str:
            times = f"told {stage.liar.told} times; " if stage.liar.told else ""
            return times + await stage.cluster_says()

        return account


def answered(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Lie:
    """This answer to every request."""

    async def lie(_: Liar, __: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"Content-Type": JSON, **(headers or {})})

    return lie


def listed(lie: Lie, *plurals: str) -> Lie:
    """The lie for lists of these kinds (default: workloads and jobs); watches get 410, so that clients list again."""

    async def choose(liar: Liar, request: web.Request) -> web.StreamResponse | None:
        if request.method != "GET" or request.path.rpartition("/")[2] not in (plurals or ("workloads", "jobs")):
            return None
        if "watch" in request.query:
            return web.json_response(EXPIRED, status=410)
        return await lie(liar, request)

    return choose


def watched(*chunks: bytes, again: bool = False) -> Lie:
    """True lists; each watch gets these bytes, once and then silence, or over and over (`again`)."""

    async def lie(_: Liar, request: web.Request) -> web.StreamResponse | None:
        if "watch" not in request.query:
            return None
        response = web.StreamResponse(headers={"Content-Type": JSON})
        await response.prepare(request)
        while _is_heard(request):
            for chunk in chunks:
                await response.write(chunk)
            await anyio.sleep(0 if again else FOREVER)
        return response

    return lie


def stormed(*, text: int = 0, least: int = 1) -> Lie:
    """True lists; each watch gets changes of all that it is of without pause, each with so many bytes of text. Where there
    are fewer than `least` objects it gets those that nobody knows."""

    def changes(bodies: Sequence[Object], number: int) -> bytes:
        lines = []
        for place, body in enumerate(bodies):
            body["metadata"]["resourceVersion"] = str(10**12 + number * len(bodies) + place)
            body["metadata"].setdefault("annotations", {})["storm"] = f"{number}" + "y" * text
            for condition in body.get("status", {}).get("conditions", ()):
                condition["message"] = f"for the {number}th time"
            lines.append(json.dumps({"type": "MODIFIED", "object": body}).encode() + b"\n")
        return b"".join(lines)

    async def lie(liar: Liar, request: web.Request) -> web.StreamResponse | None:
        if "watch" not in request.query:
            return None
        bodies = await liar.items_of(request) or [copy(each) for each in range(least)]
        response = web.StreamResponse(headers={"Content-Type": JSON})
        await response.prepare(request)
        number = 0
        while _is_heard(request):
            number += 1
            await response.write(changes(bodies, number))
            await anyio.lowlevel.checkpoint()
        return response

    return lie


async def dribbled(_: Liar, request: web.Request) -> web.StreamResponse | None:
    """True lists; each watch gets bookmarks without pause, in chunks of one byte."""
    if "watch" not in request.query:
        return None
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    transport = request.transport
    assert isinstance(transport, asyncio.Transport)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BOOKMARK * 20)
    while _is_heard(request):
        if transport.get_write_buffer_size() < 2**20:
            transport.write(chunks)
        await anyio.lowlevel.checkpoint()
    return response


def items(*bodies: object, **metadata: str) -> Lie:
    """A list with these items."""
    content = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1", **metadata}, "items": bodies}
    return listed(answered(200, json.dumps(content).encode()))


def tiny(item: bytes) -> Lie:
    """A list of 10 MiB with as many of this item as fit."""
    head, tail = b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[', b"]}"
    count = (10 * 2**20 - len(head + tail)) // (len(item) + 1)
    return listed(answered(200, head + b",".join([item] * count) + tail))


async def endless(_: Liar, __: web.Request) -> web.StreamResponse:
    """An empty page that always announces one more."""
    return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1", "continue": "more"}, "items": []})


async def bombed(stage: Stage) -> Account | str:
    await anyio.to_thread.run_sync(_bomb)  # made beforehand: the time must not count
    return await Told(listed(bomb))(stage)


async def bomb(_: Liar, __: web.Request) -> web.StreamResponse:
    return web.Response(body=_bomb(), headers={"Content-Type": JSON, "Content-Encoding": "gzip"})


@cache
def _bomb() -> bytes:
    """200 MiB of blanks in 200 KiB."""
    return gzip.compress(b'{"items": [' + b" " * 200 * 2**20 + b"]}")


async def half(_: Liar, request: web.Request) -> web.StreamResponse:
    """A body that ends before its Content-Length."""
    response = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"items": [')
    assert request.transport is not None
    request.transport.abort()
    return response


async def hang(_: Liar, __: web.Request) -> web.StreamResponse:
    await anyio.sleep_forever()
    return web.Response()


async def trickle(_: Liar, request: web.Request) -> web.StreamResponse:
    """A byte every 0.5 s: no silence is long enough for a timeout."""
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    while _is_heard(request):
        await response.write(b" ")
        await anyio.sleep(0.5)
    return response


async def crumbs(liar: Liar, request: web.Request) -> web.StreamResponse | None:
    """The true answer, a byte at a time."""
    if "watch" in request.query:
        return None
    true = await liar.pass_on(request)
    assert isinstance(true, web.Response)
    assert isinstance(true.body, bytes)
    response = web.StreamResponse(status=true.status, headers={"Content-Type": JSON})
    await response.prepare(request)
    for byte in true.body:
        await response.write(bytes((byte,)))
    return response


def poured(raw: bytes, *, before: bool = False) -> Lie:
    """True answers, and these bytes after them over and over, which nobody asked for; or, with `before`, instead of them."""
    pouring = set[asyncio.Task[None]]()

    async def pour(transport: asyncio.Transport, wait: float) -> None:
        await anyio.sleep(wait)
        while not transport.is_closing():
            if transport.get_write_buffer_size() < 2**20:
                transport.write(raw * 1000)
            await anyio.lowlevel.checkpoint()

    async def lie(_: Liar, request: web.Request) -> web.StreamResponse | None:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        if before:
            await pour(transport, 0)
            return web.Response()
        task = asyncio.create_task(pour(transport, 0.2))
        pouring.add(task)
        task.add_done_callback(pouring.discard)
        return None

    return lie


def _is_heard(request: web.Request) -> bool:
    """Whether the client is still connected."""
    return request.transport is not None and not request.transport.is_closing()


def status(reason: str, code: int, *, message: str = "", **details: object) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "code": code,
            "message": message,
            "details": details,
        }
    ).encode()


def changed(plural: str, change: Change) -> Lie:
    """True answers with a change to each object of a kind."""

    async def lie(liar: Liar, request: web.Request) -> web.StreamResponse | None:
        if request.method != "GET" or not request.path.endswith(f"/{plural}"):
            return None
        return await liar.pass_on(request, change)

    return lie


def shown(plural: str, change: Change) -> Play:
    """All objects of a kind with that change, shown to a new connection of the manager."""
    return Told(changed(plural, change), dwell=1.0, reconnects=True)


def followed(amount: str) -> Play:
    """A queue whose quota follows its workers, one of which claims this amount."""
    play = shown("clusterqueues", quota(amount))

    async def follow(stage: Stage) -> Account | str:
        before = (await stage.manager.get(CLUSTER_QUEUE, HOSTILE))["spec"]["resourceGroups"]
        none = {"metadata": {"annotations": {FOLLOW: None}}, "spec": {"resourceGroups": before}}
        stage.undo.push_async_callback(stage.manager.patch, CLUSTER_QUEUE, HOSTILE, none)
        await stage.manager.patch(CLUSTER_QUEUE, HOSTILE, {"metadata": {"annotations": {FOLLOW: "true"}}})
        return await play(stage)

    return follow


def conditions(*types: str, message: str = "", at: str = "2026-01-01T00:00:00Z", state: str = "False") -> Change:
    """A change that sets these conditions on each copy."""

    def change(body: Object) -> None:
        body.setdefault("status", {})["conditions"] = [
            {"type": type_, "status": state, "reason": "Inadmissible", "message": message, "lastTransitionTime": at}
            for type_ in types
        ]

    return change


def checks(**check: str) -> Change:
    entry = {"name": "x", "state": "Retry", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", **check}

    def change(body: Object) -> None:
        body.setdefault("status", {})["admissionChecks"] = [entry]

    return change


def requests(amount: str) -> Change:
    def change(body: Object) -> None:
        for pods in body["spec"]["podSets"]:
            for container in pods["template"]["spec"]["containers"]:
                container.setdefault("resources", {})["requests"] = {"cpu": amount}

    return change


def quota(amount: str) -> Change:
    def change(body: Object) -> None:
        for group in body["spec"].get("resourceGroups", ()):
            for flavor in group["flavors"]:
                for resource in flavor["resources"]:
                    resource["nominalQuota"] = amount

    return change


def versions(version: str) -> Change:
    def change(body: Object) -> None:
        body["metadata"]["resourceVersion"] = version

    return change


def nested(body: Object) -> None:
    """Managed fields as deep as an API server may keep them, but no deeper than Python's own JSON writes."""
    deep: Object = {}
    for _ in range(900):
        deep = {"f:a": deep}
    body["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": {"f:b": {"f:c": deep}}}]


def copy(number: int) -> Object:
    """A Workload with our origin that no manager made."""
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {
            "name": f"stray-{number}",
            "namespace": "nowhere",
            "uid": str(number),
            "resourceVersion": str(number + 1),
            "labels": ORIGIN,
        },
        "spec": {"queueName": QUEUE, "podSets": []},
    }


# Contents of a worker's objects, written to its API server


def many_of_ours(count: int, *, text: int = 0, workload: bool = False) -> Play:
    """Jobs with our origin, each with so many bytes of text, and with the name of a workload that does not exist."""

    def stray(number: int) -> Object:
        labels = ORIGIN | ({PREBUILT: f"nobody-{number}"} if workload else {})
        made = objects.job(f"stray-{number}", HOSTILE, queue=None, labels=labels)
        if text:
            made["spec"]["template"]["spec"]["containers"][0]["args"] = ["y" * 2**17] * (text // 2**17)
        return made

    async def play(stage: Stage) -> Account:
        await stage.at_once((stage.lying.create(stray(number)) for number in range(count)), lanes=4)
        await anyio.sleep(6)  # longer than the interval of the sweep

        async def account() -> str:
            return f"{len(await stage.lying.list(JOB, HOSTILE))} of {count} are left there"

        return account

    return play


def written_on_a_copy(body: Object) -> Play:
    """A tenant's job whose copy on the lying worker gets this status from that worker's admin."""

    async def play(stage: Stage) -> Account:
        for client in stage.clients.values():
            if client is not stage.manager:
                await client.patch(CLUSTER_QUEUE, HOSTILE, {"spec": {"stopPolicy": "Hold"}})
                stage.undo.push_async_callback(client.patch, CLUSTER_QUEUE, HOSTILE, {"spec": {"stopPolicy": "None"}})
        await stage.manager.create(objects.job("copied", HOSTILE, suspend=False))
        name = await stage.copied("copied")
        for _ in range(20):  # Kueue writes there too
            try:
                await stage.lying.patch_status(WORKLOAD, name, body, HOSTILE)
                break
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
        for client in stage.honest.values():
            await client.patch(CLUSTER_QUEUE, HOSTILE, {"spec": {"stopPolicy": "None"}})
        return lambda: stage.became("copied")

    return play


def _condition(**more: str) -> Object:
    basis = {"type": "QuotaReserved", "status": "False", "reason": "Inadmissible", "message": "no"}
    return {"conditions": [{**basis, "lastTransitionTime": "2026-01-01T00:00:00Z", **more}]}


def _check(**more: str) -> Object:
    basis = {"name": "x", "state": "Retry", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"admissionChecks": [{**basis, **more}]}


def _cases(*rows: tuple[str, Play]) -> Sequence[Case]:
    return [Case("worker", what, play) for what, play in rows]


TOO_MANY = status("TooManyRequests", 429)
NEW = b"".join(json.dumps({"type": "ADDED", "object": copy(each)}).encode() + b"\n" for each in range(1000))
ADDED: dict[str, Any] = {"type": "ADDED", "object": copy(1)}

CASES = _cases(
    ("200 MiB of list in 200 KiB of gzip", bombed),
    ("a list that has always one more page", Told(listed(endless))),
    ("an error of 20 MiB of text", Told(answered(500, status("InternalError", 500, message="e" * 20 * 2**20)))),
    ("an error that is no JSON", Told(answered(503, b"<html>\xff\xfe" * 1000))),
    ("Retry-After: 999999999", Told(answered(429, TOO_MANY, {"Retry-After": "999999999"}))),
    ("Retry-After of 5,000 digits", Told(answered(429, TOO_MANY, {"Retry-After": DIGITS}))),
    ("Retry-After: -1", Told(answered(429, TOO_MANY, {"Retry-After": "-1"}))),
    ("retryAfterSeconds: 1e300", Told(answered(429, status("TooManyRequests", 429, retryAfterSeconds=1e300)))),
    ("a redirect to somewhere else", Told(answered(302, b"", {"Location": "file:///etc/passwd"}))),
    ("nothing, with status 204", Told(answered(204))),
    ("success, and no JSON", Told(answered(200, b"\xff\xfe\x00"))),
    ("success, and a JSON list", Told(answered(200, b"[]"))),
    ("gzip that is none", Told(answered(200, b"{}", {"Content-Encoding": "gzip"}))),
    ("a header of 1 MiB", Told(answered(200, b"{}", {"X-Odd": "x" * 2**20}))),
    ("JSON 100,000 levels deep", Told(listed(answered(200, b'{"items":' * 100_000 + b"1" + b"}" * 100_000)))),
    ("half of a body", Told(listed(half))),
    ("no answer at all", Told(hang)),
    ("a blank every half second", Told(listed(trickle))),
    ("true answers, a byte at a time", Told(crumbs, reconnects=True)),
    ("answers that nobody asked for", Told(poured(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), dwell=6)),
    ("an answer of which only the head comes, over and over", Told(poured(b"HTTP/1.1 200 OK\r\nX: "), dwell=6)),
    ("interim answers without end", Told(poured(b"HTTP/1.1 103 Early Hints\r\n\r\n", before=True), dwell=6)),
    ("items that are null, numbers and text", Told(items(None, 1, "x", [], {}))),
    ("a list without items", Told(listed(answered(200, b'{"metadata":{"resourceVersion":"1"}}')))),
    ("20,000 Workloads with our origin", Told(items(*(copy(number) for number in range(20_000))), dwell=6)),
    ("10 MiB of [0,0,…", Told(tiny(b"0"))),
    ("10 MiB of [{},{},…", Told(tiny(b"{}"))),
    ("a list at a version of 5,000 digits", Told(items(resourceVersion=DIGITS))),
    ("a list at a version of superscript digits", Told(items(resourceVersion="²³"))),
    ("watch lines that are garbage", Told(watched(b"\x00\xff{]\n" * 1000))),
    ("watch lines without an end", Told(watched(b"x" * 2**20, again=True))),
    (
        "watch lines of types that do not exist",
        Told(watched(b'{"type":"ODD","object":{}}\n{"type":7}\n[]\nnull\n' * 100)),
    ),
    ("a watch that always expired", Told(watched(json.dumps({"type": "ERROR", "object": EXPIRED}).encode() + b"\n"))),
    ("a watch that repeats itself without pause", Told(watched(json.dumps(ADDED).encode() + b"\n", again=True))),
    ("bookmarks without pause", Told(watched(BOOKMARK * 1000, again=True), dwell=6)),
    ("bookmarks without pause, in chunks of a byte", Told(dribbled, dwell=6)),
    ("new copies without pause", Told(watched(NEW, again=True), dwell=6)),
    ("changes of all that it has without pause", Told(stormed(), dwell=6)),
    ("changes of 1 MiB without pause", Told(stormed(text=2**20), dwell=6)),
    ("objects at versions of 5,000 digits", shown("workloads", versions(DIGITS))),
    ("copies that are nested 900 levels deep", shown("workloads", nested)),
    ("copies that ask for 1e1000000", shown("workloads", requests("1e1000000"))),
    ("copies that ask for 5,000 digits", shown("workloads", requests(DIGITS))),
    ("quotas of 1e1000000", followed("1e1000000")),
    ("quotas of 5,000 digits", followed(DIGITS)),
    ("conditions of 1 MiB of text", shown("workloads", conditions("QuotaReserved", message="m" * 2**20))),
    ("conditions of the year 9999", shown("workloads", conditions("QuotaReserved", at=FAR))),
    ("conditions of no time", shown("workloads", conditions("QuotaReserved", "Evicted", at="yesterday"))),
    ("copies that are finished before they began", shown("workloads", conditions("Finished", state="True"))),
    ("checks in a state that does not exist", shown("workloads", checks(state="Odd", message=LONG))),
    ("300 Jobs with our origin", many_of_ours(300)),
    ("200 Jobs of 1.2 MiB with our origin", many_of_ours(200, text=LARGE)),
    ("200 Jobs of 1.2 MiB of workloads that do not exist", many_of_ours(200, text=LARGE, workload=True)),
    ("a copy with a message of 32,768 characters", written_on_a_copy(_condition(message=LONG))),
    ("a copy with a time in the year 9999", written_on_a_copy(_condition(lastTransitionTime=FAR))),
    ("a copy with a check of 32,768 characters", written_on_a_copy(_check(message=LONG))),
    (
        "a copy evicted in the year 9999",
        written_on_a_copy(_condition(type="Evicted", status="True", lastTransitionTime=FAR)),
    ),
)

LIES: Mapping[str, Lie] = {case.what: case.play.lie for case in CASES if isinstance(case.play, Told)}
"""What a server may answer, by the case's text."""
