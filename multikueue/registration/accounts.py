"""The account on a worker and its rights, as objects of an OCM hub whose agents carry them there. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.api.kind import Kind
from multikueue.api.kinds import MANAGED_SERVICE_ACCOUNTS
from multikueue.api.meta import Object
from multikueue.registration.choices import DEFAULT_VALIDITY
from multikueue.registration.plan import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LABELS,
    Registration,
    Wanted,
    worker_objects,
)

__all__ = ["AGENT_NAMESPACE", "MANIFEST_WORKS", "hub_objects"]

MANIFEST_WORKS = Kind("work.open-cluster-management.io", "v1", "manifestworks", "ManifestWork", True, Object)

AGENT_NAMESPACE = "open-cluster-management-agent-addon"
"""Where OCM's agent makes the accounts on a managed cluster, unless it was installed elsewhere (ocm.md 2.2)."""


def hub_objects(registration: Registration, *, manager_uid: str = "") -> tuple[Wanted, Wanted]:
    """In the namespace of the ManagedCluster: the account, whose token comes to the hub, and its rights. An account that
    somebody else made, OCM's kueue-addon perhaps, is used as it is."""
    metadata = {"name": registration.account.name, "namespace": registration.cluster, "labels": LABELS}
    validity = f"{DEFAULT_VALIDITY.total_seconds() / 3600:.0f}h0m0s"
    account = {"metadata": metadata, "spec": {"rotation": {"enabled": True, "validity": validity}}}
    there = worker_objects(replace(registration, namespace=AGENT_NAMESPACE), manager_uid=manager_uid)
    rights = [one.manifest for one in there if one.kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)]
    work = {"metadata": metadata, "spec": {"workload": {"manifests": rights}}}
    return Wanted(MANAGED_SERVICE_ACCOUNTS, account, is_shared=True), Wanted(MANIFEST_WORKS, work)
