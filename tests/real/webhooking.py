"""A manager with an admission webhook on loopback, for modules of real tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import anyio

from multikueue.controllers.serving.visibility import CERTIFICATE_SECRET
from multikueue.web.visibility import SERVED
from testbed import objects
from testbed.bed import Testbed
from testbed.client import ApiError, Kind, eventually
from testbed.objects import KUEUE_NAMESPACE, SECRET
from testbed.ports import free_port
from tests.real.harness import Manager, Team

__all__ = [
    "CERTIFICATE",
    "CONFIGURATION",
    "SETTINGS",
    "WEBHOOKS",
    "lead_to_us",
    "registered",
    "visibility_settings",
    "with_webhook",
]

WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
CONFIGURATION = "multikueue-manager"
CERTIFICATE = "multikueue-webhook-certificate"
VISIBILITY_SERVICE = "multikueue-visibility"
API_SERVICES = Kind("apiregistration.k8s.io/v1", "APIService")

SETTINGS: Mapping[str, str] = {
    "WEBHOOK__ENABLED": "true",
    "WEBHOOK__HOST": "127.0.0.1",
    "WEBHOOK__PORT": "0",
    "WEBHOOK__URL": "https://127.0.0.1:9443",
}


def with_webhook(bed: Testbed, settings: Mapping[str, str]) -> Iterator[Manager]:
    """The manager; its registrations go with it, or no other module could make a job or install what `deploy/` has."""
    anyio.run(_prepare, bed)
    process = Manager(bed, **settings)  # type: ignore[arg-type]  # no setting is called `command`
    process.start()
    yield process
    process.kill()
    anyio.run(_withdraw, bed)


def visibility_settings() -> dict[str, str]:
    """What has the manager serve the visibility API on loopback, at a port of its own."""
    port = str(free_port())
    visibility = {"ENABLED": "true", "HOST": "127.0.0.1", "PORT": port, "SERVICE_PORT": port}
    return {f"VISIBILITY__{key}": value for key, value in visibility.items()}


async def lead_to_us(bed: Testbed) -> None:
    """The Service of the visibility API leads to this machine."""
    meta = {"name": VISIBILITY_SERVICE, "namespace": KUEUE_NAMESPACE}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(KUEUE_NAMESPACE))
        await client.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})


async def registered(crew: Team) -> Team:
    """A team, once the API server asks the webhook: it hears of the registration as others do, a little later."""
    await eventually(lambda: _is_asked(crew))
    return crew


async def _is_asked(crew: Team) -> bool:
    body = objects.job("probe", crew.namespace, suspend=False)
    try:
        made = await crew.manager.create(body, dry_run=True)
    except ApiError as error:
        if error.status == 500:  # it is registered and does not answer yet
            return False
        raise
    return bool(made["spec"]["suspend"])


async def _prepare(bed: Testbed) -> None:
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(KUEUE_NAMESPACE))


async def _withdraw(bed: Testbed) -> None:
    async with bed.manager.client() as client:
        await client.delete(WEBHOOKS, CONFIGURATION)
        await client.delete(SECRET, CERTIFICATE, KUEUE_NAMESPACE)
        for group, version in SERVED:
            await client.delete(API_SERVICES, f"{version}.{group}")
        await client.delete(SECRET, CERTIFICATE_SECRET, KUEUE_NAMESPACE)
        await client.delete(Kind("v1", "Service"), VISIBILITY_SERVICE, KUEUE_NAMESPACE)
