"""Keeps the certificate of one of our servers in a Secret that all replicas share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from multikueue.api.kinds import SECRETS
from multikueue.api.meta import ObjectKey
from multikueue.controllers.serving.names import MANAGED_BY
from multikueue.errors import AlreadyExists, Conflict, NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.telemetry import get_logger
from multikueue.web.serving import Serving, serving

log = get_logger()

# Our replicas write the same object: so many lost races in a row are tried again, one more is an error.
_ATTEMPTS = 5


async def keep_certificate(
    client: ClusterClient, key: ObjectKey, *, names: Sequence[str], now: Callable[[], datetime]
) -> Serving:
    """The certificate in that Secret, for a server of these names, after it was created, renewed, or found good.

    Raises as `ClusterClient` does, Conflict if the Secret keeps changing.
    """
    for _ in range(_ATTEMPTS):
        try:
            return serving(await _settled(client, key, names, now()))
        except (NotFound, AlreadyExists, Conflict):
            continue
    raise Conflict(409, "Conflict", f"Secret {key} keeps changing while we look at it")


async def issued_certificate(client: ClusterClient, key: ObjectKey) -> Serving:
    """The certificate in a Secret that something else fills and renews. Nothing is written.

    Raises as `ClusterClient` does, ValueError while a part of it is missing.
    """
    return serving((await client.get(SECRETS, key)).data)


async def _settled(client: ClusterClient, key: ObjectKey, names: Sequence[str], now: datetime) -> dict[str, str]:
    try:
        found = await client.get(SECRETS, key)
    except NotFound:
        return await _create(client, key, names, now)
    data = _renewed(now, found.data, names)
    if data != found.data:
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "data": data}
        await client.merge_patch(SECRETS, key, patch)
        log.info("certificate.renewed", secret=str(key))
    return data


def _renewed(now: datetime, data: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    from multikueue.web.certificates import renewed  # with cryptography, which takes a while to load

    return renewed(now, data, names=names)


async def _create(client: ClusterClient, key: ObjectKey, names: Sequence[str], now: datetime) -> dict[str, str]:
    data = _renewed(now, {}, names)
    body = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": MANAGED_BY},
        "type": "kubernetes.io/tls",
        "data": data,
    }
    await client.create(SECRETS, key.namespace, body)
    log.info("certificate.created", secret=str(key))
    return data
