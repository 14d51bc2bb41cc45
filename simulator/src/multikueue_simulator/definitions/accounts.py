"""ManagedServiceAccount of OCM: an account on a managed cluster, whose token the hub has (ocm.md 2.2)."""

from __future__ import annotations

from fakekube.schemas.notation import Kind, Version, conditions, flag, number, record, text, time

__all__ = ["MANAGED_SERVICE_ACCOUNT"]

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
