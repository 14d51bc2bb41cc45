"""A receiver of notices on loopback that answers as a test says, byte for byte."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


def status(code: int, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {code} So", *headers, "Content-Length: 0", "", ""]).encode()


@dataclass
class Receiver:
    """`answers`: the answer to the n-th request, the last one from then on; an empty one: none, until the end."""

    answers: list[bytes]
    events: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""
    arrived: anyio.Event = field(default_factory=anyio.Event)

    @property
    def kinds(self) -> list[str]:
        return [f"{each['data']['workload']} {each['type'].rpartition('.')[2]}" for each in self.events]

    async def serve(self, stream: ByteStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with stream:
                while True:
                    await self._take(stream)

    async def _take(self, stream: ByteStream) -> None:
        seen = b""
        while b"\r\n\r\n" not in seen:
            seen += await stream.receive()
        head, _, body = seen.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += await stream.receive()
        answer = self.answers[min(len(self.events), len(self.answers) - 1)]
        self.events.append(json.loads(body))
        self.headers.append(headers)
        self.paths.append(first)
        arrived, self.arrived = self.arrived, anyio.Event()
        arrived.set()
        if not answer:
            await anyio.sleep_forever()
        await stream.send(answer)


@asynccontextmanager
async def receiving(*answers: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(list(answers or [OK]))
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/jobs"
    async with listener, anyio.create_task_group() as tasks:
        served: Any = TLSListener(listener, tls, standard_compatible=False) if tls else listener
        tasks.start_soon(served.serve, receiver.serve)
        yield receiver
        tasks.cancel_scope.cancel()
