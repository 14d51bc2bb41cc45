"""An API server that says what a test tells it to: answers in order, faults included; the last one goes on for ever.

For tests of the client and the reflector alone. Not fakekube, which says nothing that an API server would not say: halves of
lines, no JSON, a page that is its own next one, connections that are reset between two bytes.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web

from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client, Listeners

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Script:
    """Answers each request with the next of `answers` and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.content.read())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return await answer(request)

    @property
    def asked(self) -> list[str]:
        """Method and path of each request, in order."""
        return [f"{request.method} {request.path}" for request in self.requests]

    def queries(self, name: str) -> list[str | None]:
        """That query parameter of each request."""
        return [request.query.get(name) for request in self.requests]


@asynccontextmanager
async def serving(script: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server on loopback that answers with the script."""
    runner = web.ServerRunner(web.Server(script), handle_signals=False, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


@asynccontextmanager
async def client_of(*answers: Answer, **options: Any) -> AsyncIterator[tuple[Client, Script]]:
    """A client of a cluster called "w1" whose server answers as told, and what it was asked."""
    script = Script(*answers)
    listeners = Listeners(options.pop("on_call", None), options.pop("on_undecodable", None))
    async with (
        serving(script) as script.url,
        Client.connect(
            Credentials(server=script.url, token=FixedToken("Bearer t")), cluster="w1", listeners=listeners, **options
        ) as client,
    ):
        yield client, script


def says(
    body: Mapping[str, Any] | bytes, *, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = ""
) -> Answer:
    """A whole answer; a mapping is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": kind or "application/json", **(headers or {})}

    async def answer(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=data, status=status, headers=given)

    return answer


def refuses(status: int, reason: str = "", message: str = "no", *, headers: Mapping[str, str] | None = None) -> Answer:
    """A Status object, as Kubernetes sends it with an error."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": message}
    return says(body | ({"reason": reason} if reason else {}), status=status, headers=headers)


def lists(*items: Mapping[str, Any], version: str = "10", cont: str = "") -> Answer:
    metadata = {"resourceVersion": version} | ({"continue": cont} if cont else {})
    return says({"kind": "JobList", "apiVersion": "batch/v1", "metadata": metadata, "items": list(items)})


async def aborts(request: web.BaseRequest) -> web.StreamResponse:
    """The connection is reset before any answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hangs(_request: web.BaseRequest) -> web.StreamResponse:
    """No answer, ever."""
    await anyio.sleep_forever()
    raise AssertionError


def streams(*lines: bytes | Mapping[str, Any], then: str = "end", cut: bytes = b"", late: float = 0) -> Answer:
    """A watch that sends these events, `late` seconds after its headers.

    Then it ends, or stays open ("silence"), or is reset ("abort") after `cut`.
    """

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await anyio.sleep(late)
        for line in lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if cut:
            await response.write(cut)
        if then == "silence":
            await anyio.sleep_forever()
        if then == "abort":
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


def job(name: str, *, version: int = 1, namespace: str = "ns", **fields: Any) -> dict[str, Any]:
    """A Job as JSON."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"parallelism": 1}, **fields}


def deep_job(name: str, *, version: int = 1, levels: int = 1500) -> bytes:
    """A Job as anybody may write it: nobody looks into managedFields, but a decoder has to skip them."""
    text = json.dumps(job(name, version=version, metadata={"managedFields": "HERE", "annotations": {"x": '\\"[{'}}))
    return text.replace('"HERE"', '[{"x":' * (levels // 2) + "1" + "}]" * (levels // 2)).encode()


def line_of(type_: str, item: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), item)


def list_of_jobs(*items: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % b",".join(items)


def event(type_: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": type_, "object": item}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"resourceVersion": str(version)}})


def expired_event() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


def names(items: Sequence[Any]) -> list[str]:
    return [item.metadata.name for item in items]
