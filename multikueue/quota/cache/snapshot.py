"""A ClusterQueue as a cycle sees it: its place in the tree, its resource groups, its rules.

Built once per change of a spec, not per cycle; in between only usage in the tree changes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import ClusterQueue, ClusterQueueSpec, ResourceFlavor, ResourceGroup
from multikueue.quota.cache.tree import Node
from multikueue.quota.requests.amounts import PODS
from multikueue.quota.requests.matching import is_topology_only


class FlavorGroup(msgspec.Struct, frozen=True):
    """Resources that take the same flavor, out of an ordered choice.

    `label_keys` are, for each flavor, the keys that node selectors are heeded for: others say nothing about it.
    """

    resources: frozenset[str]
    flavors: tuple[str, ...]
    label_keys: Mapping[str, frozenset[str]]


class QueueSnapshot(msgspec.Struct, frozen=True):
    """One ClusterQueue, ready for a cycle. `node` is live: its usage is the present one.

    `may_preempt_while_borrowing`: its heads may preempt even in order to borrow. `is_topology_only`: all of its flavors have
    a topology. `should_ignore_undeclared`: resources of which it has no flavor are not counted.
    """

    name: str
    spec: ClusterQueueSpec
    node: Node
    groups: tuple[FlavorGroup, ...]
    group_of: Mapping[str, FlavorGroup]
    flavors: Mapping[str, ResourceFlavor]
    may_preempt_while_borrowing: bool = False
    is_topology_only: bool = False
    should_ignore_undeclared: bool = False
    compatibility: Compatibility = NEWEST

    @property
    def is_counting_pods(self) -> bool:
        return PODS in self.group_of


def snapshot(
    queue: ClusterQueue,
    node: Node,
    flavors: Mapping[str, ResourceFlavor],
    *,
    is_fair_sharing: bool = False,
    compatibility: Compatibility = NEWEST,
    should_ignore_undeclared: bool = False,
) -> QueueSnapshot:
    rules = queue.spec.preemption
    groups = tuple(_group(group, flavors, compatibility) for group in queue.spec.resource_groups)
    return QueueSnapshot(
        name=queue.metadata.name,
        spec=queue.spec,
        node=node,
        groups=groups,
        group_of={resource: group for group in groups for resource in group.resources},
        flavors=flavors,
        may_preempt_while_borrowing=rules.borrow_within_cohort.policy != "Never"
        or (is_fair_sharing and rules.reclaim_within_cohort != "Never"),
        is_topology_only=is_topology_only(flavors.get(name) for group in groups for name in group.flavors),
        should_ignore_undeclared=should_ignore_undeclared,
        compatibility=compatibility,
    )


def _group(group: ResourceGroup, flavors: Mapping[str, ResourceFlavor], compatibility: Compatibility) -> FlavorGroup:
    names = tuple(flavor.name for flavor in group.flavors)
    keys = {name: frozenset(flavors[name].spec.node_labels) for name in names if name in flavors}
    if not compatibility.has_labels_by_flavor:
        keys = dict.fromkeys(keys, frozenset[str]().union(*keys.values()))
    return FlavorGroup(frozenset(group.covered_resources), names, keys)
