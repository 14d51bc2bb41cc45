"""The configuration: queues, flavors, checks and namespaces as last seen, and which ClusterQueues can admit.

And a ClusterQueue as a cycle sees it: its place in the tree, its resource groups, its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from multikueue.api.kubernetes.builtins import Namespace
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import (
    AdmissionCheckRule,
    ClusterQueue,
    ClusterQueueSpec,
    LocalQueue,
    ResourceFlavor,
    ResourceGroup,
    has_manager_as_worker,
)
from multikueue.api.kueue.workload import Admission
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.status import Problem, check_names, cluster_queue_problems, flavor_names
from multikueue.quota.cache.tree import Node
from multikueue.quota.requests.amounts import PODS
from multikueue.quota.requests.matching import is_selected, is_topology_only


class FlavorGroup(msgspec.Struct, frozen=True):
    """Resources that take the same flavor, out of an ordered choice.

    `label_keys` are, for each flavor, the keys that node selectors count for: others say nothing about it.
    """

    resources: frozenset[str]
    flavors: tuple[str, ...]
    label_keys: Mapping[str, frozenset[str]]


class QueueSnapshot(msgspec.Struct, frozen=True):
    """One ClusterQueue, ready for a cycle. `node` is live: its usage is the present one.

    `may_preempt_while_borrowing`: its heads may preempt even in order to borrow. `is_topology_only`: all of its flavors
    have a topology. `should_ignore_undeclared`: resources of which it has no flavor are not counted.

    Built once per change of a spec, not per cycle; in between only usage in the tree changes.
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


class Catalog:
    """Owned by the cache. A change returns the ClusterQueues it concerns."""

    def __init__(self) -> None:
        self._queues: dict[str, ClusterQueue] = {}
        self._local_queues: dict[ObjectKey, LocalQueue] = {}
        self._flavors: dict[str, ResourceFlavor] = {}
        self._checks: dict[str, AdmissionCheck] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._problems: dict[str, tuple[Problem, ...]] = {}

    @property
    def queues(self) -> Mapping[str, ClusterQueue]:
        return self._queues

    @property
    def local_queues(self) -> Mapping[ObjectKey, LocalQueue]:
        return self._local_queues

    @property
    def flavors(self) -> Mapping[str, ResourceFlavor]:
        return self._flavors

    def set_queue(self, queue: ClusterQueue) -> bool:
        """Returns whether it is new, or has changed in more than its status."""
        name = queue.metadata.name
        old = self._queues.get(name)
        self._queues[name] = queue
        if old is not None and _ruling(old) == _ruling(queue):
            return False
        self._inspect(queue)
        return True

    def remove_queue(self, name: str) -> bool:
        self._problems.pop(name, None)
        return self._queues.pop(name, None) is not None

    def set_local_queue(self, queue: LocalQueue) -> None:
        self._local_queues[queue.key] = queue

    def place(self, local_queue: ObjectKey) -> str | None:
        """The name of the ClusterQueue that a LocalQueue leads to."""
        known = self._local_queues.get(local_queue)
        return known.spec.cluster_queue if known else None

    def remove_local_queue(self, key: ObjectKey) -> bool:
        return self._local_queues.pop(key, None) is not None

    def set_flavor(self, flavor: ResourceFlavor) -> tuple[str, ...]:
        name = flavor.metadata.name
        old = self._flavors.get(name)
        self._flavors[name] = flavor
        same = old is not None and old.spec == flavor.spec
        return () if same else self._inspect_those_with(name, flavor_names)

    def remove_flavor(self, name: str) -> tuple[str, ...]:
        known = self._flavors.pop(name, None)
        return self._inspect_those_with(name, flavor_names) if known else ()

    def set_check(self, check: AdmissionCheck) -> tuple[str, ...]:
        name = check.metadata.name
        old = self._checks.get(name)
        self._checks[name] = check
        same = old is not None and old.spec == check.spec and old.status == check.status
        before = dict(self._problems)
        concerned = () if same else self._inspect_those_with(name, check_names)
        return tuple(queue for queue in concerned if self._problems[queue] != before.get(queue))

    def remove_check(self, name: str) -> tuple[str, ...]:
        known = self._checks.pop(name, None)
        return self._inspect_those_with(name, check_names) if known else ()

    def set_namespace(self, namespace: Namespace) -> bool:
        """Returns whether the namespace or its labels are new."""
        name = namespace.metadata.name
        old = self._namespaces.get(name)
        self._namespaces[name] = namespace
        return old is None or old.metadata.labels != namespace.metadata.labels

    def remove_namespace(self, name: str) -> None:
        self._namespaces.pop(name, None)

    def has_namespace(self, name: str) -> bool:
        return name in self._namespaces

    def may_use(self, queue: str, namespace: str) -> bool:
        """Whether workloads of a namespace may use a ClusterQueue; False if the namespace is unknown."""
        known = self._namespaces.get(namespace)
        return known is not None and is_selected(self._queues[queue].spec.namespace_selector, known.metadata.labels)

    def problems(self, queue: str) -> tuple[Problem, ...]:
        """Why the ClusterQueue admits nothing; empty when it is active or unknown."""
        return self._problems.get(queue, ())

    def is_active(self, queue: str) -> bool:
        """Whether the ClusterQueue exists and nothing keeps it from admitting."""
        return self._problems.get(queue) == ()

    def required_checks(self, queue: str, admission: Admission | None) -> tuple[str, ...]:
        """The checks a workload needs for the flavors of its admission, in spec order; without one, those that apply to
        all."""
        known, found = self._queues.get(queue), list[str]()
        for rule in known.spec.admission_checks_strategy.admission_checks if known is not None else ():
            if not rule.on_flavors or (known is not None and _is_for(rule, known, admission)):
                found.append(rule.name)
        return tuple(found)

    def _inspect_those_with(self, name: str, names: Callable[[ClusterQueue], set[str]]) -> tuple[str, ...]:
        concerned = [queue for queue in self._queues.values() if name in names(queue)]
        for queue in concerned:
            self._inspect(queue)
        return tuple(queue.metadata.name for queue in concerned)

    def _inspect(self, queue: ClusterQueue) -> None:
        problems = cluster_queue_problems(queue, flavors=self._flavors, checks=self._checks)
        self._problems[queue.metadata.name] = problems


def _is_for(rule: AdmissionCheckRule, queue: ClusterQueue, admission: Admission | None) -> bool:
    assigned, wanted = admission.flavors if admission is not None else (), set(rule.on_flavors)
    return not wanted.isdisjoint(assigned) if assigned else flavor_names(queue) <= wanted


def _ruling(queue: ClusterQueue) -> tuple[ClusterQueueSpec, bool, bool]:
    """What of a ClusterQueue decides who gets quota there."""
    return queue.spec, is_leaving(queue), has_manager_as_worker(queue)


def is_leaving(obj: ClusterQueue | LocalQueue) -> bool:
    """Whether the object is being deleted."""
    return obj.metadata.deletion_timestamp is not None
