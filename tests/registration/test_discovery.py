from __future__ import annotations

import msgspec
import pytest

from multikueue.api.meta import Condition, ObjectMeta
from multikueue.api.multikueue.clusters import AccessProvider, ClusterProfile, ClusterProfileStatus
from multikueue.api.multikueue.ocm import ClientConfig, ManagedCluster, ManagedClusterSpec, ManagedClusterStatus
from multikueue.registration.discovery import (
    JOINED,
    KnownWorkers,
    PossibleWorker,
    of_contexts,
    of_managed_clusters,
    of_profiles,
)
from tests.builders import multikueue_cluster

KNOWN = KnownWorkers(
    clusters=(
        multikueue_cluster("w1").secret("w1").build(),
        multikueue_cluster("alias").secret("alias").build(),
        multikueue_cluster("elsewhere").secret("elsewhere").build(),
        multikueue_cluster("inventoried").profile("p1").build(),
    ),
    servers={"w1": "https://w1", "alias": "https://w2", "elsewhere": "https://other"},
    manager="https://manager",
)


def told(candidate: PossibleWorker) -> tuple[str, str, str]:
    return candidate.state, candidate.registered, candidate.refusal


@pytest.mark.parametrize(
    ("name", "server", "expected"),
    [
        ("new", "https://new", ("Possible", "", "")),
        ("w1", "https://w1", ("Registered", "w1", "")),
        ("w2", "https://w2", ("Registered", "alias", "it is registered already, as alias")),
        ("elsewhere", "https://moved", ("Registered", "elsewhere", "")),
        ("here", "https://manager", ("NotPossible", "", "it is the manager cluster")),
        ("none", "", ("NotPossible", "", "it has no URL")),
        (
            "kind@me",
            "https://k",
            ("NotPossible", "", "its name is none for a MultiKueueCluster, which takes lower case"),
        ),
    ],
    ids=[
        *("a new one", "a worker", "a worker of another name", "a name that is taken"),
        *("the manager", "without a URL", "no name of an object"),
    ],
)
def test_a_context_is_a_worker_or_could_be_one(name: str, server: str, expected: tuple[str, str, str]) -> None:
    (found,) = of_contexts({name: server}, KNOWN)

    state, registered, refusal = told(found)
    assert (state, registered) == expected[:2]
    assert refusal.startswith(expected[2])
    assert bool(refusal) is bool(expected[2])


def managed(name: str, *, lacks: str = "", url: str = "", local: bool = False) -> ManagedCluster:
    held = tuple(Condition(type=kind, status="False" if kind == lacks else "True", message="") for kind, _ in JOINED)
    return ManagedCluster(
        metadata=ObjectMeta(name=name, labels={"local-cluster": "true"} if local else {}),
        spec=ManagedClusterSpec(managed_cluster_client_configs=(ClientConfig(url=url),) if url else ()),
        status=ManagedClusterStatus(conditions=held),
    )


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (managed("new"), ("Possible", "", "")),
        (managed("w2", url="https://w2"), ("Registered", "alias", "it is registered already, as alias")),
        (managed("new", lacks=JOINED[0][0]), ("NotPossible", "", "the hub has not accepted it")),
        (managed("new", lacks=JOINED[1][0]), ("NotPossible", "", "it has not joined the hub yet")),
        (managed("new", lacks=JOINED[2][0]), ("NotPossible", "", "the hub does not see it as available")),
        (managed("new", local=True), ("NotPossible", "", "it is the manager cluster")),
        (
            managed("far"),
            ("NotPossible", "", "your kubeconfig has no context far, of an administrator of that cluster"),
        ),
    ],
    ids=["a new one", "another name", "not accepted", "not joined", "not available", "the hub itself", "no context"],
)
def test_a_managed_cluster_says_whether_it_can_be_one(cluster: ManagedCluster, expected: tuple[str, str, str]) -> None:
    contexts = {name: f"https://{name}" for name in ("new", "w2")}

    assert told(*of_managed_clusters([cluster], contexts, KNOWN)) == expected


def profile(name: str, *conditions: Condition, has_provider: bool = True) -> ClusterProfile:
    provider = AccessProvider(name="ocm", cluster=msgspec.Raw(b'{"server": "https://p"}'))
    status = ClusterProfileStatus(conditions=conditions, access_providers=(provider,) if has_provider else ())
    return ClusterProfile(metadata=ObjectMeta(name=name, namespace="kueue-system"), status=status)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (profile("new"), ("Possible", "", "")),
        (profile("p1"), ("Registered", "inventoried", "it is registered already, as inventoried")),
        (profile("new", has_provider=False), ("NotPossible", "", "it has no access provider")),
        (
            profile("new", Condition(type="ControlPlaneHealthy", status="False", message="etcd is full")),
            ("NotPossible", "", "its control plane is not healthy: etcd is full"),
        ),
    ],
    ids=["a new one", "a worker of another name", "no provider", "not healthy"],
)
def test_a_profile_says_whether_it_can_be_one(found: ClusterProfile, expected: tuple[str, str, str]) -> None:
    (candidate,) = of_profiles([found], KNOWN)

    assert told(candidate) == expected
    assert candidate.server == ("https://p" if found.providers else "")
