"""Attacks of a client that reaches the ports of the process."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from contextlib import suppress

import aiohttp
import anyio

from testbed.hostile.case import Account, Case, Play
from testbed.hostile.stage import Stage

__all__ = ["CASES"]

CONNECTIONS = 300
WEBHOOK_PATH = "/mutate-batch-v1-job"


def unfinished(sent: bytes, *, webhook: bool = False, connections: int = CONNECTIONS) -> Play:
    """Connections on which these bytes are sent, and then nothing."""

    async def play(stage: Stage) -> Account:
        port = stage.webhook_port if webhook else stage.probes_port
        open_now = [stream for _ in range(connections) if (stream := await _connect(port, sent, webhook=webhook))]

        async def account() -> str:
            closed = sum(reader.at_eof() or writer.is_closing() for reader, writer in open_now)
            return f"{len(open_now)} of {connections} were opened, {closed} of them closed by now"

        for _, writer in open_now:
            stage.undo.callback(writer.transport.abort)
        return account

    return play


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(port: int, sent: bytes, *, webhook: bool) -> Stream | None:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=_anybody() if webhook else None)
            writer.write(sent)
            await writer.drain()
            return reader, writer
    return None


def _anybody() -> ssl.SSLContext:
    """TLS without a check of the server's certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def posted(body: bytes, *, times: int = 1) -> Play:
    """Reviews sent to the webhook by a client that is no API server."""

    async def play(stage: Stage) -> str:
        answers: list[str] = []

        async def post(session: aiohttp.ClientSession) -> None:
            try:
                async with session.post(WEBHOOK_PATH, data=body) as answer:
                    answers.append(f"HTTP {answer.status}")
            except (aiohttp.ClientError, TimeoutError) as error:
                answers.append(type(error).__name__)

        connector = aiohttp.TCPConnector(ssl=_anybody(), limit=0)
        patience = aiohttp.ClientTimeout(total=20)
        url = f"https://127.0.0.1:{stage.webhook_port}"
        async with (
            aiohttp.ClientSession(url, connector=connector, timeout=patience) as session,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(times):
                tasks.start_soon(post, session)
        return ", ".join(f"{answers.count(each)} x {each}" for each in sorted(set(answers)))

    return play


def review(**job: object) -> bytes:
    """The review that an API server would send about a Job."""
    body = {"apiVersion": "batch/v1", "kind": "Job", **job}
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "namespace": "hostile",
        "object": body,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _cases(*rows: tuple[str, Play]) -> Sequence[Case]:
    return [Case("network", what, play) for what, play in rows]


LABELS = {"name": "x", "labels": {"kueue.x-k8s.io/queue-name": "main"}}

CASES = _cases(
    (f"{CONNECTIONS} connections to the probes that say nothing", unfinished(b"")),
    (f"{CONNECTIONS} half headers to the metrics", unfinished(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Odd:")),
    (
        "a header without an end to the metrics",
        unfinished(b"GET /metrics HTTP/1.1\r\nX-Odd:" + b"x" * 2**20, connections=20),
    ),
    (f"{CONNECTIONS} TLS connections to the webhook that say nothing", unfinished(b"", webhook=True)),
    (
        "60 bodies that are promised to the webhook",
        unfinished(
            f"POST {WEBHOOK_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 6000000\r\n\r\n{{".encode(),
            webhook=True,
            connections=60,
        ),
    ),
    ("a review that is no UTF-8", posted(b'{"request": "\xff\xfe"}')),
    ("a review that is no JSON", posted(b"{" * 1000)),
    ("a review that is nested 100,000 deep", posted(b'{"request":' * 100_000)),
    ("a review of a Job with labels that are numbers", posted(review(metadata={"labels": {"a": 1}}, spec=[]))),
    ("10 reviews of 6 MB at once", posted(review(metadata=LABELS, spec={"x": "y" * 6_000_000}), times=10)),
    ("a review of 20 MB", posted(review(metadata=LABELS, spec={"x": "y" * 20_000_000}))),
)
