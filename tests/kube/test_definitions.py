from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest

from fakekube.model.wire import Refused
from multikueue.answers.findings import Finding
from multikueue.errors import InvalidObject, NotFound
from multikueue.kube.definitions import Definitions, definitions, kueue_release, lost
from multikueue.registration.preflight import preflight
from tests.cli.cluster import Cluster, Fake, Tree

PLAIN = frozenset({"podSets", "podSets.name", "podSets.template", "queueName"})


def served(*fields: str, pod_sets: int = 8) -> Cluster:
    """A cluster with Kueue's definition of Workloads, these fields in its spec besides the plain ones."""
    return Cluster("w", documents=documents({*PLAIN, *fields}, pod_sets))


def documents(fields: Collection[str], pod_sets: int) -> dict[str, Tree]:
    spec: Tree = {"properties": {}}
    for field in sorted(fields):
        *above, name = field.split(".")
        at = spec
        for step in above:
            at = at["properties"][step].setdefault("items", {"properties": {}})
        at["properties"][name] = {"type": "string"}
    spec["properties"]["podSets"]["maxItems"] = pod_sets
    # Of a pod's own fields nothing is asked: they are Kubernetes', and many.
    spec["properties"]["podSets"]["items"]["properties"]["template"] = {"properties": {"spec": {}}}
    kind = {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "Workload"}
    schema = {"x-kubernetes-group-version-kind": [kind], "properties": {"spec": spec}}
    return {
        "/apis/kueue.x-k8s.io": {"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]},
        "/openapi/v3/apis/kueue.x-k8s.io/v1beta2": {"components": {"schemas": {"Other": {}, "Workload": schema}}},
    }


def silent() -> Cluster:
    """A cluster that tells nothing of its definitions."""
    cluster = Cluster("w")

    def fault(_verb: str, _plural: str) -> Refused | None:
        is_asked = cluster.requests[-1].path == "/openapi/v3/apis/kueue.x-k8s.io/v1beta2"
        return Refused(404, "NotFound", "no such document") if is_asked else None

    cluster.fault = fault
    return cluster


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("cluster", "release"),
    [
        pytest.param(served(), "0.16", id="8 pod sets and no gates"),
        pytest.param(served("preemptionGates"), "0.17", id="gates of preemption"),
        pytest.param(served("preemptionGates", pod_sets=10), "0.18", id="10 pod sets"),
        pytest.param(served("preemptionGates", pod_sets=18), "0.19", id="18 pod sets"),
    ],
)
async def test_the_release_is_told_by_what_is_new_in_a_workload(cluster: Cluster, release: str) -> None:
    found = await definitions(Fake(cluster))

    assert found is not None
    assert (found.release, found.versions) == (release, ("v1beta2", "v1beta1"))
    assert found.fields >= PLAIN


@pytest.mark.anyio
@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(silent(), id="no document"),
        pytest.param(
            Cluster("w", documents={**documents(PLAIN, 8), "/openapi/v3/apis/kueue.x-k8s.io/v1beta2": {}}),
            id="a document without Workloads",
        ),
    ],
)
async def test_a_cluster_that_does_not_tell_is_nothing_to_complain_about(cluster: Cluster) -> None:
    assert await definitions(Fake(cluster)) is None
    assert "Kueue's definitions" not in {each.subject for each in await preflight(Fake(cluster))}


def test_what_a_copy_loses_is_named_by_its_outermost_field() -> None:
    here = Definitions(("v1beta2",), PLAIN | {"gates", "gates.name", "podSets.slices", "podSets.slices.size"}, 18)

    assert lost(here, Definitions(("v1beta2",), PLAIN, 8)) == ("gates", "podSets.slices")
    assert lost(Definitions(("v1beta2",), PLAIN, 8), here) == ()


