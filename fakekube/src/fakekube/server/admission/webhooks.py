"""Calls of admission webhooks: over HTTPS, or of a function in the same process that stands for one.

A host in `local` is in the process: `https://HOST/path` is only its name then. A `service` in a webhook's configuration
is looked up in `services`, as no cluster network exists here.
"""

from __future__ import annotations

import inspect
import ssl
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
import msgspec

from fakekube.model.wire import JSON, Object

__all__ = ["CallFailed", "Local", "Webhooks"]

Local = Callable[[Object], Object | Awaitable[Object]]
"""An in-process webhook: from an AdmissionReview with a request to one with a response."""

_UNKNOWN_AUTHORITY = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
_ALLOWED_BODY = 3 * 2**20


class CallFailed(Exception):
    """A call without a usable answer. The message has kube-apiserver's words."""


class Webhooks:
    """Calls webhooks. `services` has the address (`https://127.0.0.1:9443`) by namespace, name and port of a service.

    Connections are opened at first use, in the event loop that runs then; `aclose` closes them.
    """

    def __init__(self) -> None:
        self.local: dict[str, Local] = {}
        self.services: dict[tuple[str, str, int], str] = {}
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, config: Mapping[str, Any], review: Object, *, seconds: int) -> Object:
        """The answer of the webhook in a `clientConfig`. Raises CallFailed."""
        address, shown = self._address(config)
        address, shown = (f"{url}?timeout={seconds}s" for url in (address, shown))
        local = self.local.get(urlsplit(address).netloc)
        try:
            answer = local(review) if local is not None else None
            if answer is not None and not inspect.isawaitable(answer):
                return answer  # on the spot, also where no task may wait
            with anyio.fail_after(seconds):
                return await (answer or self._post(address, _trusting(config.get("caBundle") or ""), review))
        except TimeoutError:
            raise CallFailed(f'Post "{shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallFailed(f'Post "{shown}": {_said(error)}') from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _address(self, config: Mapping[str, Any]) -> tuple[str, str]:
        """The address of a webhook, and its URL in kube-apiserver's errors."""
        if config.get("url"):
            return config["url"], config["url"]
        service = config.get("service") or {}
        namespace, name, port = service.get("namespace", ""), service.get("name", ""), service.get("port") or 443
        path = service.get("path") or ""
        shown = f"https://{name}.{namespace}.svc:{port}{path}"
        known = self.services.get((namespace, name, port))
        if known is None:
            raise CallFailed(f'Post "{shown}": service "{name}" not found')
        return f"{known}{path}", shown

    async def _post(self, address: str, context: ssl.SSLContext, review: Object) -> Object:
        if self._session is None:
            # Failed calls are not repeated, so each call has a new connection: a stale one would fail.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        body, headers = msgspec.json.encode(review), {"Content-Type": JSON, "User-Agent": "kube-apiserver-admission"}
        async with self._session.post(address, data=body, headers=headers, ssl=context) as response:
            content = await response.content.read(_ALLOWED_BODY)
            if response.status >= 300:
                raise CallFailed(_refused(response.status, content))
            return _decoded(content)


@lru_cache(maxsize=64)
def _trusting(bundle: str) -> ssl.SSLContext:
    """The TLS context for a webhook's caBundle: that authority only, or the system's without one."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=b64decode(bundle, validate=True).decode())
    except (ssl.SSLError, Base64Error, ValueError) as error:
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from error


def _said(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        wrong = getattr(error.certificate_error, "verify_code", 0)
        return _UNKNOWN_AUTHORITY if wrong in (18, 19, 20, 21) else f"tls: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    return "EOF" if isinstance(error, aiohttp.ServerDisconnectedError) else str(error)


def _refused(code: int, content: bytes) -> str:
    try:
        status = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return str(status.get("message", ""))
    if code == 404:
        return "the server could not find the requested resource"
    text = content.decode(errors="replace").strip()
    return f'an error on the server ("{text}") has prevented the request from succeeding'


def _decoded(content: bytes) -> Object:
    try:
        answer = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(answer, dict):
        raise CallFailed("couldn't get version/kind; json parse error: not an object")
    return answer
