"""One cluster: an API server with its storage, resources and users, and the controllers of every cluster."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from fakekube.builtins import kinds as builtins
from fakekube.front_end import reviews
from fakekube.front_end.rbac import Authorizer
from fakekube.front_end.users import Users
from fakekube.garbage import ClusterControllers
from fakekube.model.bodies import parsed
from fakekube.model.refusals import method_not_allowed
from fakekube.model.resources import Registry, Resource
from fakekube.model.storage import Revisions, Storage, key_of
from fakekube.model.wire import Object, Request, Response
from fakekube.server.admission.admission import Admission
from fakekube.server.api import Api
from fakekube.server.requests.routes import Route
from fakekube.server.served import Definitions
from fakekube.server.server import Scheduler, Server
from fakekube.server.verbs.reads import present
from fakekube.server.verbs.subresources import Subresource, log

__all__ = ["Cluster"]

_ISSUER = "https://kubernetes.default.svc"


class Cluster:
    """A cluster called `name` with the initial objects of every cluster: namespaces and priority classes.

    `now` returns the time, with zone; `rng` generates UIDs, names and secrets; `scheduler` runs delayed calls, by
    default the running event loop. `definitions` are initial CustomResourceDefinitions. With `rbac` the `authorizer`
    enforces roles; otherwise every user may do everything. Clusters with the same `revisions` share one counter of
    resource versions. `pod_log` answers for the logs of pods; by default a fixed text does.
    """

    def __init__(
        self,
        name: str,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        scheduler: Scheduler | None = None,
        definitions: Iterable[Object] = (),
        managed_fields: bool = True,
        rbac: bool = False,
        history: int = 10_000,
        revisions: Revisions | None = None,
        pod_log: Subresource | None = None,
    ) -> None:
        self.name = name
        self.storage = Storage(history=history, revisions=revisions)
        self.registry = Registry(builtins.resources())
        self.users = Users(self.storage, now=now, key=rng.randbytes(32), issuer=_ISSUER)
        self.authorizer = Authorizer(self.storage, enforced=rbac)
        self.admission = Admission(self.storage, self.registry, rng=rng)
        self.api = Api(
            self.registry,
            self.storage,
            now=now,
            rng=rng,
            scheduler=scheduler,
            admission=self.admission,
            managed_fields=managed_fields,
            virtual=reviews.reviews(self.users, self.authorizer, now),
            subresources={("serviceaccounts.", "token"): self._token, ("pods.", "log"): pod_log or log},
        )
        self._server = self.api.server
        self._definitions = Definitions(self._server, self.api.watches.end_of)
        self._furnish()
        self.install(definitions)
        self.controllers = ClusterControllers(self._server)

    def install(self, definitions: Iterable[Object]) -> None:
        """Serve the kinds of valid CustomResourceDefinitions; `schemas.notation` helps to write them."""
        self._definitions.install(definitions)

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource that serves a kind. Raises LookupError."""
        for each in self.registry:
            if (each.api_version, each.kind) == (api_version, kind):
                return each
        raise LookupError(f"{self.name} serves no {kind} of {api_version}")

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """An object as stored, without authorization."""
        version = self.storage.get(self.resource(api_version, kind).storage, key_of(namespace, name))
        return None if version is None else version.object

    def close(self) -> None:
        """End all watches and stop all controllers."""
        self.controllers.close()
        self.api.watches.end()

    def _furnish(self) -> None:
        for name in builtins.DEFAULT_NAMESPACES:
            self._put("", "Namespace", name, {})
        for name, content in builtins.SYSTEM_PRIORITIES.items():
            self._put("scheduling.k8s.io", "PriorityClass", name, content)

    def _put(self, group: str, kind: str, name: str, content: Object) -> None:
        resource = self.registry.of_kind(group, kind)
        assert resource is not None, f"{kind} is built in"
        rules = self._server.rules(resource)
        metadata: Object = {"name": name, "uid": self._server.uid(), "creationTimestamp": self._server.stamp()}
        if rules.counts_generation:
            metadata["generation"] = 1
        item = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, **content}
        self.storage.put(resource.storage, name, rules.created(rules.defaulted(item)))

    async def _token(self, server: Server, route: Route, request: Request) -> Response:
        if request.method != "POST":
            raise method_not_allowed()
        account = present(server, route).object
        asked = parsed(request.body, request.content_type) if request.body else {}
        answer = reviews.token_request(self.users, account, asked, now=server.now(), serial=server.uid())
        return Response(status=201, body=msgspec.json.encode(answer))
