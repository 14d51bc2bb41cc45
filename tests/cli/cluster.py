"""A cluster in memory: as much of an API server as joining a worker needs. `Fake` is its client, `serve` puts it on a port."""

from __future__ import annotations

import json
import re
import ssl
import threading
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fakekube.wire import Request, Response
from multikueue.api.kinds import Kind
from multikueue.api.meta import Object
from tests.cluster import InProcessClient

Tree = dict[str, Any]
Answer = tuple[int, Tree]

ADMIN_TOKEN = "admin"
NOW = datetime.now(UTC).replace(microsecond=0)
"""When the tests began, which may be a quarter of an hour ago: what they expect must not be told in minutes."""
LOCATION = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?"
)
KUEUE = {"workloads", "clusterqueues", "localqueues"}


@dataclass
class Cluster:
    """Objects by (root, plural, namespace, name), and switches for what may go wrong.

    `denied` holds (resource, verb[, namespace]) the account may not use; `longest` is the longest life of a token, None when
    there are no tokens at all; `writes` lists each change that was asked for.
    """

    name: str
    served: Mapping[str, set[str]] = field(
        default_factory=lambda: {"/apis/kueue.x-k8s.io/v1beta2": set(KUEUE), "/apis/batch/v1": {"jobs"}}
    )
    denied: set[tuple[str, ...]] = field(default_factory=set)
    longest: timedelta | None = timedelta(days=365)
    signs: bool = True
    tokens: set[str] = field(default_factory=lambda: {ADMIN_TOKEN})
    objects: dict[tuple[str, str, str, str], Tree] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    _version: int = 0

    def __post_init__(self) -> None:
        self.put("/api/v1", "namespaces", {"metadata": {"name": "kube-system"}})

    def put(self, root: str, plural: str, item: Tree) -> Tree:
        """Have the object, as if somebody had made it before."""
        self._version += 1
        metadata = {
            "creationTimestamp": "2026-01-01T12:00:00Z",
            "uid": f"{self.name}-{self._version}",
            **item["metadata"],
            "resourceVersion": str(self._version),
        }
        key = (root, plural, metadata.get("namespace", ""), metadata["name"])
        self.objects[key] = {**item, "metadata": metadata}
        return self.objects[key]

    def add(self, kind: Kind[Any], item: Object | Tree) -> Tree:
        """Have the object of a kind of ours, given as value or as tree."""
        tree: Tree = item if isinstance(item, dict) else json.loads(msgspec.json.encode(item))
        return self.put(kind.path().rpartition("/")[0], kind.plural, tree)

    def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Tree | None:
        return self.objects.get((kind.path().rpartition("/")[0], kind.plural, namespace, name))

    # What the server does.

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Tree | None, token: str) -> Answer:
        if token not in self.tokens:
            return _status(401, "Unauthorized", "who are you?")
        if path == "/version":
            return 200, {"gitVersion": "v1.35.4"}
        if path in self.served:
            return 200, {"resources": [{"name": name} for name in sorted(self.served[path])]}
        if method != "GET" and "selfsubjectaccessreviews" not in path:
            self.writes.append(f"{method} {path}")
        match = LOCATION.fullmatch(path)
        if match is None:
            return _status(404, "NotFound", "no such path")
        root, plural, namespace, name = (match[part] or "" for part in ("root", "plural", "namespace", "name"))
        if method == "POST" and match["subresource"] == "token":
            return self._token(body or {})
        if method == "PUT" and match["subresource"] == "approval":
            return self._approve(self.objects[root, plural, namespace, name], body or {})
        if method == "POST":
            return self._create(root, plural, namespace, body or {})
        if not name:
            return self._list(root, plural, namespace)
        found = self.objects.get((root, plural, namespace, name))
        if found is None:
            return _status(404, "NotFound", f'{plural} "{name}" not found')
        if method == "PATCH":
            return self._patch(root, plural, found, body or {})
        if method == "DELETE":
            return self._delete((root, plural, namespace, name), body or {})
        return 200, found

    def _list(self, root: str, plural: str, namespace: str) -> Answer:
        items = [
            item
            for (r, p, n, _), item in sorted(self.objects.items())
            if (r, p) == (root, plural) and namespace in ("", n)
        ]
        return 200, {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _create(self, root: str, plural: str, namespace: str, body: Tree) -> Answer:
        if plural == "selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            resource = "/".join(part for part in (asked["resource"], asked["subresource"]) if part)
            denied = {(resource, asked["verb"]), (resource, asked["verb"], asked.get("namespace", ""))} & self.denied
            return 201, {"status": {"allowed": not denied}}
        name = body["metadata"].get("name") or f"{body['metadata']['generateName']}x1"
        if (root, plural, namespace, name) in self.objects:
            return _status(409, "AlreadyExists", f'{plural} "{name}" already exists')
        return 201, self.put(root, plural, {**body, "metadata": {**body["metadata"], "name": name}})

    def _patch(self, root: str, plural: str, found: Tree, body: Tree) -> Answer:
        wanted = body.get("metadata", {})
        for precondition in ("uid", "resourceVersion"):
            if wanted.get(precondition, found["metadata"][precondition]) != found["metadata"][precondition]:
                return _status(409, "Conflict", f"{precondition} differs")
        return 200, self.put(root, plural, _merged(found, body))

    def _delete(self, key: tuple[str, str, str, str], options: Tree) -> Answer:
        uid = options.get("preconditions", {}).get("uid")
        if uid is not None and uid != self.objects[key]["metadata"]["uid"]:
            return _status(409, "Conflict", "uid differs")
        del self.objects[key]
        return 200, {"kind": "Status", "status": "Success"}

    def _token(self, body: Tree) -> Answer:
        if self.longest is None:
            return _status(403, "Forbidden", "no tokens here")
        life = min(self.longest, timedelta(seconds=body["spec"]["expirationSeconds"]))
        token = json_web_token(NOW + life, number=len(self.tokens))
        self.tokens.add(token)
        return 201, {"status": {"token": token, "expirationTimestamp": (NOW + life).strftime("%Y-%m-%dT%H:%M:%SZ")}}

    def _approve(self, request: Tree, body: Tree) -> Answer:
        if self.signs:
            life = timedelta(seconds=request["spec"]["expirationSeconds"])
            pem = sign(b64decode(request["spec"]["request"]), NOW + life)
            body = {**body, "status": {**body["status"], "certificate": b64encode(pem).decode()}}
        request["status"] = body["status"]
        return 200, request


def json_web_token(expires: datetime, *, number: int = 0) -> str:
    claims = json.dumps({"exp": int(expires.timestamp()), "jti": number}).encode()
    return f"e30.{urlsafe_b64encode(claims).decode().rstrip('=')}.signature"


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


def _merged(tree: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    base = tree if isinstance(tree, dict) else {}
    merged = {**base, **{name: _merged(base.get(name), value) for name, value in patch.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def _status(code: int, reason: str, message: str) -> Answer:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}


class Fake(InProcessClient):
    """A client of a cluster in memory, by its token."""

    def __init__(self, server: Cluster, token: str = ADMIN_TOKEN) -> None:
        super().__init__(self)
        self.server, self.token = server, token

    async def handle(self, request: Request) -> Response:
        tree = json.loads(request.body) if request.body else None
        code, answer = self.server.answer(request.method, request.path, request.query, tree, self.token)
        return Response(status=code, body=json.dumps(answer).encode())


@contextmanager
def serve(cluster: Cluster, authority: trustme.CA) -> Iterator[str]:
    """The URL of the cluster on loopback, by TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece, or each answer waits 40 ms for an acknowledgement

        def answer(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            code, answer = cluster.answer(self.command, url.path, dict(parse_qsl(url.query)), body, token)
            raw = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 64  # of connections not accepted yet; a full queue costs the client a second

    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
