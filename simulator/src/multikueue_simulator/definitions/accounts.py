"""ManagedServiceAccount and ManifestWork of OCM, as far as accounts on managed clusters take them (ocm.md 2.2)."""

from __future__ import annotations

from fakekube.schemas.notation import Kind, Version, array, conditions, flag, number, record, text, time

__all__ = ["MANAGED_SERVICE_ACCOUNT", "MANIFEST_WORK"]

MANIFEST = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}

MANAGED_SERVICE_ACCOUNT = Kind(
    group="authentication.open-cluster-management.io",
    kind="ManagedServiceAccount",
    plural="managedserviceaccounts",
    namespaced=True,
    versions=(
        Version(
            name="v1beta1",
            storage=True,
            schema=record(
                spec=record(
                    needs=("rotation",),
                    rotation=record(
                        default={}, enabled=flag(default=True), validity=text(default="8640h0m0s") | {"nullable": False}
                    ),
                    ttlSecondsAfterCreation=number(0),
                ),
                status=record(
                    conditions=conditions(),
                    expirationTimestamp=time(),
                    tokenSecretRef=record(
                        needs=("lastRefreshTimestamp", "name"), lastRefreshTimestamp=time(), name=text()
                    ),
                ),
            ),
        ),
    ),
)

MANIFEST_WORK = Kind(
    group="work.open-cluster-management.io",
    kind="ManifestWork",
    plural="manifestworks",
    namespaced=True,
    versions=(
        Version(
            name="v1",
            storage=True,
            schema=record(
                spec=record(workload=record(manifests=array(MANIFEST))), status=record(conditions=conditions())
            ),
        ),
    ),
)
