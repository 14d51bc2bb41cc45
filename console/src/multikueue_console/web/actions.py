"""What a page may change, where that is switched on: one patch each, with the credentials of who asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION

if TYPE_CHECKING:
    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["ACTIONS", "Action"]


class Action(msgspec.Struct, frozen=True):
    """A change of one object by a merge patch; `says` is what will happen, as it is shown before."""

    kind: Kind[Any]
    patch: Mapping[str, Any]
    says: str

    async def do(self, client: ClusterClient, key: ObjectKey) -> None:
        """Raises ApiError and ClusterUnreachable."""
        await client.merge_patch(self.kind, key, self.patch)


def _cordoned(value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {CORDON_ANNOTATION: value}}}


ACTIONS: Mapping[str, Action] = {
    "hold": Action(
        kinds.WORKLOADS,
        {"spec": {"active": False}},
        "It gives its quota back, what runs is stopped, and it does not queue until it is released.",
    ),
    "release": Action(
        kinds.WORKLOADS, {"spec": {"active": True}}, "It queues again, at the place that its age gives it."
    ),
    "cordon": Action(kinds.MULTIKUEUE_CLUSTERS, _cordoned("true"), "It gets no new workloads. What is there stays."),
    "uncordon": Action(kinds.MULTIKUEUE_CLUSTERS, _cordoned(None), "It gets new workloads again."),
}
"""By name, those of workloads and those of clusters."""
