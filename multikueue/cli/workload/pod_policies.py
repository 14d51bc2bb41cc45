"""What a cluster goes by when it makes pods, as far as somebody may read it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from multikueue.errors import Forbidden, NotFound
from multikueue.quota.visibility.differences import COMPARED, PodPolicies

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["read_policies", "unread"]


async def read_policies(client: ClusterClient, namespaces: Sequence[str]) -> PodPolicies:
    """The objects of these namespaces (an empty name: of all), and those without one. A kind that is not served has none,
    one that may not be listed is None. Raises ClusterUnreachable and ApiError."""
    found: dict[str, Any] = {}
    for field, kind in COMPARED.items():
        try:
            places = namespaces if kind.namespaced else ("",)
            found[field] = [each for place in places for each in (await client.list(kind, namespace=place)).items]
        except NotFound:
            found[field] = []
        except Forbidden:
            found[field] = None
    return PodPolicies(**found)


def unread(policies: PodPolicies) -> list[str]:
    """The plurals of the kinds that may not be listed."""
    return [kind.plural for field, kind in COMPARED.items() if getattr(policies, field) is None]
