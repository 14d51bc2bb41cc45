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
from tests.real.harness import Manager, Team

__all__ = ["CERTIFICATE", "CONFIGURATION", "SETTINGS", "WEBHOOKS", "registered", "with_webhook"]

WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
CONFIGURATION = "multikueue-manager"
CERTIFICATE = "multikueue-webhook-certificate"
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
        await client.delete(Kind("v1", "Service"), "multikueue-visibility", KUEUE_NAMESPACE)
