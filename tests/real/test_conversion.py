"""Our conversion of v1beta1 against the conversion webhook of a real Kueue; and a cluster where nobody converts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from multikueue.api.kueue.conversion import convert, lost_fields
from testbed.bed import Testbed, unique
from testbed.client import Client, Kind
from tests.api.kueue.old_manifests import DRAWN, draw
from tests.real.skipping import needs_kueue, needs_programs

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.timeout(300)]

NAMESPACED = ("LocalQueue", "Workload")
DRAWS = 25


@needs_kueue("its webhook converts")
@pytest.mark.parametrize("kind", DRAWN)
async def test_an_object_in_v1beta2_is_what_kueue_makes_of_it(bed: Testbed, kind: str) -> None:
    async with bed.workers[0].client() as client:
        for seed in range(DRAWS):
            tree = named(draw(kind, Random(seed)))
            assert content(await asked(client, convert(tree)[0])) == content(await converted(client, tree)), tree


def named(tree: dict[str, Any]) -> dict[str, Any]:
    where = {"namespace": "default"} if tree["kind"] in NAMESPACED else {}
    return tree | {"metadata": {"name": unique("old"), **where}}


def content(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in tree.items() if name not in ("metadata", "status")}


async def asked(client: Client, tree: dict[str, Any]) -> dict[str, Any]:
    """What the API server would keep of it."""
    return await client.create(tree, dry_run=True)


async def converted(client: Client, tree: dict[str, Any]) -> dict[str, Any]:
    """The object made in v1beta1 and read in v1beta2."""
    kind, meta = Kind("kueue.x-k8s.io/v1beta2", tree["kind"]), tree["metadata"]
    await client.create(tree)
    try:
        return await client.get(kind, meta["name"], meta.get("namespace"))
    finally:
        await client.delete(kind, meta["name"], meta.get("namespace"))


LOSES = [
    ("ClusterQueue", {"cohort": "teams", "admissionChecks": ["everywhere"]}),
    ("MultiKueueCluster", {"kubeConfig": {"location": "worker-1"}}),
]


@needs_programs("an API server drops the fields")
@pytest.mark.parametrize(("kind", "spec"), LOSES)
async def test_what_nobody_converts_is_known_by_who_wrote_it(bed: Testbed, kind: str, spec: dict[str, Any]) -> None:
    tree = named({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "spec": spec})
    async with bed.manager.client() as client:
        found = await converted(client, tree)

    assert set(spec) & set(found["spec"]) == set()
    assert set(lost_fields(found)) == {f"spec.{field}" for field in spec}
