"""The manager's reason why a workload waits, by its aggregated API (docs/metrics.md)."""

from __future__ import annotations

import msgspec

from multikueue.api.meta import ObjectKey
from multikueue.errors import ApiError
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.visibility.explain import Explanation
from multikueue.workload.nomination.prospects import Prospect

__all__ = ["ManagerExplanation", "fetch_explanation"]


class ManagerExplanation(msgspec.Struct, frozen=True):
    """`quota` is None unless the workload waits for quota; `workers` is empty while it does."""

    quota: Explanation | None = None
    workers: tuple[Prospect, ...] = ()


async def fetch_explanation(client: ClusterClient, key: ObjectKey) -> ManagerExplanation:
    """Raises ApiError without such an API, a right to it, or a readable answer, and errors of `Client.request`."""
    path = f"/apis/visibility.multikueue.dev/v1alpha1/namespaces/{key.namespace}/workloads/{key.name}/explanation"
    try:
        return msgspec.json.decode(await client.request("GET", path), type=ManagerExplanation)
    except msgspec.DecodeError as error:
        raise ApiError(502, "BadGateway", f"an explanation of another form: {error}") from None
