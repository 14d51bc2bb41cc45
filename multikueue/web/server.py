"""The sockets: plain HTTP for probes, TLS for the admission webhook.

    async with Server(ready=world.is_ready, lookup=store.dispatches) as server:
        await server.serve_probes("0.0.0.0", 8081)
        await server.serve_webhook("0.0.0.0", 9443, certificates.serving(data))
        ...
        server.load(certificates.serving(renewed))    # new connections get the new certificate; the port stays open

Ports come back from the calls, so that port 0 can be used. Leaving the block closes them after a grace period for
requests under way.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Self

import structlog
from aiohttp import web

from multikueue.web.admission import Lookup, NotAReview, review
from multikueue.web.certificates import Serving

log = structlog.get_logger()

WEBHOOK_PATH = "/mutate-batch-v1-job"
# A Job is at most 1.5 MiB in etcd, and an update shows it twice, in JSON with escapes.
LARGEST_REVIEW = 8 * 2**20
GRACE_SECONDS = 5.0
_JSON = "application/json"

Ready = Callable[[], str | None]
"""Why the process is not ready yet; None when it is."""


class Server:
    """Owns the two listeners. `ready` and `lookup` are asked on every request and must answer from memory."""

    def __init__(self, *, ready: Ready, lookup: Lookup) -> None:
        self._ready = ready
        self._lookup = lookup
        self._runners: list[web.AppRunner] = []
        self._tls: ssl.SSLContext | None = None
        self._loaded: Serving | None = None
        self._webhook_port: int | None = None

    async def serve_probes(self, host: str, port: int) -> int:
        """Serves /healthz and /readyz; answers with the port it listens on."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        return await self._listen(app, host, port)

    async def serve_webhook(self, host: str, port: int, certificate: Serving) -> int:
        """Serves the admission webhook over TLS; answers with the port it listens on. Called again, only loads."""
        if self._webhook_port is not None:
            self.load(certificate)
            return self._webhook_port
        app = web.Application(client_max_size=LARGEST_REVIEW)
        app.router.add_post(WEBHOOK_PATH, self._review)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load(certificate)
        self._webhook_port = await self._listen(app, host, port, tls=self._tls)
        return self._webhook_port

    def load(self, certificate: Serving) -> None:
        """Takes the certificate for all connections from now on; those open now keep theirs."""
        if self._tls is None:
            raise RuntimeError("load a certificate after serve_webhook")
        if certificate != self._loaded:
            _load_chain(self._tls, certificate)
            self._loaded = certificate

    async def _listen(self, app: web.Application, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=GRACE_SECONDS)
        self._runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        return int(runner.addresses[0][1])

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        problem = self._ready()
        return web.Response(text="ok\n") if problem is None else web.Response(status=503, text=f"{problem}\n")

    async def _review(self, request: web.Request) -> web.Response:
        problem = self._ready()
        if problem is not None:
            # Before the queues are known a job would go in without managedBy, which cannot be mended later.
            return web.Response(status=503, text=f"{problem}\n")
        body = await request.read()
        try:
            return web.Response(body=review(body, self._lookup), content_type=_JSON)
        except NotAReview as error:
            log.warning("webhook.not_a_review", error=str(error))
            return web.Response(status=400, text=f"{error}\n")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for runner in reversed(self._runners):
            await runner.cleanup()
        self._runners.clear()
        self._webhook_port = None


def _load_chain(context: ssl.SSLContext, certificate: Serving) -> None:
    with _as_file(certificate.certificate + certificate.key) as path:
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(path, password="")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to the content, since the standard library loads keys from files only; in memory where the system can."""
    if not hasattr(os, "memfd_create"):
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("webhook-certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
