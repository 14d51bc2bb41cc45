"""The fields that we read of SIG-Multicluster's PlacementDecision (`multicluster.x-k8s.io`), which any scheduler may write.

It has no Placement beside it and no status: the clusters are in the object itself, as references to ClusterProfiles.
"""

from __future__ import annotations

from multikueue.api.meta import Object, Value

MULTICLUSTER_GROUP = "multicluster.x-k8s.io"

DECISION_KEY_LABEL = f"{MULTICLUSTER_GROUP}/decision-key"
"""The same on all slices of one decision. A slice without it is a decision of its own, called like the object."""

DECISION_INDEX_LABEL = f"{MULTICLUSTER_GROUP}/decision-index"
"""The number of a slice, from 0, as text, where the order matters."""


class ClusterProfileReference(Value):
    name: str = ""


class ProfileDecision(Value):
    cluster_profile_ref: ClusterProfileReference = ClusterProfileReference()


class SharedPlacementDecision(Object):
    """One slice of a decision, at most 100 clusters."""

    decisions: tuple[ProfileDecision, ...] = ()
