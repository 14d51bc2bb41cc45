"""Rights that the account on a worker lacks: what is added to its roles, and what stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.registration.plan import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    Registration,
    Right,
    worker_objects,
)
from multikueue.registration.preflight import Place
from multikueue.registration.repairs import role_repairs
from tests.cli.cluster import Cluster, Fake

ROLE = ObjectKey("", "multikueue")
WORKLOADS = Right("kueue.x-k8s.io", "workloads", ("get", "create"))
OWN_RULE = {"apiGroups": ["example.com"], "resources": ["sweeps"], "verbs": ["create"]}


@pytest.fixture
def worker() -> Cluster:
    made = Cluster("worker")
    for one in worker_objects(Registration(cluster="w1")):
        made.put(one.kind, one.manifest)
    return made


async def repaired(
    worker: Cluster, missing: Mapping[Place, tuple[str, ...]], **named: Any
) -> tuple[list[str], list[str]]:
    wanted, refused = await role_repairs(Fake(worker), Registration(cluster="w1", **named), missing)
    return [str(one) for one in wanted], [*refused]


@pytest.mark.anyio
async def test_a_role_keeps_its_rules_and_gets_what_it_lacks(worker: Cluster) -> None:
    worker.change(CLUSTER_ROLES, ROLE, {"rules": [OWN_RULE]})

    (role,), refused = await role_repairs(
        Fake(worker), Registration(cluster="w1"), {Place(WORKLOADS): ("create",), Place(Right("batch", "jobs", ())): ()}
    )

    added = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["get", "create"]}
    assert (role.body["rules"], role.is_shared, refused) == ([OWN_RULE, added], False, {})
    assert worker.sent == []


@pytest.mark.anyio
async def test_a_role_that_has_it_all_is_left_alone_and_a_missing_binding_is_made(worker: Cluster) -> None:
    has_all = await repaired(worker, {Place(WORKLOADS): ("create",)})
    worker.drop(CLUSTER_ROLE_BINDINGS, ROLE)
    unbound = await repaired(worker, {Place(WORKLOADS): ("create",)})

    assert has_all == ([], [])
    assert unbound == (["ClusterRoleBinding multikueue"], [])


@pytest.mark.anyio
async def test_what_is_missing_in_a_namespace_is_given_there(worker: Cluster) -> None:
    missing = {Place(WORKLOADS, "team-a"): ("create",)}

    assert await repaired(worker, missing, run_in=("team-a", "team-b")) == (
        ["Role team-a/multikueue", "RoleBinding team-a/multikueue"],
        [],
    )
    assert worker.find(ROLES, ObjectKey("team-a", "multikueue")) is None


@pytest.mark.anyio
async def test_a_role_of_somebody_else_is_not_touched(worker: Cluster) -> None:
    worker.change(CLUSTER_ROLES, ROLE, {"metadata": {"labels": None}, "rules": []})

    assert await repaired(worker, {Place(WORKLOADS): ("create",)}) == ([], ["ClusterRole multikueue"])


@pytest.mark.anyio
async def test_nothing_is_asked_for_where_nothing_is_missing(worker: Cluster) -> None:
    assert await repaired(worker, {Place(WORKLOADS): ()}) == ([], [])
    assert worker.requests == []
