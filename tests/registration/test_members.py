from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.queues import LabelSelector
from multikueue.api.meta import Condition, ObjectKey, ObjectMeta
from multikueue.api.multikueue.clusters import FLEET_LABEL
from multikueue.api.multikueue.ocm import (
    ClientConfig,
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetSpec,
    ManagedClusterSpec,
    ManagedClusterStatus,
    ManagedClusterTaint,
    ManagedServiceAccount,
    ManagedServiceAccountStatus,
    TokenSecretRef,
)
from multikueue.registration.discovery import JOINED
from multikueue.registration.members import FleetMember, ManagedInventory, members_of_hub, selector_of
from multikueue.settings.values import label_terms
from tests.builders import secret

RULES = ManagedInventory(namespace="kueue-system", origin="multikueue", secret="multikueue-{cluster}")
MEMBER = {"cluster.open-cluster-management.io/clusterset": "gpu"}
AVAILABLE = ManagedClusterStatus(
    conditions=tuple(Condition(type=kind, status="True", message="") for kind, _ in JOINED)
)


def cluster(name: str, labels: dict[str, str] | None = None, *taints: str, url: str = "") -> ManagedCluster:
    parts = [(key, effect) for key, _, effect in (each.partition(":") for each in taints)]
    spec = ManagedClusterSpec(
        managed_cluster_client_configs=(ClientConfig(url=url),) if url else (),
        taints=tuple(ManagedClusterTaint(key=key, effect=effect) for key, effect in parts),
    )
    return ManagedCluster(metadata=ObjectMeta(name=name, labels=labels or {}), spec=spec, status=AVAILABLE)


def cluster_set(name: str, kind: str = "ExclusiveClusterSetLabel", **labels: str) -> ManagedClusterSet:
    selector = ManagedClusterSelector(kind, LabelSelector(match_labels=labels) if labels else None)
    spec = ManagedClusterSetSpec(cluster_selector=selector)
    return ManagedClusterSet(metadata=ObjectMeta(name=name), spec=spec)


def account(refreshed: str) -> ManagedServiceAccount:
    status = ManagedServiceAccountStatus(TokenSecretRef("multikueue", refreshed) if refreshed else None)
    return ManagedServiceAccount(metadata=ObjectMeta(name="multikueue", namespace="a"), status=status)


def members(*found: ManagedCluster, sets: tuple[ManagedClusterSet, ...] = (), **rules: Any) -> dict[str, FleetMember]:
    kubeconfigs = {f"multikueue-{each.metadata.name}": secret("s").kubeconfig(b"x").build() for each in found}
    by_name = {each.metadata.name: each for each in sets}
    inventory = members_of_hub(replace(RULES, **rules), found, by_name, {}, kubeconfigs)
    assert inventory.problem == ""
    return dict(inventory.members)


@pytest.mark.parametrize(
    ("rules", "sets", "expected"),
    [
        ({}, (), ["a", "b", "c"]),
        ({"cluster_set": "gpu"}, (cluster_set("gpu"),), ["a", "b"]),
        ({"cluster_set": "eu"}, (cluster_set("eu", "LabelSelector", zone="eu"),), ["b", "c"]),
        ({"cluster_set": "global"}, (cluster_set("global", "LabelSelector"),), ["a", "b", "c"]),
        ({"selector": selector_of(label_terms("zone!=eu"))}, (), ["a"]),
        ({"cluster_set": "gpu", "selector": selector_of(label_terms("zone"))}, (cluster_set("gpu"),), ["b"]),
    ],
    ids=["all", "a set", "a set by labels", "a set of all", "a selector", "a selector within a set"],
)
def test_members_are_those_of(rules: dict[str, Any], sets: tuple[ManagedClusterSet, ...], expected: list[str]) -> None:
    found = (cluster("a", MEMBER), cluster("b", {**MEMBER, "zone": "eu"}), cluster("c", {"zone": "eu"}))
    assert list(members(*found, sets=sets, **rules)) == expected


def test_without_its_set_an_inventory_is_not_believed() -> None:
    inventory = members_of_hub(replace(RULES, cluster_set="gpu"), [cluster("a", MEMBER)], {}, {}, {})
    assert (inventory.members, inventory.problem) == ({}, "the hub has no ManagedClusterSet gpu")


@pytest.mark.parametrize(
    ("taint", "taints", "problem"),
    [
        ("gpu:NoSelect", "gpu:NoSelect", ""),
        ("gpu:PreferNoSelect", "", ""),
        ("gpu:NoSelectIfNew", "", "taint gpu:NoSelectIfNew keeps new ones away"),
        ("fine:NoSelect", "", ""),
        ("fine:NoSelectIfNew", "", ""),
    ],
    ids=["keeps work away", "only prefers others", "keeps it from joining", "is tolerated", "is tolerated when new"],
)
def test_a_taint(taint: str, taints: str, problem: str) -> None:
    (found,) = members(cluster("a", None, taint), tolerations=frozenset({"fine"})).values()
    assert (found.taints, found.problem) == (taints, problem)


def test_labels_with_a_meaning_for_us_do_not_follow() -> None:
    labels = {"zone": "eu", FLEET_LABEL: "other", "feature.open-cluster-management.io/addon-x": "available"}
    (found,) = members(cluster("a", labels)).values()
    assert found.labels == {"zone": "eu"}


@pytest.mark.parametrize(
    ("refreshed", "url", "rules", "expected"),
    [
        (None, "https://a", {}, "there is no ManagedServiceAccount a/multikueue"),
        ("", "https://a", {}, "ManagedServiceAccount a/multikueue has no token yet"),
        ("2026-01-01T12:00:00Z", "", {}, "the hub has no URL of it: set fleet.server"),
        ("2026-01-01T12:00:00Z", "https://a", {}, "https://a"),
        ("2026-01-01T12:00:00Z", "https://a", {"server": "https://proxy/{cluster}"}, "https://proxy/a"),
    ],
    ids=["no account", "no token", "no address", "its own address", "that of a proxy"],
)
def test_the_token_of_an_account(refreshed: str | None, url: str, rules: dict[str, Any], expected: str) -> None:
    accounts = {ObjectKey("a", "multikueue"): account(refreshed)} if refreshed is not None else {}
    ours = {"multikueue-a": secret("multikueue-a").labels({FLEET_LABEL: "multikueue"}).kubeconfig(b"x").build()}
    inventory = members_of_hub(
        replace(RULES, account="multikueue", **rules), [cluster("a", url=url)], {}, accounts, ours
    )
    found = inventory.members["a"]
    assert (found.token.server if found.token is not None else found.problem) == expected


def test_another_token_or_address_is_another_digest() -> None:
    def digest(refreshed: str, url: str) -> str:
        accounts = {ObjectKey("a", "multikueue"): account(refreshed)}
        rules = replace(RULES, account="multikueue")
        token = members_of_hub(rules, [cluster("a", url=url)], {}, accounts, {}).members["a"].token
        assert token is not None
        return token.digest

    assert len({digest("1", "https://a"), digest("2", "https://a"), digest("1", "https://b")}) == 3
    assert digest("1", "https://a") == digest("1", "https://a")
