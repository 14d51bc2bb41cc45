"""Topology requests of pod sets (contract 3.9).

The manager only finds a flavor that has a topology. The worker places the pods, and says whether the flavor has the
level they ask for.
"""

from __future__ import annotations

from collections.abc import Iterable

from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.meta import Value

PENDING = "Pending"
"""The state of a request that the worker has yet to answer."""


class TopologyRequest(Value):
    """Only the group name, and which other fields are present, count."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    pod_set_group_name: str = ""

    @property
    def is_explicit(self) -> bool:
        """Whether the pods ask for topology-aware placement; a pod index or a group alone does not."""
        asked = (self.required, self.preferred, self.unconstrained)
        sliced = (self.pod_set_slice_required_topology, self.pod_set_slice_size)
        return any(each is not None for each in (*asked, *sliced))


def is_topology_only(flavors: Iterable[ResourceFlavor | None]) -> bool:
    """Whether all flavors of a ClusterQueue have a topology: then it places all pods, requested or not."""
    known = tuple(flavors)
    return bool(known) and all(flavor is not None and flavor.spec.topology_name for flavor in known)


def mismatch(flavor: ResourceFlavor, *, is_explicit: bool, is_only_topology: bool) -> str:
    """Why a flavor does not suit pods that ask for a topology, or pods that do not; empty: it does."""
    has_topology = bool(flavor.spec.topology_name)
    if is_explicit and not has_topology:
        return f'Flavor "{flavor.metadata.name}" does not support TopologyAwareScheduling'
    if not is_explicit and has_topology and not is_only_topology:
        return f'Flavor "{flavor.metadata.name}" supports only TopologyAwareScheduling'
    return ""
