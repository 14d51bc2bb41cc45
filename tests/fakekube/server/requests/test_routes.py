"""Paths and where they lead."""

from __future__ import annotations

import pytest

from fakekube.server.requests.routes import Route, Router
from tests.fakekube.front_ends import CONFIG_MAPS, JOBS, NAMESPACES, PODS, TOYS, registry


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/configmaps", Route(CONFIG_MAPS)),
        ("/api/v1/namespaces/n/configmaps/", Route(CONFIG_MAPS, "n")),
        ("/api/v1/namespaces/n/configmaps/a", Route(CONFIG_MAPS, "n", "a")),
        ("/api/v1/namespaces/n/pods/a/log", Route(PODS, "n", "a", "log")),
        ("/apis/batch/v1/namespaces/n/jobs/a/status", Route(JOBS, "n", "a", "status")),
        ("/api/v1/namespaces", Route(NAMESPACES)),
        ("/api/v1/namespaces/n", Route(NAMESPACES, "", "n")),
        ("/api/v1/namespaces/n/status", Route(NAMESPACES, "", "n", "status")),
        ("/api/v1/namespaces/n/finalize", Route(NAMESPACES, "", "n", "finalize")),
        ("/apis/example.com/v1beta1/toys", Route(TOYS)),
        ("/apis/example.com/v1beta1/namespaces/n/toys/a/nothing", Route(TOYS, "n", "a", "nothing")),
        ("/apis/example.com/v1beta1/namespaces/status/toys", Route(TOYS, "status")),
    ],
)
def test_paths_that_lead_somewhere(path: str, route: Route) -> None:
    assert Router(registry()).find(path) == route


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/apis/example.com",
        "/api/v1/things",
        "/api/v2/pods",
        "/api/v1/pods/a",
        "/api/v1/namespaces/n/namespaces",
        "/api/v1/namespaces/n/pods/a/log/deep",
        "/api/v1/namespaces/n/configmaps/a/status",
    ],
)
def test_paths_that_lead_nowhere(path: str) -> None:
    assert Router(registry()).find(path) is None


def test_a_key_is_where_an_object_is_kept() -> None:
    assert (Route(PODS, "n", "a").key, Route(NAMESPACES, "", "n").key) == ("n/a", "n")


def test_what_was_found_is_found_again_when_kinds_change() -> None:
    kinds = registry(PODS)
    router = Router(kinds)
    assert router.find("/api/v1/configmaps") is None
    kinds.add(CONFIG_MAPS)
    first = router.find("/api/v1/configmaps")
    assert first is not None
    assert router.find("/api/v1/configmaps") is first
    kinds.remove("", "configmaps")
    assert router.find("/api/v1/configmaps") is None


def test_not_all_paths_are_remembered_for_ever() -> None:
    router = Router(registry(), remembered=2)
    for name in "abcde":
        assert router.find(f"/api/v1/namespaces/n/pods/{name}") == Route(PODS, "n", name)
