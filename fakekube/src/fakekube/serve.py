"""One cluster over HTTPS on a loopback port, with an administrator: for tests of a controller, and for kubectl.

    async with serve(definitions=[my_definition]) as server:
        await run_my_controller(server.kubeconfig())

Tests that need more (users with few rights, an audit log, several clusters) combine `Cluster`,
`AuthorizationFilter` and `FrontEnd` as here.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from fakekube.cluster import Cluster
from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.front_end.rbac import MASTERS
from fakekube.model.wire import Object, Request, object_of

__all__ = ["ADMIN", "Server", "serve"]

ADMIN = "admin"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Server:
    """A cluster and its HTTPS server."""

    cluster: Cluster
    front_end: FrontEnd

    @property
    def url(self) -> str:
        return self.front_end.url

    def kubeconfig(self) -> Object:
        """The administrator's kubeconfig, as a tree."""
        return self.front_end.kubeconfig(ADMIN)

    async def create(self, api_version: str, kind: str, body: Object, namespace: str = "") -> Object:
        """Create an object as the administrator, through admission and validation. Returns the created object.

        Raises LookupError if the kind is not served, and Refused.
        """
        resource = self.cluster.resource(api_version, kind)
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        place = f"/namespaces/{namespace}" if resource.namespaced else ""
        content = msgspec.json.encode({"apiVersion": api_version, "kind": kind, **body})
        request = Request(method="POST", path=f"{root}{place}/{resource.plural}", body=content)
        return object_of(await self.cluster.api.handle(request))

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """An object as stored, without authorization."""
        return self.cluster.find(api_version, kind, name, namespace)


@asynccontextmanager
async def serve(
    name: str = "fake",
    *,
    definitions: Iterable[Object] = (),
    rbac: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int | None = None,
    now: Callable[[], datetime] = _now,
) -> AsyncIterator[Server]:
    """Serve a cluster during the block, by default on a free port. Raises OSError.

    `definitions` are CustomResourceDefinitions that are known to be valid; others can be created through the API. With
    `rbac` roles are enforced: the administrator may do everything, other users what their roles allow. Equal seeds give
    equal names and UIDs.
    """
    rng = random.Random(secrets.randbits(64) if seed is None else seed)  # noqa: S311  # the administrator's token is not from it
    cluster = Cluster(name, now=now, rng=rng, definitions=definitions, rbac=rbac)
    cluster.users.add(ADMIN, MASTERS, token=secrets.token_hex(16))
    authorization = AuthorizationFilter(cluster.api, cluster.authorizer)
    front_end = FrontEnd(authorization, cluster.users, authority=Authority(), now=now, name=name, host=host, port=port)
    try:
        async with front_end:
            yield Server(cluster, front_end)
    finally:
        cluster.close()
        await cluster.admission.aclose()
