"""The aggregation layer: an APIService can lead requests of its group and version to a server behind a Service.

It proves itself by a certificate of the front proxy, and names the user in headers, as kube-apiserver does; the ConfigMap
`kube-system/extension-apiserver-authentication` says so to those servers (`publish`). A Service leads somewhere if its type
is ExternalName: no cluster network exists here. Discovery of `/apis` has built-in groups and those of definitions only.
"""

from __future__ import annotations

import ssl
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from fakekube.front_end.authority import Authority, Certificate
from fakekube.front_end.authorization import Handler
from fakekube.model.storage import Storage, key_of
from fakekube.model.wire import JSON, Object, Refused, Request, Response, User, Watch

__all__ = ["Aggregator"]

_SERVICES, _API_SERVICES = "services.", "apiservices.apiregistration.k8s.io"
_CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
_NAME = "front-proxy-client"


class Aggregator:
    """A handler before the API of a cluster. Connections are opened at first use; `aclose` closes them."""

    def __init__(self, api: Handler, storage: Storage) -> None:
        self._api, self._storage = api, storage
        self._authority = Authority("front-proxy-ca")
        self._certificate: Certificate | None = None
        self._session: aiohttp.ClientSession | None = None

    async def publish(self) -> None:
        """Say in the cluster who the front proxy is, unless that has been said."""
        data = {
            "requestheader-client-ca-file": self._authority.pem.decode(),
            "requestheader-allowed-names": f'["{_NAME}"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        await self._api.handle(Request(method="POST", path=_CONFIG_MAPS, body=msgspec.json.encode(body)))

    async def handle(self, request: Request) -> Response | Watch:
        leads = self._api_service(request.path)
        if leads is None:
            return await self._api.handle(request)
        try:
            return await self._ask(leads, request)
        except Refused as refused:
            return refused.response()
        except (aiohttp.ClientError, OSError) as error:
            return _unavailable(f"error trying to reach service: {error}").response()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _api_service(self, path: str) -> Mapping[str, Any] | None:
        """The spec of the APIService for a path, if it leads to a Service."""
        parts = path.split("/", 4)
        if len(parts) < 4 or parts[1] != "apis":
            return None
        found = self._storage.get(_API_SERVICES, key_of("", f"{parts[3]}.{parts[2]}"))
        spec: Mapping[str, Any] = (found.object.get("spec") or {}) if found is not None else {}
        return spec if spec.get("service") else None

    async def _ask(self, leads: Mapping[str, Any], request: Request) -> Response | Watch:
        service = leads["service"]
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=True)
        response = await self._session.request(
            request.method,
            f"{self._address(service)}{request.path}",
            params=request.query,
            data=request.body or None,
            headers=[("Content-Type", request.content_type), ("Accept", request.accept), *_user_headers(request.user)],
            ssl=self._tls(leads),
            server_hostname=f"{service['name']}.{service['namespace']}.svc",
            timeout=aiohttp.ClientTimeout(connect=5),
        )
        kind = response.headers.get("Content-Type", JSON)
        if response.status < 300 and "true" in (request.query.get("follow"), request.query.get("watch")):
            return _Relayed(response, kind)
        async with response:
            return Response(status=response.status, body=await response.read(), content_type=kind)

    def _address(self, service: Mapping[str, Any]) -> str:
        namespace, name = service["namespace"], service["name"]
        found = self._storage.get(_SERVICES, key_of(namespace, name))
        host = _host(found.object) if found is not None else ""
        if not host:
            raise _unavailable(f'service "{namespace}/{name}" leads nowhere')
        return f"https://{host}:{service.get('port') or 443}"

    def _tls(self, leads: Mapping[str, Any]) -> ssl.SSLContext:
        try:
            bundle = b64decode(leads.get("caBundle") or "", validate=True).decode()
            context = ssl.create_default_context(cadata=bundle or None)
        except (ssl.SSLError, Base64Error, ValueError) as error:
            raise _unavailable("unable to load root certificates") from error
        if self._certificate is None:
            self._certificate = self._authority.issue(_NAME)
        self._certificate.load_into(context)
        return context


class _Relayed(Watch):
    """An answer that goes on: lines, or pieces of them, as they arrive."""

    def __init__(self, response: aiohttp.ClientResponse, content_type: str) -> None:
        super().__init__()
        self._response, self.content_type = response, content_type
        self.on_close = response.close

    async def fill(self) -> None:
        try:
            async for piece in self._response.content.iter_any():
                self.feed(piece)
        except (aiohttp.ClientError, OSError):
            pass  # the reader sees the end
        finally:
            self.end()


def _host(service: Object) -> str:
    spec = service.get("spec") or {}
    return str(spec.get("externalName", "")) if spec.get("type") == "ExternalName" else ""


def _user_headers(user: User) -> list[tuple[str, str]]:
    return [("X-Remote-User", user.name), *(("X-Remote-Group", group) for group in user.groups)]


def _unavailable(message: str) -> Refused:
    return Refused(503, "ServiceUnavailable", message)
