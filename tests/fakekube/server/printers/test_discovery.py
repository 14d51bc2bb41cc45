from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakekube.model.resources import Registry
from fakekube.model.wire import Request
from fakekube.server.printers import discovery
from tests.fakekube.front_ends import CONFIG_MAPS, JOBS, PODS, TOYS, registry, resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},{AGGREGATED.replace('v2', 'v2beta1')},application/json"


def ask(served: Registry, path: str, accept: str = "application/json") -> Any:
    answer = discovery.answer(served, Request(method="GET", path=path, accept=accept))
    return msgspec.json.decode(answer.body) if answer is not None else None


def test_the_version_is_one_that_kueue_accepts() -> None:
    assert ask(registry(), "/version")["gitVersion"].startswith("v1.37.")
    assert (ask(registry(), "/version")["major"], ask(registry(), "/version")["minor"]) == ("1", "37")


def test_the_groups() -> None:
    assert ask(registry(), "/api")["versions"] == ["v1"]
    assert [each["name"] for each in ask(registry(), "/apis")["groups"]] == ["batch", "example.com"]
    group = ask(registry(), "/apis/batch")
    named = {"groupVersion": "batch/v1", "version": "v1"}
    assert group == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "batch",
        "versions": [named],
        "preferredVersion": named,
    }


@pytest.mark.parametrize(
    "path", ["/apis/none", "/apis/batch/v9", "/api/v2", "/apis/batch/v1/jobs", "/healthz", "/", "/apis//v1"]
)
def test_other_paths_are_not_answered(path: str) -> None:
    assert ask(registry(), path) is None


def test_only_reading_is_answered() -> None:
    assert discovery.answer(registry(), Request(method="POST", path="/api")) is None


def test_the_best_version_comes_first() -> None:
    names = ("v1alpha1", "v1beta2", "v2", "v1beta1", "other", "v10", "v1", "v2alpha3")
    served = Registry(tuple(resource("toys", "Toy", "example.com", version=name) for name in names))
    expected = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha3", "v1alpha1", "other"]
    assert discovery.versions(served, "example.com") == expected
    assert ask(served, "/apis/example.com")["preferredVersion"]["version"] == "v10"


def test_the_resources_of_a_version() -> None:
    entries = ask(Registry((PODS, CONFIG_MAPS)), "/api/v1")["resources"]
    assert [each["name"] for each in entries] == ["configmaps", "pods", "pods/log", "pods/status"]
    assert entries[1] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": list(PODS.verbs),
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert entries[2]["verbs"] == ["get"]
    assert entries[3]["verbs"] == ["get", "patch", "update"]


def test_subresources_that_speak_of_another_kind() -> None:
    entries = {each["name"]: each for each in ask(registry(), "/apis/example.com/v1beta1")["resources"]}
    scale = entries["toys/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    accounts = {each["name"]: each for each in ask(registry(), "/api/v1")["resources"]}
    token = accounts["serviceaccounts/token"]
    assert (token["kind"], token["verbs"]) == ("TokenRequest", ["create"])


def test_aggregated_discovery_has_everything_at_once() -> None:
    core, others = (ask(registry(), path, KUBECTL) for path in ("/api", "/apis"))
    assert (core["kind"], core["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    assert [each["metadata"] for each in others["items"]] == [{"name": "batch"}, {"name": "example.com"}]
    (version,) = others["items"][0]["versions"]
    own = {"group": "batch", "version": "v1", "kind": "Job"}
    assert version == {
        "version": "v1",
        "freshness": "Current",
        "resources": [
            {
                "resource": "jobs",
                "responseKind": own,
                "scope": "Namespaced",
                "singularResource": "job",
                "verbs": list(JOBS.verbs),
                "categories": ["all"],
                "subresources": [
                    {"subresource": "status", "responseKind": own, "verbs": ["get", "patch", "update"]},
                ],
            }
        ],
    }
    assert core["items"][0]["metadata"] == {}
    namespaces = next(r for r in core["items"][0]["versions"][0]["resources"] if r["resource"] == "namespaces")
    assert namespaces["scope"] == "Cluster"


def test_who_does_not_know_the_new_form_gets_the_old_one() -> None:
    assert ask(registry(), "/apis", "application/json, */*")["kind"] == "APIGroupList"
    old_only = AGGREGATED.replace("v2", "v2beta1") + ",application/json"
    assert ask(registry(), "/apis", old_only)["kind"] == "APIGroupList"


def test_the_new_form_says_what_it_is() -> None:
    answer = discovery.answer(registry(), Request(method="GET", path="/apis", accept=KUBECTL))
    assert answer is not None
    assert answer.content_type == AGGREGATED


def test_documents_are_kept_until_the_registry_changes() -> None:
    served = Registry((JOBS,))
    request = Request(method="GET", path="/apis")
    first = discovery.answer(served, request)
    assert discovery.answer(served, request) is first
    served.add(TOYS)
    assert [each["name"] for each in ask(served, "/apis")["groups"]] == ["batch", "example.com"]
    served.remove("example.com", "toys")
    assert ask(served, "/apis/example.com") is None
