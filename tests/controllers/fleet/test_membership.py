from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
import yaml

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import (
    DRAIN_ANNOTATION,
    FLEET_LABEL,
    HUB_TAINTS_ANNOTATION,
    IN_FLEET,
    KUBECONFIG_KEY,
    LEAVING_ANNOTATION,
    MAY_LEAVE_ANNOTATION,
)
from multikueue.controllers.fleet.inventories import inventory_of
from multikueue.controllers.fleet.membership import Membership
from multikueue.controllers.workers.draining import Drains
from multikueue.errors import ClusterUnreachable
from multikueue.registration.accounts import MANIFEST_WORKS, hub_objects
from multikueue.registration.discovery import JOINED
from multikueue.registration.plan import LABELS, Registration
from multikueue.settings import FleetMembers
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

SYSTEM = "kueue-system"
UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"


def managed(world: Table, name: str, *, available: bool = True, **spec: Any) -> None:
    status = {kind: available or kind != JOINED[2][0] for kind, _ in JOINED}
    conditions = [
        {"type": kind, "status": str(held), "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T12:00:00Z"}
        for kind, held in status.items()
    ]
    metadata = {"name": name, "labels": {"cluster.open-cluster-management.io/clusterset": "gpu", "zone": "eu"}}
    body = {"metadata": metadata, "spec": {"hubAcceptsClient": True, **spec}, "status": {"conditions": conditions}}
    world.manager.put(kinds.MANAGED_CLUSTERS, body)


def kubeconfig(world: Table, name: str) -> None:
    data = {KUBECONFIG_KEY: b64encode(b"kubeconfig").decode()}
    body = {"metadata": {"name": f"multikueue-{name}", "namespace": SYSTEM}, "data": data}
    world.manager.put(kinds.SECRETS, body)


def account(world: Table, name: str, token: str, refreshed: str, *, ours: bool = False) -> None:
    """What OCM makes of a ManagedServiceAccount `multikueue`."""
    data = {"token": b64encode(token.encode()).decode(), "ca.crt": b64encode(b"its authority").decode()}
    world.manager.put(kinds.SECRETS, {"metadata": {"name": "multikueue", "namespace": name}, "data": data})
    status = {"tokenSecretRef": {"name": "multikueue", "lastRefreshTimestamp": refreshed}}
    metadata = {"name": "multikueue", "namespace": name, "labels": LABELS if ours else {}}
    body = {"metadata": metadata, "spec": {"rotation": {}}, "status": status}
    world.manager.put(kinds.MANAGED_SERVICE_ACCOUNTS, body)


def cluster(world: Table, name: str) -> dict[str, Any]:
    return world.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)) or {}


def noted(world: Table, name: str) -> dict[str, str]:
    found: dict[str, str] = cluster(world, name)["metadata"].get("annotations", {})
    return found


def condition(world: Table, name: str) -> tuple[str, str]:
    """Reason and message of the condition that tells what becomes of it."""
    found = [each for each in cluster(world, name).get("status", {}).get("conditions", []) if each["type"] == IN_FLEET]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


