"""What the manager says, by its aggregated API, of why a workload waits (docs/metrics.md)."""

from __future__ import annotations

import msgspec

from multikueue.api.meta import ObjectKey
from multikueue.dispatch.prospects import Prospect
from multikueue.errors import ApiError
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.explain import Explanation

__all__ = ["Told", "told"]


class Told(msgspec.Struct, frozen=True):
    """`quota` is None of a workload that waits for none, `workers` empty of one that waits for quota."""

    quota: Explanation | None = None
    workers: tuple[Prospect, ...] = ()


async def told(client: ClusterClient, key: ObjectKey) -> Told:
    """Raises ApiError where there is no such API, no right to it, or nobody who answers, and as `Client.request` does."""
    path = f"/apis/visibility.multikueue.dev/v1alpha1/namespaces/{key.namespace}/workloads/{key.name}/explanation"
    try:
        return msgspec.json.decode(await client.request("GET", path), type=Told)
    except msgspec.DecodeError as error:
        raise ApiError(502, "BadGateway", f"an explanation of another form: {error}") from None
