"""Admission webhooks of the tests' own: an HTTPS server on loopback that says what a test tells it to."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web

from fakekube.front_end.authority import Authority
from tests.contract.server import Object

__all__ = ["Hooks", "Verdict", "patching", "serving"]

Verdict = Callable[[Object], Object]
"""From the request of an AdmissionReview to the response, without the uid."""


class Hooks:
    """What was asked, and where it is asked: `client_config(name)` is for the webhook that answers with a verdict."""

    def __init__(self, authority: bytes) -> None:
        self.asked: dict[str, list[Object]] = {}
        self.url = ""
        self._verdicts: dict[str, Verdict] = {}
        self._authority = authority

    def client_config(self, name: str, verdict: Verdict) -> Object:
        """Let the webhook answer like this from now on."""
        self._verdicts[name], self.asked[name] = verdict, []
        return {"url": f"{self.url}/{name}", "caBundle": b64encode(self._authority).decode()}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await request.read())
        assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        name = request.path.strip("/")
        self.asked[name].append(review["request"])
        response = {"uid": review["request"]["uid"], **self._verdicts[name](review["request"])}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return web.json_response(body)


def patching(*operations: Object) -> Verdict:
    """Allows, with a JSON patch."""
    patch = b64encode(json.dumps(operations).encode()).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


@asynccontextmanager
async def serving() -> AsyncIterator[Hooks]:
    authority = Authority()
    hooks = Hooks(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue("server", "127.0.0.1").load_into(context)
    runner = web.ServerRunner(web.Server(hooks.answer, access_log=None), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    address: Any = runner.addresses[0]
    hooks.url = f"https://127.0.0.1:{address[1]}"
    try:
        yield hooks
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
