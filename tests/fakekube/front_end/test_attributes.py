from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.front_end.attributes import Attributes, attributes
from fakekube.model.wire import Request

JOBS = "/apis/batch/v1/namespaces/team/jobs"
IN_TEAM = {"group": "batch", "version": "v1", "resource": "jobs", "namespace": "team"}


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", JOBS, {}, {"verb": "list", **IN_TEAM}),
        ("GET", JOBS, {"watch": "true"}, {"verb": "watch", **IN_TEAM}),
        ("GET", JOBS, {"watch": "1"}, {"verb": "watch", **IN_TEAM}),
        ("GET", JOBS, {"watch": "false"}, {"verb": "list", **IN_TEAM}),
        ("GET", f"{JOBS}/one", {}, {"verb": "get", **IN_TEAM, "name": "one"}),
        ("GET", f"{JOBS}/one/status", {}, {"verb": "get", **IN_TEAM, "name": "one", "subresource": "status"}),
        ("POST", JOBS, {}, {"verb": "create", **IN_TEAM}),
        ("PUT", f"{JOBS}/one", {}, {"verb": "update", **IN_TEAM, "name": "one"}),
        ("PATCH", f"{JOBS}/one", {}, {"verb": "patch", **IN_TEAM, "name": "one"}),
        ("DELETE", f"{JOBS}/one", {}, {"verb": "delete", **IN_TEAM, "name": "one"}),
        ("DELETE", JOBS, {}, {"verb": "deletecollection", **IN_TEAM}),
        ("GET", JOBS, {"fieldSelector": "metadata.name=one"}, {"verb": "list", **IN_TEAM, "name": "one"}),
        ("GET", JOBS, {"fieldSelector": "metadata.name!=one"}, {"verb": "list", **IN_TEAM}),
        ("GET", "/apis/batch/v1/jobs", {}, {"verb": "list", "group": "batch", "version": "v1", "resource": "jobs"}),
        (
            "GET",
            "/apis/batch/v1/watch/namespaces/team/jobs",
            {},
            {"verb": "watch", **IN_TEAM},
        ),
        ("GET", "/api/v1/namespaces", {}, {"verb": "list", "version": "v1", "resource": "namespaces"}),
        (
            "GET",
            "/api/v1/namespaces/team",
            {},
            {"verb": "get", "version": "v1", "resource": "namespaces", "namespace": "team", "name": "team"},
        ),
        (
            "PUT",
            "/api/v1/namespaces/team/finalize",
            {},
            {
                "verb": "update",
                "version": "v1",
                "resource": "namespaces",
                "namespace": "team",
                "name": "team",
                "subresource": "finalize",
            },
        ),
        ("GET", "/version", {}, {"verb": "get"}),
        ("GET", "/api/v1", {}, {"verb": "get"}),
        ("GET", "/apis", {}, {"verb": "get"}),
        ("GET", "/apis/batch", {}, {"verb": "get"}),
        ("POST", "/metrics", {}, {"verb": "post"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_request_is_about(method: str, path: str, query: dict[str, str], expected: dict[str, str]) -> None:
    request = Request(method=method, path=path, query=query)
    assert attributes(request) == Attributes(path=path, **expected)


@given(st.text(alphabet="/ap1isvnwtchmec ", max_size=40), st.sampled_from(["GET", "POST", "DELETE", "PROPFIND"]))
def test_any_path_is_about_something(path: str, method: str) -> None:
    asked = attributes(Request(method=method, path=path, query={"fieldSelector": "=,="}))
    assert asked.path == path
    assert asked.verb