NEW, OLD = served("preemptionGates", pod_sets=18), served()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("manager", "worker", "level", "detail"),
    [
        pytest.param(NEW, NEW, "ok", "as of Kueue 0.19, served as v1beta2, v1beta1", id="the same"),
        pytest.param(silent(), OLD, "ok", "as of Kueue 0.16, served as v1beta2, v1beta1", id="not told here"),
        pytest.param(
            OLD,
            NEW,
            "ok",
            "as of Kueue 0.19, served as v1beta2, v1beta1; the manager's are as of 0.16",
            id="newer there",
        ),
        pytest.param(
            NEW,
            OLD,
            "warning",
            "as of Kueue 0.16, served as v1beta2, v1beta1; the manager's are as of 0.19; a copy there is without "
            "preemptionGates; has at most 8 pod sets, not 18",
            id="older there",
        ),
    ],
)
async def test_a_worker_with_other_definitions_than_the_managers_is_told(
    manager: Cluster, worker: Cluster, level: str, detail: str
) -> None:
    ours = await definitions(Fake(manager))

    (found,) = [each for each in await preflight(Fake(worker), ours=ours) if each.subject == "Kueue's definitions"]

    assert found == Finding(level, "Kueue's definitions", detail)  # type: ignore[arg-type]  # a level of the table


DEPLOYMENT = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"


def image(name: str) -> Tree:
    return {DEPLOYMENT: {"spec": {"template": {"spec": {"containers": [{"image": name}]}}}}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("documents_there", "release", "exact"),
    [
        pytest.param(image("kueue:v0.20.3"), "0.20.3", "0.20.3", id="the tag of the image"),
        pytest.param(image("registry:5000/k:v0.20.3@sha256:1"), "0.20.3", "0.20.3", id="a tag before a digest"),
        pytest.param({**image("kueue:v0.20.0-rc.1"), **documents(PLAIN, 10)}, "0.18", "", id="no release in the tag"),
        pytest.param({DEPLOYMENT: {"spec": 7}, **documents(PLAIN, 10)}, "0.18", "", id="a Deployment of nonsense"),
        pytest.param(documents(PLAIN, 10), "0.18", "", id="no Deployment, older definitions"),
        pytest.param(documents(PLAIN, 18), "0.19+", "", id="no Deployment, definitions that newer ones may have"),
        pytest.param({"/openapi/v3/apis/kueue.x-k8s.io/v1beta2": {}}, "", "", id="nothing"),
    ],
)
async def test_the_release_is_as_exact_as_is_told(documents_there: Tree, release: str, exact: str) -> None:
    there = Fake(Cluster("w", documents=documents_there))

    assert await kueue_release(there) == release
    assert await kueue_release(there, is_exact=True) == exact


GROUP, DOCUMENT = documents(PLAIN, 8)
KIND = {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "Workload"}


class Garbling:
    """A cluster that answers one path with anything."""

    def __init__(self, path: str, answer: bytes) -> None:
        self._answers = {name: json.dumps(told).encode() for name, told in documents(PLAIN, 8).items()} | {path: answer}

    async def request(self, _method: str, path: str) -> bytes:
        if path not in self._answers:
            raise NotFound(404, "NotFound", path)
        return self._answers[path]


def _spec_is(spec: object) -> bytes:
    schema = {"x-kubernetes-group-version-kind": [KIND], "properties": {"spec": spec}}
    return json.dumps({"components": {"schemas": {"Workload": schema}}}).encode()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "answer"),
    [
        *(
            (path, answer)
            for path in (GROUP, DOCUMENT)
            for answer in (b"", b"\0\1", b"\xff", b"[1]", b'"x"', b"[" * 9999)
        ),
        (GROUP, b'{"versions": 7}'),
        (GROUP, b'{"versions": [{"name": "v1"}]}'),
        (DOCUMENT, b'{"components": []}'),
        (DOCUMENT, b'{"components": {"schemas": {"Workload": 7}}}'),
        (DOCUMENT, _spec_is([])),
        (DOCUMENT, _spec_is({"properties": {"podSets": 7}})),
    ],
)
async def test_an_answer_that_is_no_definition_is_told(path: str, answer: bytes) -> None:
    client: Any = Garbling(path, answer)
    with pytest.raises(InvalidObject, match="expected an object of Kubernetes"):
        await kueue_release(client)


@pytest.mark.anyio
async def test_a_number_of_pod_sets_that_is_none_is_not_told() -> None:
    client: Any = Garbling(DOCUMENT, _spec_is({"properties": {"podSets": {"maxItems": "many"}}}))
    assert await kueue_release(client) == "0.16"
