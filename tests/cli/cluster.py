"""A cluster that a worker is registered with: fakekube's, with what an administrator's cluster may lack or refuse.

`Fake` is a client of it in this process, `serve` puts it on a port for the program.
"""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from anyio.from_thread import start_blocking_portal
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.front_end.rbac import MASTERS
from fakekube.model.wire import Refused, Request, Response, Watch
from multikueue.api.kind import Kind
from multikueue.api.kinds import NAMESPACES, SERVICE_ACCOUNTS
from multikueue.api.meta import Object, ObjectKey
from tests import cluster as clusters

Tree = dict[str, Any]

ADMIN_TOKEN = "admin"
NOW = datetime.now(UTC).replace(microsecond=0)
"""When the tests began, which may be a quarter of an hour ago: what they expect must not be told in minutes."""
SERVED: Mapping[str, set[str]] = {
    "/apis/kueue.x-k8s.io/v1beta2": {"workloads", "clusterqueues", "localqueues"},
    "/apis/batch/v1": {"jobs"},
}

SIGNING_REQUESTS: Kind[Any] = Kind(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False, Object
)


class Cluster(clusters.Cluster):
    """A cluster with its administrator, and switches for what may go wrong.

    `served` are the kinds that discovery tells of, by path, if not all that there are. `denied` holds (resource,
    verb[, namespace]) that nobody may use; `longest` is the longest life of a token, None when there are no tokens at all;
    it `signs` certificates. `documents` are answers by path. `sent` lists each change that was asked
    for, as method and path.
    """

    def __init__(
        self,
        name: str,
        *,
        served: Mapping[str, set[str]] | None = None,
        documents: Mapping[str, Tree] | None = None,
        denied: set[tuple[str, ...]] | None = None,
        longest: timedelta | None = timedelta(days=365),
        signs: bool = True,
    ) -> None:
        super().__init__(name, lambda: NOW)
        self.served, self.denied, self.longest, self.signs = served, denied or set(), longest, signs
        self.documents = dict(documents or {})
        self.sent: list[str] = []
        self.in_its_thread: Callable[..., Any] = lambda call, *given: call(*given)
        """While it is served, a watch hears at once only of what is done in the thread of its server."""
        self.change(NAMESPACES, ObjectKey("", "kube-system"), {"metadata": {"uid": f"{name}-1"}})
        self.server.users.add("admin", MASTERS, token=ADMIN_TOKEN)

    def add(self, kind: Kind[Any], item: Object | Tree) -> None:
        """Have an object, given as value or as tree, as if somebody had made it before."""
        tree: Tree = msgspec.json.decode(msgspec.json.encode(item))
        tree["metadata"].setdefault("creationTimestamp", "2026-01-01T12:00:00Z")
        self.put(kind, tree)

    def named(self, kind: Kind[Any], name: str, namespace: str = "") -> Tree | None:
        return self.find(kind, ObjectKey(namespace, name))

    def names(self, kind: Kind[Any]) -> list[tuple[str, str]]:
        """Namespace and name of all there are."""
        return [(body["metadata"].get("namespace", ""), body["metadata"]["name"]) for body in self.all(kind)]

    def revoke(self, *tokens: str) -> None:
        """These tokens mean nobody any more; nor does that of any account."""
        for token in tokens:
            self.server.users.remove(token)
        for key in self.names(SERVICE_ACCOUNTS):
            self.change(SERVICE_ACCOUNTS, ObjectKey(*key), {"metadata": {"uid": "another"}})

    async def _asked(self, request: Request) -> Response | Watch | None:
        await super()._asked(request)
        if request.path in self.documents:
            return _says(self.documents[request.path])
        if self.served is not None and request.path.startswith("/apis/") and request.path.count("/") == 3:
            return self._discovered(request.path)
        if request.path.endswith("/selfsubjectaccessreviews"):
            return self._reviewed(msgspec.json.decode(request.body)["spec"]["resourceAttributes"])
        if request.method != "GET":
            self.sent.append(f"{request.method} {request.path}")
        return await self._token(request) if request.path.endswith("/token") else None

    def _discovered(self, path: str) -> Response:
        if self.served is None or path not in self.served:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return _says({"resources": [{"name": name} for name in sorted(self.served[path])]})

    def _reviewed(self, asked: Tree) -> Response:
        resource = "/".join(part for part in (asked["resource"], asked.get("subresource", "")) if part)
        verb, namespace = asked["verb"], asked.get("namespace", "")
        denied = {(resource, verb), (resource, verb, namespace)} & self.denied
        return _says({"status": {"allowed": not denied}}, status=201)

    async def _token(self, request: Request) -> Response | Watch:
        """An API server may have a longest life of tokens."""
        if self.longest is None:
            raise Refused(403, "Forbidden", "no tokens here")
        body = msgspec.json.decode(request.body)
        wanted = body["spec"]["expirationSeconds"]
        body["spec"]["expirationSeconds"] = min(wanted, int(self.longest.total_seconds()))
        return await self.server.api.handle(replace(request, body=msgspec.json.encode(body)))

    async def _done(self, request: Request, answer: Response | Watch) -> Response | Watch | None:
        await super()._done(request, answer)
        if request.path.endswith("/approval") and self.signs:
            self.decide_on(ObjectKey("", request.path.split("/")[-2]))
        return None

    def decide_on(self, key: ObjectKey) -> None:
        """What the signer does with an approved request."""
        spec = (self.find(SIGNING_REQUESTS, key) or {})["spec"]
        pem = sign(b64decode(spec["request"]), NOW + timedelta(seconds=spec["expirationSeconds"]))
        self.change(SIGNING_REQUESTS, key, {"status": {"certificate": b64encode(pem).decode()}})


class Fake(clusters.InProcessClient):
    """A client of a cluster, by its token."""

    def __init__(self, server: Cluster, token: str = ADMIN_TOKEN) -> None:
        super().__init__(self)
        self.server, self.token = server, token

    async def handle(self, request: Request) -> Response | Watch:
        try:
            user = self.server.server.users.identify(f"Bearer {self.token}")
        except Refused as refused:
            return refused.response()
        return await self.server.api.handle(replace(request, user=user))


def _says(body: Tree, *, status: int = 200) -> Response:
    return Response(status=status, body=msgspec.json.encode(body))


def json_web_token(expires: datetime) -> str:
    """What says of itself until when it is good, and nothing else."""
    claims = urlsafe_b64encode(msgspec.json.encode({"exp": int(expires.timestamp())})).decode().rstrip("=")
    return f"e30.{claims}.signature"


def sign(request: bytes, expires: datetime) -> bytes:
    """The certificate a signer would answer with, PEM."""
    asked = x509.load_pem_x509_csr(request)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(
        issuer_name=asked.subject,
        subject_name=asked.subject,
        public_key=asked.public_key(),
        serial_number=1,
        not_valid_before=NOW - timedelta(hours=1),
        not_valid_after=expires,
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@contextmanager
def serve(cluster: Cluster, authority: Authority) -> Iterator[str]:
    """The URL of the cluster on loopback, by TLS, in a thread beside the program."""
    gate = AuthorizationFilter(cluster.api, cluster.server.authorizer)
    front_end = FrontEnd(gate, cluster.server.users, authority=authority, now=cluster.now, name=cluster.name)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(front_end):
        before, cluster.in_its_thread = cluster.in_its_thread, portal.call
        yield front_end.url
        cluster.in_its_thread = before
