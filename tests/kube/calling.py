"""What the tests of the client share: a client of a scripted server."""

from __future__ import annotations

import anyio
from aiohttp import web

from multikueue.api.meta import ObjectKey
from multikueue.kube.client import Client
from tests.kube.server import (
    Answer,
    Script,
    job,
    says,
)

A = ObjectKey("ns", "a")
FOUND = says(job("a", version=7))


async def read(client: Client, *, idle: float = 1.0) -> list[bytes]:
    lines = []
    async with client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=idle) as stream:
        while line := await stream.line():
            lines.append(line)
    return lines


def held(answer: Answer, go: anyio.Event, asked: anyio.Event) -> Answer:
    """That answer, once `go` is set; `asked` is set when the question has come."""

    async def wait(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await go.wait()
        return await answer(request)

    return wait


def tokens(script: Script) -> list[str | None]:
    return [request.headers.get("Authorization") for request in script.requests]
