"""The sockets: plain HTTP for probes and metrics, TLS for the admission webhook and the visibility API.

    async with Server(ready=is_ready, known=lookups) as server:
        await server.serve_plain("0.0.0.0", 8081, has_probes=True, metrics=render)
        await server.serve_webhook("0.0.0.0", 9443, serving(data))
        ...
        server.load(serving(renewed))    # new connections get the new certificate; the port stays open

The calls return the ports, so that port 0 can be used. Leaving the block closes them after a grace period for requests
in flight.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self

import anyio
import msgspec
from aiohttp import web
from anyio.abc import TaskGroup

from multikueue.api.meta import encode
from multikueue.errors import ConfigurationError
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.telemetry import get_logger
from multikueue.telemetry.metrics import CONTENT_TYPE
from multikueue.web.admission import AdmissionLookups, NotAReview, review
from multikueue.web.door import HANDSHAKE_TIMEOUT, SMALL, Bodies, Door
from multikueue.web.serving import Serving, load_chain
from multikueue.web.visibility import RETRY_AFTER, Refused, status

log = get_logger()

WEBHOOK_PATH = "/mutate-batch-v1-job"
# A Job is at most 1.5 MiB in etcd, and an update shows it twice, in JSON with escapes.
LARGEST_REVIEW = 8 * 2**20
BODY_TIMEOUT = timedelta(seconds=10)
"""A body may take so long. No API server waits longer for the answer."""

_LINGERING_TIME = timedelta(seconds=1)
"""In this time a refused client may read the reason, while the rest of its body is discarded."""

SHUTDOWN_TIMEOUT = timedelta(seconds=5)

WRITE_TIMEOUT = timedelta(seconds=30)
"""The reader of a stream may take so long for a piece."""

_JSON = "application/json"

Ready = Callable[[], str | None]
"""Why the process is not ready yet; None when it is."""

Details = Callable[[], Mapping[str, str]]
"""The parts of readiness: by name, the problem, empty if there is none."""

DISPATCH = "dispatch"
"""The part that makes a process unready later, too: dispatch stands still. Its webhook goes on answering."""

Render = Callable[[], Awaitable[bytes]]
"""The metrics, in the text format of Prometheus."""


class ApiRequest(msgspec.Struct, frozen=True):
    """One request to the visibility API. `common_name` is that of the verified client certificate, None without a
    certificate; `path` is decoded."""

    common_name: str | None
    headers: tuple[tuple[str, str], ...]
    path: str
    query: Mapping[str, str]


Write = Callable[[bytes], Awaitable[None]]

Stream = Callable[[Callable[[], Awaitable[Write]]], Awaitable[None]]
"""A long answer, of text. It calls its argument when it has begun, and what that returns with each piece. Raises Refused,
after the beginning too: then the answer breaks off, so that no client takes it for the whole."""

Answerer = Callable[[ApiRequest], Awaitable[tuple[int, bytes | Stream]]]
"""Answers a GET with an HTTP status and JSON, or with a stream. Never raises."""


class _Tls:
    """A TLS context whose certificate can be exchanged while it serves."""

    def __init__(
        self, certificate: Serving, *, client_ca: str = "", must_have_client_certificate: bool = False
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.client_ca = client_ca
        if client_ca:
            self.context.load_verify_locations(cadata=client_ca)
            # Optional: a client without a certificate gets its refusal as an HTTP answer.
            self.context.verify_mode = ssl.CERT_REQUIRED if must_have_client_certificate else ssl.CERT_OPTIONAL
        self._loaded: Serving | None = None
        self.load(certificate)

    def load(self, certificate: Serving) -> None:
        if certificate != self._loaded:
            load_chain(self.context, certificate)
            self._loaded = certificate


@dataclass(slots=True)
class _Listener:
    """An open port."""

    runner: web.AppRunner
    port: int
    socket: asyncio.Server | None = None
    tls: _Tls | None = None

    async def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
        await self.runner.cleanup()


def _nothing() -> Mapping[str, str]:
    return {}


class Server:
    """Owns the listeners. `ready`, `details` and `known` are called on every request and must answer from memory.

    The methods `serve_*` raise ConfigurationError if they cannot listen, and ssl.SSLError for an unusable certificate.
    """

    def __init__(
        self, *, ready: Ready, known: AdmissionLookups, details: Details = _nothing, adapters: Adapters = BATCH_ONLY
    ) -> None:
        self._ready, self._details = ready, details
        self._known, self._adapters = known, adapters
        self._listeners: list[_Listener] = []
        self._webhook: _Listener | None = None
        self._bodies = Bodies(LARGEST_REVIEW)
        self._visibility: _Listener | None = None
        self._answer: Answerer  # set by serve_visibility

    async def serve_plain(
        self, host: str, port: int, *, has_probes: bool = False, metrics: Render | None = None
    ) -> int:
        """Serves the probes, or /metrics, or both; returns the port it listens on."""
        app = web.Application()
        if has_probes:
            app.router.add_get("/healthz", self._healthz)
            app.router.add_get("/readyz", self._readyz)
            app.router.add_get("/readyz/{check}", self._readyz_of)
        if metrics is not None:
            app.router.add_get("/metrics", _exposing(metrics))
        return (await self._listen(app, host, port, group="probes" if has_probes else "metrics")).port

    async def serve_webhook(self, host: str, port: int, certificate: Serving, *, client_ca: str = "") -> int:
        """Serves the admission webhook over TLS; returns the port it listens on. A second call only loads the
        certificate.

        With `client_ca` (PEM) a client needs a certificate that it signed.
        """
        if self._webhook is None:
            app = web.Application()
            app.router.add_post(WEBHOOK_PATH, self._review)
            tls = _Tls(certificate, client_ca=client_ca, must_have_client_certificate=True)
            self._webhook = await self._listen(app, host, port, group="webhook", tls=tls)
        else:
            self.load(certificate)
        return self._webhook.port

    def load(self, certificate: Serving) -> None:
        """Loads the webhook's certificate for new connections; open connections keep theirs."""
        if self._webhook is None or self._webhook.tls is None:
            raise RuntimeError("load a certificate after serve_webhook")
        self._webhook.tls.load(certificate)

    async def serve_visibility(
        self, host: str, port: int, certificate: Serving, *, client_ca: str, answer: Answerer
    ) -> int:
        """Serves the visibility API over TLS to clients with certificates of `client_ca` (PEM); returns the port.

        A second call only sets the answerer and loads the certificate. With another CA it closes the port and opens it
        again: a certificate of the old CA must not be trusted any longer, not even if that fails.
        """
        running = self._visibility
        if running is not None and running.tls is not None:
            if running.tls.client_ca == client_ca:
                self._answer = answer
                running.tls.load(certificate)
                return running.port
            self._visibility = None
            port = running.port
            await self._close(running)
        tls = _Tls(certificate, client_ca=client_ca)
        self._answer = answer
        app = web.Application()
        app.router.add_get("/{path:.*}", self._respond)
        self._visibility = await self._listen(app, host, port, group="visibility", tls=tls)
        return self._visibility.port

    async def _listen(
        self, app: web.Application, host: str, port: int, *, group: str, tls: _Tls | None = None
    ) -> _Listener:
        """Opens a port; `group` is the settings group of host and port, for the error."""
        door = Door()
        app.middlewares.append(door.attend)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_TIMEOUT.total_seconds(),
            lingering_time=_LINGERING_TIME.total_seconds(),
            read_bufsize=SMALL,
            auto_decompress=False,  # API servers do not compress, and a small body could decompress to a large one
        )
        listener = _Listener(runner, port, tls=tls)
        self._listeners.append(listener)
        try:
            await runner.setup()
            server = runner.server
            assert server is not None
            listener.socket = await asyncio.get_running_loop().create_server(
                lambda: door.admit(server),
                host,
                port,
                ssl=tls.context if tls else None,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT.total_seconds() if tls else None,
            )
        except OSError as error:
            await self._close(listener)
            why = error.strerror or error
            raise ConfigurationError(f"{group}: cannot listen on host {host}, port {port}: {why}") from error
        except Exception:
            await self._close(listener)
            raise
        listener.port = int(listener.socket.sockets[0].getsockname()[1])
        return listener

    async def _close(self, listener: _Listener) -> None:
        await listener.close()
        self._listeners.remove(listener)

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        """As in Kubernetes: `ok`, or with `?verbose` (and whenever it is not ready) the parts of readiness."""
        details = self._details()
        problem = self._ready() or details.get(DISPATCH) or None
        if problem is None and "verbose" not in request.query:
            return web.Response(text="ok\n")
        lines = [f"[{'-' if wrong else '+'}]{name} {wrong or 'ok'}" for name, wrong in details.items()]
        verdict = "readyz check passed" if problem is None else problem
        return web.Response(status=200 if problem is None else 503, text="\n".join((*lines, verdict, "")))

    async def _readyz_of(self, request: web.Request) -> web.Response:
        wrong = self._details().get(request.match_info["check"])
        if wrong is None:
            return web.Response(status=404, text="there is no such check\n")
        return web.Response(status=503 if wrong else 200, text=f"{wrong or 'ok'}\n")

    async def _review(self, request: web.Request) -> web.Response:
        problem = self._ready()
        if problem is not None:
            # Before the queues are known a job would be admitted without managedBy, which cannot be added later.
            return web.Response(status=503, text=f"{problem}\n")
        try:
            with anyio.fail_after(BODY_TIMEOUT.total_seconds()):
                body = await self._bodies.read(request)
        except TimeoutError:
            return web.Response(status=408, text="the body did not come in time\n")
        try:
            return web.Response(body=review(body, self._known, self._adapters), content_type=_JSON)
        except NotAReview as error:
            log.warning("webhook.not_a_review", error=str(error))
            return web.Response(status=400, text=f"{error}\n")

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        asked = ApiRequest(_common_name(request), tuple(request.headers.items()), request.path, request.query)
        code, body = await self._answer(asked)
        if isinstance(body, bytes):
            headers = {"Retry-After": str(RETRY_AFTER)} if code == 429 else None
            return web.Response(status=code, body=body, content_type=_JSON, headers=headers)
        return await _streamed(request, body)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for listener in reversed(self._listeners):
            await listener.close()
        self._listeners.clear()
        self._webhook = self._visibility = None


