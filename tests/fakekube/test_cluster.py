"""What a cluster has from the beginning, and that two that are alike live alike."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import msgspec

from fakekube.builtins.kinds import DEFAULT_NAMESPACES
from fakekube.cluster import Cluster
from fakekube.model.wire import Request, Response, User
from fakekube.network.transport import on_the_spot
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server
from tests.fakekube.builders import MAPS, Bench, config_map, job


def test_the_namespaces_that_every_cluster_has(bench: Bench) -> None:
    assert bench.names("/api/v1/namespaces") == sorted([*DEFAULT_NAMESPACES, "t"])
    default = bench.get("/api/v1/namespaces/default")
    assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert (default["spec"], default["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_the_priorities_that_every_cluster_has(bench: Bench) -> None:
    found = bench.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
    assert (found["value"], found["preemptionPolicy"]) == (2_000_001_000, "PreemptLowerPriority")


def life(bench: Bench) -> list[bytes]:
    bench.make(MAPS, config_map("a"))
    bench.make(MAPS, {"metadata": {"generateName": "x-"}})
    bench.make("/apis/batch/v1/namespaces/t/jobs", job("j"))
    bench.done("DELETE", "/api/v1/namespaces/t")
    bench.clock.turn(5)
    changes = [change for storage in bench.storage.storages() for change in bench.storage.since(storage, 0)]
    return [change.version.rest for change in changes]


def test_the_same_calls_make_the_same_bytes() -> None:
    assert life(Bench()) == life(Bench())


def test_an_object_can_be_found_as_it_is_stored(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    found = bench.cluster.find("v1", "ConfigMap", "a", "t")
    assert found is not None
    assert found["data"] == {"key": "value"}
    assert bench.cluster.find("v1", "ConfigMap", "b", "t") is None


async def _says_hello(_server: Server, route: Route, _request: Request) -> Response:
    return Response(body=f"hello from {route.name}".encode(), content_type="text/plain")


def test_the_logs_of_pods_may_be_those_of_a_program() -> None:
    cluster = Cluster("c", now=lambda: datetime(2030, 1, 1, tzinfo=UTC), rng=random.Random(1), pod_log=_says_hello)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    path = "/api/v1/namespaces/default/pods"
    on_the_spot(cluster.api.handle(Request(method="POST", path=path, body=msgspec.json.encode(pod))))
    answer = on_the_spot(cluster.api.handle(Request(method="GET", path=f"{path}/p/log")))
    assert isinstance(answer, Response)
    assert answer.body == b"hello from p"


def test_a_service_account_gets_a_token_that_is_known(bench: Bench) -> None:
    accounts = "/api/v1/namespaces/t/serviceaccounts"
    bench.make(accounts, {"metadata": {"name": "a"}})
    asked = {"spec": {"expirationSeconds": 600}}
    answer = bench.done("POST", f"{accounts}/a/token", asked)
    token = answer["status"]["token"]
    who = bench.cluster.users.by_token(token)
    assert who is not None
    assert who.name == "system:serviceaccount:t:a"
    assert bench.done("POST", f"{accounts}/a/token", asked)["status"]["token"] != token
    bench.clock.turn(timedelta(minutes=11).total_seconds())
    assert bench.cluster.users.by_token(token) is None
    bench.refused(405, "GET", f"{accounts}/a/token")
    bench.refused(404, "POST", f"{accounts}/b/token", asked)


def test_roles_matter_if_they_are_to() -> None:
    strict, lax = Bench(rbac=True), Bench()
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "t"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    nobody = User("nobody", ("system:authenticated",))
    answers = [bench.done("POST", path, body, user=nobody)["status"]["allowed"] for bench in (strict, lax)]
    assert answers == [False, True]


def test_a_closed_cluster_is_quiet(bench: Bench) -> None:
    bench.watch(MAPS)
    bench.cluster.close()
    bench.make(MAPS, config_map("a"))
    assert bench.clock.waiting == 0
