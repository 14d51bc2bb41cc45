"""`clusters discover`, and `clusters register` of what it finds."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml

from multikueue.api.kinds import (
    CLUSTER_PROFILES,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
)
from multikueue.registration.accounts import MANIFEST_WORKS
from multikueue.registration.discovery import JOINED
from multikueue.registration.plan import LABELS
from tests.builders import multikueue_cluster
from tests.cli.commands.clusters.registering import REGISTER, stored
from tests.cli.conftest import Run, World


@pytest.fixture
def hub(world: World) -> World:
    """An OCM hub with `worker`, which the kubeconfig has a context of, and `far`, which it has none of; and one ClusterProfile
    that can be reached."""
    for name, region in (("worker", "eu"), ("far", "us")):
        world.manager.add(NAMESPACES, {"metadata": {"name": name}})
        held = [{"type": kind, "status": "True", "reason": "x", "message": ""} for kind, _ in JOINED]
        status = {"conditions": held, "version": {"kubernetes": "v1.37.0"}}
        body = {"metadata": {"name": name, "labels": {"region": region}}, "spec": {"hubAcceptsClient": True}}
        world.manager.add(MANAGED_CLUSTERS, {**body, "status": status})
    providers = [{"name": "ocm", "cluster": {"server": "https://p1.example"}}]
    spec: dict[str, Any] = {"clusterManager": {"name": "open-cluster-management"}}
    profile = {"metadata": {"name": "p1", "namespace": "kueue-system"}, "spec": spec}
    world.manager.add(CLUSTER_PROFILES, {**profile, "status": {"accessProviders": providers}})
    return world


def clusters(world: World) -> list[str]:
    return [name for _, name in world.manager.names(MULTIKUEUE_CLUSTERS)]


def test_contexts_are_told_apart_without_a_call_to_them(world: World, cli: Run) -> None:
    assert cli(*REGISTER).code == 0
    world.worker.sent.clear()

    items = json.loads(cli("clusters", "discover", "-o", "json").out)["items"]

    assert [(each["name"], each["state"], each["registered"], each["problem"]) for each in items] == [
        ("gone", "Possible", "", ""),
        ("manager", "NotPossible", "", "it is the manager cluster"),
        ("worker", "Registered", "w1", ""),
    ]
    assert world.worker.sent == []


def test_a_hub_says_which_of_its_clusters_can_be_workers(hub: World, cli: Run) -> None:
    wide = cli("clusters", "discover", "--from", "ocm", "-o", "wide")
    eu = cli("clusters", "discover", "--from", "ocm", "-l", "region=eu", "-o", "name")

    assert [line.split()[:2] for line in wide.lines[1:]] == [["far", "NotPossible"], ["worker", "Possible"]]
    assert "your kubeconfig has no context far" in wide.lines[1]
    assert "v1.37.0" in wide.lines[2]
    assert eu.lines == ["cluster/worker"]
    assert "1 could be registered: multikueue clusters register --from ocm --all" in wide.err


def test_contexts_have_no_labels(world: World, cli: Run) -> None:
    assert cli("clusters", "discover", "-l", "a=b").code == 2


def test_what_can_be_one_is_registered_and_a_second_time_nothing_changes(hub: World, cli: Run) -> None:
    first = cli("clusters", "register", "--from", "ocm", "--all", "--yes", "--config-name", "all")
    credential, writes = hub.manager.named(SECRETS, "multikueue-worker", "kueue-system"), len(hub.manager.sent)
    again = cli("clusters", "register", "--from", "ocm", "--all", "--yes", "--config-name", "all")

    assert (first.code, clusters(hub)) == (0, ["worker"]), first.err
    assert "far is left out: your kubeconfig has no context far" in first.err
    assert hub.manager.named(MULTIKUEUE_CONFIGS, "all")["spec"]["clusters"] == ["worker"]  # type: ignore[index]
    assert again.code == 0, again.err
    assert hub.manager.named(SECRETS, "multikueue-worker", "kueue-system") == credential
    assert len(hub.manager.sent) == writes
    assert "worker is registered." in again.err


def test_one_that_cannot_be_reached_keeps_no_other_from_it(world: World, cli: Run) -> None:
    done = cli("clusters", "register", "gone", "worker", "nowhere", "manager")

    assert clusters(world) == ["worker"]
    assert done.code != 0
    assert "1 of 4 workers registered." in done.err
    assert "cluster gone is unreachable" in done.err
    assert "there is no cluster 'nowhere' to register; there are: " in done.err
    assert "manager cannot be registered: it is the manager cluster" in done.err


def test_all_are_asked_for_first(world: World, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert cli("clusters", "register", "--from", "kubeconfig", "--all").code == 1
    assert clusters(world) == []


AGENTS = ("clusters", "register", "--from", "ocm", "--all", "--managed-accounts", "--yes")


def test_the_agents_of_a_hub_make_the_accounts_without_a_context_of_ours(hub: World, cli: Run) -> None:
    dry = cli(*AGENTS, "--dry-run")
    assert hub.manager.sent == []
    done = cli(*AGENTS)
    writes = len(hub.manager.sent)
    again = cli(*AGENTS)

    documents = [each for each in yaml.safe_load_all(dry.out) if each]
    assert [each["kind"] for each in documents] == ["ManagedServiceAccount", "ManifestWork"] * 2
    assert (done.code, again.code) == (0, 0), done.err
    both = [("far", "multikueue"), ("worker", "multikueue")]
    assert sorted(hub.manager.names(MANAGED_SERVICE_ACCOUNTS)) == both
    assert sorted(hub.manager.names(MANIFEST_WORKS)) == both
    assert (clusters(hub), hub.worker.sent) == ([], []), "a fleet does the rest, and nobody asks the worker"
    assert "fleet.service_account: multikueue" in done.err
    assert len(hub.manager.sent) == writes, "a second time nothing changes"


def test_the_accounts_go_with_the_worker_and_those_of_others_stay(hub: World, cli: Run) -> None:
    other = {"metadata": {"name": "multikueue", "namespace": "far"}, "spec": {"rotation": {}}}
    hub.manager.add(MANAGED_SERVICE_ACCOUNTS, other)
    assert cli(*AGENTS).code == 0

    for name in ("far", "worker"):
        hub.manager.add(
            MULTIKUEUE_CLUSTERS, multikueue_cluster(name).labels(LABELS).secret(f"multikueue-{name}").build()
        )
        assert cli("clusters", "remove", name).code == 0

    assert hub.manager.names(MANAGED_SERVICE_ACCOUNTS) == [("far", "multikueue")]
    assert hub.manager.names(MANIFEST_WORKS) == []


@pytest.mark.parametrize(
    "more", [("--from", "kubeconfig", "--all"), ("--from", "ocm", "--all", "--run-in", "a"), ("w1",)], ids=" ".join
)
def test_only_a_hub_has_agents_and_their_accounts_are_for_all_namespaces(
    world: World, cli: Run, more: tuple[str, ...]
) -> None:
    assert cli("clusters", "register", "--managed-accounts", *more).code == 2
    assert world.manager.sent == []


def test_profiles_need_no_credential_of_ours(hub: World, cli: Run) -> None:
    dry = cli("clusters", "register", "p1", "--from", "clusterprofiles", "--dry-run")
    assert clusters(hub) == []
    done = cli("clusters", "register", "p1", "--from", "clusterprofiles")

    documents = [each for each in yaml.safe_load_all(dry.out) if each]
    assert documents[-1]["spec"] == {"clusterSource": {"clusterProfileRef": {"name": "p1"}}}
    assert "Secret" not in [each["kind"] for each in documents]
    assert (done.code, clusters(hub)) == (0, ["p1"]), done.err
    assert hub.manager.names(SECRETS) == []


@pytest.mark.parametrize(
    "words", [(), ("w1",), ("a", "b", "--context", "worker")], ids=["nothing", "no way", "two names"]
)
def test_who_joins_and_how_must_be_clear(world: World, cli: Run, words: tuple[str, ...]) -> None:
    assert cli("clusters", "register", *words).code == 2
    assert clusters(world) == []


def test_a_credential_that_the_worker_refuses_is_made_anew(world: World, cli: Run) -> None:
    assert cli(*REGISTER).code == 0
    before = stored(world)["users"]
    world.worker.revoke(before[0]["user"]["token"])

    again = cli(*REGISTER)

    assert again.code == 0, again.err
    assert "w1 refuses the credential that the manager has" in again.err
    assert stored(world)["users"] != before
