"""Which request leads where, and what is said about those that lead nowhere."""

from __future__ import annotations

import pytest

from fakekube.model.wire import Response
from tests.fakekube.builders import CORE, JOBS, MAPS, MERGE, PODS, TOYS, Bench, config_map, job, pod_spec, toy


def plain(bench: Bench, method: str, path: str) -> tuple[int, bytes]:
    answer = bench.ask(method, path)
    assert isinstance(answer, Response)
    return answer.status, answer.body


def test_nothing_waits_without_webhooks(bench: Bench) -> None:
    """Each call of a bench is one step of a coroutine."""
    bench.make(MAPS, config_map("a"))
    bench.patch(f"{MAPS}/a", {"data": {"key": "other"}})
    assert bench.get(f"{MAPS}/a")["data"] == {"key": "other"}


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_it_is_well(bench: Bench, path: str) -> None:
    assert plain(bench, "GET", path) == (200, b"ok")


@pytest.mark.parametrize("path", ["/nowhere", "/apis/nobody.example.com/v1/things", "/apis/batch/v9/jobs"])
def test_a_path_that_nobody_knows(bench: Bench, path: str) -> None:
    assert plain(bench, "GET", path) == (404, b"404 page not found\n")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/things",
        "/api/v9/pods",
        "/apis/batch/v1/things",
        "/api/v1/pods/a",
        f"{CORE}/nodes",
        f"{CORE}/namespaces",
        f"{MAPS}/a/status",
        f"{PODS}/a/nothing",
        f"{PODS}/a/log/deeper",
    ],
)
def test_a_resource_that_nobody_knows(bench: Bench, path: str) -> None:
    refusal = bench.refused(404, "GET", path)
    assert refusal["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("POST", f"{MAPS}/a"),
        ("OPTIONS", f"{MAPS}/a"),
        ("DELETE", f"{JOBS}/a/status"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_what_cannot_be_done_with_a_built_in_kind(bench: Bench, method: str, path: str) -> None:
    refusal = bench.refused(405, method, path)
    assert refusal["message"] == "the server does not allow this method on the requested resource"


def test_custom_kinds_have_their_own_words(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a"))
    assert bench.refused(400, "PUT", TOYS)["message"] == "name must be provided"
    refusal = bench.refused(405, "POST", f"{TOYS}/a/status", toy("a"))
    assert refusal["message"] == 'create is not supported on resources of kind "toys.example.com"'
    assert bench.refused(404, "GET", f"{TOYS}/a/nothing")["message"] == 'toys.example.com "a" not found'


def test_a_path_is_found_again_when_the_kinds_change(bench: Bench) -> None:
    assert bench.answer("GET", "/api/v1/namespaces/t/configmaps")[0] == 200
    assert plain(bench, "GET", TOYS)[0] == 404
    bench.define()
    assert bench.names(TOYS) == []


def test_questions_are_answered_and_not_stored(bench: Bench) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    answer = bench.make("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert answer["status"] == {"allowed": True}
    assert list(bench.storage.select("selfsubjectaccessreviews.authorization.k8s.io")) == []


def test_discovery_is_answered_from_the_registry(bench: Bench) -> None:
    bench.define()
    found = {each["name"] for each in bench.get("/apis/example.com/v1")["resources"]}
    assert found == {"toys", "toys/status", "toys/scale"}


def test_logs_say_that_there_are_none(bench: Bench) -> None:
    bench.make(PODS, {"metadata": {"name": "a"}, "spec": pod_spec()})
    code, text = plain(bench, "GET", f"{PODS}/a/log")
    assert (code, b"runs no containers" in text) == (200, True)
    bench.refused(405, "POST", f"{PODS}/a/log")


def test_a_body_may_be_too_large(bench: Bench) -> None:
    bench.refused(413, "POST", MAPS, b" " * (3 * 2**20 + 1))


def test_an_object_may_be_too_large_for_etcd(bench: Bench) -> None:
    bench.define()
    refusal = bench.refused(500, "POST", TOYS, toy("a", spec={"color": "y" * 1_600_000}))
    assert refusal["message"] == "etcdserver: request is too large"
    bench.make(TOYS, toy("a", spec={"color": "y" * 1_000_000}))
    bench.refused(500, "PATCH", f"{TOYS}/a/status", {"status": {"x": "y" * 1_000_000}}, content_type=MERGE)


def test_a_status_is_read_like_the_object(bench: Bench) -> None:
    made = bench.make(JOBS, job("a"))
    assert bench.get(f"{JOBS}/a/status") == made