def config(world: Table) -> list[str]:
    found = world.manager.find(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", "fleet"))
    return [] if found is None else found["spec"]["clusters"]


@asynccontextmanager
async def kept(world: Table, **settings: Any) -> AsyncIterator[Membership]:
    """A fleet of the hub, whose looks the test takes."""
    world.manager.put(kinds.NAMESPACES, {"metadata": {"name": SYSTEM}})
    fleet = FleetMembers(inventory=settings.pop("inventory", "ocm"), **settings)
    world.world.settings.settings = world.settings.model_copy(update={"fleet": fleet})
    membership = Membership(world.world, inventory_of(world.world, fleet, SYSTEM), SYSTEM)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(membership.inventory.run, lambda: None)
        await membership.inventory.synced()
        yield membership
        tasks.cancel_scope.cancel()


async def look(membership: Membership, times: int = 4) -> None:
    for _ in range(times):
        await anyio.wait_all_tasks_blocked()
        await membership.look()


async def test_clusters_of_a_set_join_by_their_secrets_and_are_in_the_config() -> None:
    world = table(workers=0)
    for name in ("a", "b", "c"):
        managed(world, name, available=name != "c")
        if name != "b":
            kubeconfig(world, name)
    async with kept(world, cluster_set="gpu") as membership:
        world.manager.put(
            kinds.MANAGED_CLUSTER_SETS,
            {"metadata": {"name": "gpu"}, "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}},
        )
        await look(membership)
        assert config(world) == ["a"]
        assert cluster(world, "a")["spec"]["clusterSource"]["kubeConfig"]["location"] == "multikueue-a"
        assert cluster(world, "a")["metadata"]["labels"]["zone"] == "eu"
        (event,) = [message for reason, message in world.said() if reason == "NotInFleet"]
        assert event == (
            "b: there is no kubeconfig in Secret kueue-system/multikueue-b; c: the hub does not see it as available"
        )

        kubeconfig(world, "b")
        managed(world, "c")
        await look(membership)
        assert config(world) == ["a", "b", "c"]


async def test_a_look_without_news_calls_nobody() -> None:
    world = table(workers=0)
    managed(world, "a")
    kubeconfig(world, "a")
    async with kept(world) as membership:
        await look(membership)
        world.manager.calls.clear()
        await look(membership)
        assert world.manager.calls == []


async def test_a_set_that_is_not_there_takes_nobody() -> None:
    world = table(workers=0)
    managed(world, "a")
    kubeconfig(world, "a")
    async with kept(world) as membership:
        await look(membership)
    async with kept(world, cluster_set="none") as membership:
        await look(membership)
        world.time += timedelta(days=2)
        await look(membership)
    assert LEAVING_ANNOTATION not in noted(world, "a")
    assert condition(world, "a") == ("Held", "the hub has no ManagedClusterSet none")


async def test_a_cluster_that_leaves_is_drained_and_removed() -> None:
    world = table(workers=0)
    for name in ("a", "b"):
        managed(world, name)
        kubeconfig(world, name)
    async with kept(world, drain="requeue") as membership:
        await look(membership)
        world.manager.drop(kinds.MANAGED_CLUSTERS, ObjectKey("", "b"))
        await look(membership)
        world.time += timedelta(minutes=1)
        await look(membership)
        assert noted(world, "b")[DRAIN_ANNOTATION] == "requeue"
        assert condition(world, "b") == ("Leaving", "its inventory does not have it any more")
        assert config(world) == ["a", "b"]

        await Drains(world.world).reconcile("b")
        await look(membership)
        assert cluster(world, "b") == {}
        assert config(world) == ["a"]
        assert world.manager.find(kinds.SECRETS, ObjectKey(SYSTEM, "multikueue-b")) is not None


async def test_a_hub_that_empties_itself_is_told_and_takes_nobody_until_a_person_says_so() -> None:
    world = table(workers=0)
    names = [f"w{n}" for n in range(5)]
    for name in names:
        managed(world, name)
        kubeconfig(world, name)
    async with kept(world) as membership:
        await look(membership)
        for name in names:
            world.manager.drop(kinds.MANAGED_CLUSTERS, ObjectKey("", name))
        await look(membership)
        world.time += timedelta(hours=1)
        await look(membership)
        assert all(LEAVING_ANNOTATION not in noted(world, name) for name in names)
        reason, message = condition(world, "w0")
        assert reason == "Held"
        assert "does not have 5 workers any more" in message
        assert "of 5 no more than 1 may" in message
        assert [reason for reason, _ in world.said()].count("FleetHeld") == 1

        change = {"metadata": {"annotations": {MAY_LEAVE_ANNOTATION: "true"}}}
        world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w0"), change)
        await look(membership)
        assert [name for name in names if LEAVING_ANNOTATION in noted(world, name)] == ["w0"]

        for name in names:
            managed(world, name)
        await look(membership)
        assert all(condition(world, name) == ("", "") for name in names)
        assert DRAIN_ANNOTATION not in noted(world, "w0")


async def test_taints_follow_but_for_those_that_are_tolerated() -> None:
    world = table(workers=0)
    kubeconfig(world, "a")
    managed(
        world,
        "a",
        taints=[
            {"key": "gpu", "value": "broken", "effect": "NoSelect"},
            {"key": UNAVAILABLE, "effect": "NoSelect"},
            {"key": "soft", "effect": "PreferNoSelect"},
        ],
    )
    async with kept(world, tolerations=(UNAVAILABLE,)) as membership:
        await look(membership)
        assert noted(world, "a")[HUB_TAINTS_ANNOTATION] == "gpu=broken:NoSelect"
        managed(world, "a")
        await look(membership)
        assert HUB_TAINTS_ANNOTATION not in noted(world, "a")


async def test_tokens_of_managed_service_accounts_are_used_and_renewed() -> None:
    world = table(workers=0)
    ways = [{"url": "https://a.example:6443", "caBundle": b64encode(b"the hub's word").decode()}]
    managed(world, "a", managedClusterClientConfigs=ways)
    managed(world, "b", managedClusterClientConfigs=[{"url": "https://b.example:6443"}])
    managed(world, "c")
    for name in ("a", "b", "c"):
        account(world, name, f"token of {name}", "2026-01-01T12:00:00Z")

    def made(name: str) -> dict[str, Any]:
        (found,) = [
            each for each in world.manager.all(kinds.SECRETS) if each["metadata"]["name"] == f"multikueue-{name}"
        ]
        assert found["metadata"]["labels"][FLEET_LABEL] == "multikueue"
        read: dict[str, Any] = yaml.safe_load(b64decode(found["data"][KUBECONFIG_KEY]))
        return read

    async with kept(world, service_account="multikueue") as membership:
        await look(membership)
        assert config(world) == ["a", "b"]
        place = made("a")["clusters"][0]["cluster"]
        assert place["server"] == "https://a.example:6443"
        assert b64decode(place["certificate-authority-data"]) == b"the hub's word"
        assert b64decode(made("b")["clusters"][0]["cluster"]["certificate-authority-data"]) == b"its authority"
        assert [message for reason, message in world.said() if reason == "NotInFleet"][-1].startswith(
            "c: the hub has no URL of it"
        )

        account(world, "a", "the next one", "2026-01-02T12:00:00Z")
        await look(membership)
        assert made("a")["users"][0]["user"] == {"token": "the next one"}
        world.manager.calls.clear()
        await look(membership)
        assert world.manager.calls == []


@pytest.mark.parametrize("ours", [True, False], ids=["made by register", "of somebody else"])
async def test_an_account_and_its_rights_go_with_the_worker_if_they_are_ours(ours: bool) -> None:
    world = table(workers=0)
    for name in ("a", "b"):
        managed(world, name, managedClusterClientConfigs=[{"url": f"https://{name}.example:6443"}])
        world.manager.put(kinds.NAMESPACES, {"metadata": {"name": name}})
        for wanted in hub_objects(Registration(cluster=name)):
            world.manager.put(
                wanted.kind,
                wanted.manifest | ({} if ours else {"metadata": {"name": wanted.key.name, "namespace": name}}),
            )
        account(world, name, f"token of {name}", "2026-01-01T12:00:00Z", ours=ours)
    async with kept(world, service_account="multikueue", drain="requeue") as membership:
        await look(membership)
        world.manager.drop(kinds.MANAGED_CLUSTERS, ObjectKey("", "b"))
        await look(membership)
        world.time += timedelta(minutes=1)
        await look(membership)
        await Drains(world.world).reconcile("b")
        await look(membership)
    assert cluster(world, "b") == {}
    left = [ObjectKey("a", "multikueue"), *([] if ours else [ObjectKey("b", "multikueue")])]
    for kind in (kinds.MANAGED_SERVICE_ACCOUNTS, MANIFEST_WORKS):
        assert [
            ObjectKey(each["metadata"]["namespace"], each["metadata"]["name"]) for each in world.manager.all(kind)
        ] == left


async def test_a_secret_of_somebody_else_is_not_written_over() -> None:
    world = table(workers=0)
    managed(world, "a", managedClusterClientConfigs=[{"url": "https://a.example:6443"}])
    account(world, "a", "token", "2026-01-01T12:00:00Z")
    kubeconfig(world, "a")
    async with kept(world, service_account="multikueue") as membership:
        await look(membership)
    assert cluster(world, "a") == {}
    found = world.manager.find(kinds.SECRETS, ObjectKey(SYSTEM, "multikueue-a")) or {}
    assert b64decode(found["data"][KUBECONFIG_KEY]) == b"kubeconfig"


async def test_cluster_profiles_join_by_their_access_providers() -> None:
    world = table(workers=0)
    for name, providers in (("a", [{"name": "p", "cluster": {"server": "https://a"}}]), ("b", [])):
        body = {
            "metadata": {"name": name, "namespace": SYSTEM, "labels": {"zone": "eu"}},
            "spec": {"clusterManager": {"name": "m"}},
            "status": {"accessProviders": providers},
        }
        world.manager.put(kinds.CLUSTER_PROFILES, body)
    async with kept(world, inventory="clusterprofiles", selector="zone=eu") as membership:
        await look(membership)
    assert config(world) == ["a"]
    assert cluster(world, "a")["spec"]["clusterSource"] == {"clusterProfileRef": {"name": "a"}}


async def test_one_that_cannot_be_written_keeps_no_other_from_it() -> None:
    world = table(workers=0)
    for name in ("a", "b"):
        managed(world, name)
        kubeconfig(world, name)
    refused = {"left": 1}

    def fault(verb: str, plural: str) -> Exception | None:
        if (verb, plural) == ("create", "multikueueclusters") and refused["left"]:
            refused["left"] -= 1
            return ClusterUnreachable("manager", "no answer")
        return None

    world.manager.fault = fault
    async with kept(world) as membership:
        await membership.look()
        assert len([name for name in ("a", "b") if cluster(world, name)]) == 1
        await look(membership)
        assert sorted(config(world)) == ["a", "b"]


async def test_what_the_kueue_addon_of_ocm_made_is_handed_over_as_it_is() -> None:
    """The move in docs/ocm.md: its Secrets, MultiKueueClusters and its MultiKueueConfig, called like the Placement."""
    world = table(workers=0)
    names = ["a", "b"]
    handed = {FLEET_LABEL: "multikueue"}
    for name in names:
        managed(world, name, managedClusterClientConfigs=[{"url": f"https://{name}.example:6443"}])
        account(world, name, f"token of {name}", "2026-01-01T12:00:00Z")
        kubeconfig(world, name)
        secret = ObjectKey(SYSTEM, f"multikueue-{name}")
        world.manager.change(kinds.SECRETS, secret, {"metadata": {"labels": handed}})
        source = {"clusterSource": {"kubeConfig": {"location": f"multikueue-{name}", "locationType": "Secret"}}}
        world.manager.put(kinds.MULTIKUEUE_CLUSTERS, {"metadata": {"name": name, "labels": handed}, "spec": source})
    body = {"metadata": {"name": "placement", "labels": handed}, "spec": {"clusters": ["b", "a"]}}
    world.manager.put(kinds.MULTIKUEUE_CONFIGS, body)
    uids = [cluster(world, name)["metadata"]["uid"] for name in names]

    async with kept(world, config="placement", service_account="multikueue") as membership:
        await look(membership)

    assert [cluster(world, name)["metadata"]["uid"] for name in names] == uids
    kept_config = world.manager.find(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", "placement")) or {}
    assert kept_config["spec"]["clusters"] == ["b", "a"]
    (made,) = [each for each in world.manager.all(kinds.SECRETS) if each["metadata"]["name"] == "multikueue-a"]
    assert yaml.safe_load(b64decode(made["data"][KUBECONFIG_KEY]))["users"][0]["user"] == {"token": "token of a"}
    assert cluster(world, "a")["metadata"]["labels"]["zone"] == "eu"
