from __future__ import annotations

from typing import Any

from multikueue.registration.accounts import AGENT_NAMESPACE, hub_objects
from multikueue.registration.plan import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, MANAGER_UID_ANNOTATION, Registration
from multikueue.registration.plan import worker_objects as by_context


def manifests(registration: Registration, uid: str = "") -> list[dict[str, Any]]:
    _, work = hub_objects(registration, manager_uid=uid)
    found: list[dict[str, Any]] = work.manifest["spec"]["workload"]["manifests"]
    return found


def test_both_are_in_the_namespace_of_the_cluster_and_called_like_the_account() -> None:
    keys = [str(one) for one in hub_objects(Registration(cluster="w1"))]
    assert keys == ["ManagedServiceAccount w1/multikueue", "ManifestWork w1/multikueue"]


def test_the_rights_are_those_of_a_worker_that_is_registered_by_a_context() -> None:
    registration = Registration(cluster="w1", may_make_queues=True)
    role, binding = manifests(registration, "uid-1")
    (there,) = (one.manifest for one in by_context(registration, manager_uid="uid-1") if one.kind == CLUSTER_ROLES)
    assert role == there
    assert role["metadata"]["annotations"] == {MANAGER_UID_ANNOTATION: "uid-1"}
    assert binding["kind"] == CLUSTER_ROLE_BINDINGS.kind
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "multikueue", "namespace": AGENT_NAMESPACE}]


def test_nothing_asks_for_everything() -> None:
    role, _ = manifests(Registration(cluster="w1"))
    asked = {word for rule in role["rules"] for part in ("apiGroups", "resources", "verbs") for word in rule[part]}
    assert "*" not in asked
    assert not asked & {"bind", "escalate", "impersonate"}


def test_an_account_is_the_managers_own_by_its_origin() -> None:
    account, work = hub_objects(Registration(cluster="w1", origin="second"))
    assert account.key.name == work.key.name == "multikueue-second"
