"""What OCM's add-on for accounts and its agent for works do, by hand: one file, for hubs that have neither."""

from __future__ import annotations

from base64 import b64encode

from multikueue.registration.accounts import AGENT_NAMESPACE
from multikueue_simulator import definitions
from testbed import objects
from testbed.client import ApiError, Client, Kind, eventually
from testbed.plane import ControlPlane

__all__ = ["ACCOUNT", "SERVICE_ACCOUNT", "carry", "define", "served"]

ACCOUNT = "multikueue"
SERVICE_ACCOUNT = Kind("authentication.open-cluster-management.io/v1beta1", "ManagedServiceAccount")
MANIFEST_WORK = Kind("work.open-cluster-management.io/v1", "ManifestWork")


async def define(hub: Client) -> None:
    """The kind ManagedServiceAccount, as the simulator has it: it is of a part of OCM that the testbed does not have."""
    for body in definitions.managed_service_accounts():
        if body["spec"]["names"]["kind"] == SERVICE_ACCOUNT.kind:
            await hub.apply(dict(body))
    await served(hub, SERVICE_ACCOUNT)


async def served(hub: Client, kind: Kind) -> None:
    """Waits until a kind that was defined a moment ago can be listed."""

    async def is_served() -> bool:
        try:
            await hub.list(kind)
        except ApiError as error:
            if error.status not in (404, 429):
                raise
            return False
        return True

    await eventually(is_served)


async def carry(hub: Client, cluster: str, plane: ControlPlane) -> None:
    """Make the account and the rights that are in the namespace of a cluster on its plane, and bring back the token."""
    work = await hub.get(MANIFEST_WORK, ACCOUNT, cluster)
    async with plane.client() as client:
        await client.apply(objects.namespace(AGENT_NAMESPACE))
        for body in work["spec"]["workload"]["manifests"]:
            await client.apply(body)
    token = await plane.service_account_token(ACCOUNT, namespace=AGENT_NAMESPACE)
    data = {name: b64encode(value).decode() for name, value in (("token", token.encode()), ("ca.crt", plane.ca))}
    metadata = {"name": ACCOUNT, "namespace": cluster}
    await hub.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    reference = {"name": ACCOUNT, "lastRefreshTimestamp": "2026-01-01T12:00:00Z"}
    await hub.patch_status(SERVICE_ACCOUNT, ACCOUNT, {"tokenSecretRef": reference}, cluster)
