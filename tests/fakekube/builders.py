"""A cluster whose time a test turns by hand, and objects to put into it."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import anyio

from fakekube.cluster import Cluster
from fakekube.model.wire import JSON, Object, Request, Response, User, Watch
from fakekube.network.transport import on_the_spot

MERGE = "application/merge-patch+json"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ADMIN = User("admin", ("system:masters", "system:authenticated"), "admin")

CORE = "/api/v1/namespaces/t"
MAPS = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
JOBS = "/apis/batch/v1/namespaces/t/jobs"
TOYS = "/apis/example.com/v1/namespaces/t/toys"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(order=True)
class _Due:
    at: float
    serial: int
    function: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """Time that stands still until it is turned; what is due then happens in its order."""

    def __init__(self) -> None:
        self.passed = 0.0
        self._due: list[_Due] = []
        self._serial = count()

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    def call_later(self, seconds: float, function: Callable[[], None], /) -> _Due:
        due = _Due(self.passed + seconds, next(self._serial), function)
        heapq.heappush(self._due, due)
        return due

    def turn(self, seconds: float) -> None:
        end = self.passed + seconds
        while self._due and self._due[0].at <= end:
            due = heapq.heappop(self._due)
            self.passed = max(self.passed, due.at)
            if not due.cancelled:
                due.function()
        self.passed = end

    @property
    def waiting(self) -> int:
        """How many calls are still to come."""
        return sum(not due.cancelled for due in self._due)


class Bench:
    """A cluster with the namespace `t`, called as the administrator."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.cluster = Cluster("bench", now=self.clock.now, rng=random.Random(1), scheduler=self.clock, **options)
        self.storage = self.cluster.storage
        self.namespace("t")

    def namespace(self, name: str) -> Object:
        return self.make("/api/v1/namespaces", {"metadata": {"name": name}})

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        user: User = ADMIN,
        **query: str,
    ) -> Response | Watch:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(
            method=method,
            path=path,
            query=query,
            body=content,
            content_type=content_type,
            accept=accept,
            user=user,
            user_agent="bench/1",
        )
        if self.cluster.admission.is_asked:
            return anyio.run(self.cluster.api.handle, request)
        return on_the_spot(self.cluster.api.handle(request))

    def answer(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Code and decoded body."""
        response = self.ask(method, path, body, **options)
        assert isinstance(response, Response)
        return response.status, json.loads(response.body)

    def done(self, method: str, path: str, body: Any = None, **options: Any) -> Object:
        """The body of a success."""
        code, content = self.answer(method, path, body, **options)
        assert code < 300, content
        assert isinstance(content, dict)
        return content

    def refused(self, code: int, method: str, path: str, body: Any = None, **options: Any) -> Object:
        """The Status of a refusal."""
        found, content = self.answer(method, path, body, **options)
        assert found == code, content
        assert content["kind"] == "Status"
        assert content["code"] == code
        assert isinstance(content, dict)
        return content

    def make(self, path: str, body: Object) -> Object:
        return self.done("POST", path, body)

    def get(self, path: str) -> Object:
        return self.done("GET", path)

    def patch(self, path: str, body: Object, **options: Any) -> Object:
        return self.done("PATCH", path, body, **{"content_type": MERGE, **options})

    def names(self, path: str, **query: Any) -> list[str]:
        return [each["metadata"]["name"] for each in self.done("GET", path, **query)["items"]]

    def is_there(self, path: str) -> bool:
        return self.answer("GET", path)[0] == 200

    def watch(self, path: str, *, accept: str = JSON, **query: Any) -> Watch:
        answer = self.ask("GET", path, accept=accept, watch="true", **query)
        assert isinstance(answer, Watch), answer
        return answer

    def define(self, definition: Object | None = None) -> Object:
        """Serve toys, or another kind."""
        return self.make(DEFINITIONS, definition or toys())


def events(watch: Watch) -> Iterator[tuple[str, Any]]:
    """Take the lines that are there out of a watch: type and object of each."""
    while watch.lines:
        line = json.loads(watch.lines.popleft())
        yield line["type"], line["object"]


def told(watch: Watch) -> list[tuple[str, str]]:
    """Type and name of what a watch told since it was asked last."""
    return [(kind, item["metadata"].get("name", "")) for kind, item in events(watch)]


def config_map(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


def owned_by(*owners: Object, block: bool = False) -> list[Object]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]


def toy(name: str, *, version: str = "v1", spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Toy",
        "metadata": {"name": name, **metadata},
        "spec": spec if spec is not None else {"color": "red"},
    }


def toys(*more_versions: Object, group: str = "example.com") -> Object:
    """A definition: toys have a color, a size of 1 unless told otherwise, and a status."""
    spec = {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer", "default": 1}}}
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"toys.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy"},
            "versions": [version, *more_versions],
        },
    }


def pod_spec(**more: Any) -> Object:
    return {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}], **more}


def job(name: str, *, pods: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pods or pod_spec()}, **spec}}