async def _streamed(request: web.Request, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = "text/plain"

    async def write(piece: bytes) -> None:
        with anyio.fail_after(WRITE_TIMEOUT.total_seconds()):
            await response.write(piece)

    async def start() -> Write:
        await response.prepare(request)
        return write

    trouble: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_with_the_caller, request, tasks)
        try:
            await stream(start)
        except (Refused, TimeoutError, ConnectionError) as error:
            trouble = error
        tasks.cancel_scope.cancel()
    if isinstance(trouble, Refused) and not response.prepared:
        return web.Response(status=trouble.code, body=encode(status(trouble)), content_type=_JSON)
    if trouble is not None and request.transport is not None:
        request.transport.abort()
    return response


async def _end_with_the_caller(request: web.Request, tasks: TaskGroup) -> None:
    """Ends the stream when its reader has gone, which a stream with nothing to say would never notice."""
    while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110  # there is no event for it
        await anyio.sleep(1)
    tasks.cancel_scope.cancel()


def _exposing(render: Render) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def expose(_request: web.Request) -> web.Response:
        return web.Response(body=await render(), headers={"Content-Type": CONTENT_TYPE})

    return expose


def _common_name(request: web.Request) -> str | None:
    """The common name of the client's certificate, which TLS has verified by now; None without a certificate."""
    certificate = request.transport.get_extra_info("peercert") if request.transport else None
    if not certificate:
        return None
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    return next((value for name, value in subject if name == "commonName"), "")
