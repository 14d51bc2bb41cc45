"""Requests of the pods of a workload, exactly (quota-engine 1.6): one file, the only place where amounts are made.

No amount is below zero: a request, limit or overhead below zero counts as 0, wherever it comes from, and is a `problem`
where a template has it. API servers refuse such pods, but neither templates in custom resources nor Workloads.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import Toleration
from multikueue.api.kueue.workload import PodSet, PodSetRequest, ReclaimablePod, WorkloadSpec
from multikueue.api.meta import ObjectKey, Value, decoder
from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.quota.requests.matching import NodeAffinity, NodeRules, TopologyRequest, node_rules

PODS = "pods"
"""The resource that counts pods; requested implicitly where a ClusterQueue covers it."""

Quantities = dict[str, str | int | float]
Nanos = dict[str, int]


class Resources(Value):
    requests: Quantities = {}
    limits: Quantities = {}


class CountedContainer(Value):
    name: str = ""
    restart_policy: str = ""
    resources: Resources = Resources()


class Affinity(Value):
    node_affinity: NodeAffinity = NodeAffinity()


class PodResourceClaim(Value):
    """Devices that a pod claims, from a template or by name."""

    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class CountedPodSpec(Value):
    containers: tuple[CountedContainer, ...] = ()
    init_containers: tuple[CountedContainer, ...] = ()
    resources: Resources | None = None
    overhead: Quantities = {}
    runtime_class_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class CountedPodTemplate(Value):
    spec: CountedPodSpec = CountedPodSpec()


class PodSetDemand(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of one pod set: amounts for all its pods together, and rules for its nodes.

    `requests` counts milli-units of cpu and whole units of all else. Pod sets of one `group` share their flavors.
    `has_topology`: they ask for topology-aware placement.
    """

    name: str
    count: int
    requests: Mapping[str, int]
    group: str = ""
    has_topology: bool = False
    nodes: NodeRules = msgspec.field(default_factory=NodeRules)

    @property
    def shape(self) -> Hashable:
        """Equal for equal demands."""
        nodes = self.nodes
        selector = tuple(sorted(nodes.selector.items())) if nodes.selector else ()
        amounts = tuple(sorted(self.requests.items()))
        return self.name, self.count, amounts, self.group, selector, nodes.terms, nodes.tolerations

    def with_pods(self) -> Mapping[str, int]:
        """The requests where `pods` are counted too."""
        return {**self.requests, PODS: self.count}


class Demand(msgspec.Struct, frozen=True):
    """The demand of a workload. With a `problem` it cannot be scheduled, whatever the quota; with `has_uncounted` that is
    one of its devices. `names` are what its pods name, whether it is there or not: RuntimeClasses and extended resources by
    their names, which have a slash in between, and ResourceClaimTemplates by their keys."""

    pod_sets: tuple[PodSetDemand, ...] = ()
    problem: str = ""
    names: frozenset[ObjectKey | str] = frozenset()
    has_uncounted: bool = False

    @property
    def shape(self) -> Hashable:
        """Equal for equal demands."""
        return self.problem, tuple(each.shape for each in self.pod_sets)


class PodRules(Protocol):
    """Values that pods get on creation, and the bounds they have to keep."""

    def completed(self, pod: CountedPodSpec) -> CountedPodSpec: ...

    def violations(self, pod: CountedPodSpec, path: str) -> Iterable[str]: ...


class _NoRules:
    def completed(self, pod: CountedPodSpec) -> CountedPodSpec:
        return pod

    def violations(self, _pod: CountedPodSpec, _path: str) -> Iterable[str]:
        return ()


_NO_RULES = _NoRules()


class DeviceCounts(msgspec.Struct, frozen=True):
    """The devices of one pod: what they count as, in nano-units by resource, in place of the resources `replaced`; else
    the `problem` with them.

    `names` are what they depend on: ResourceClaimTemplates by their keys, extended resources by their names.
    """

    requests: Nanos = {}
    replaced: frozenset[str] = frozenset()
    names: frozenset[ObjectKey | str] = frozenset()
    problem: str = ""

    def added(self, nanos: Nanos) -> Nanos:
        """The requests of the pod, and its devices."""
        total = {name: amount for name, amount in nanos.items() if name not in self.replaced}
        add(total, self.requests)
        return total


NO_DEVICES = DeviceCounts()


class PodDevices(Protocol):
    """How devices count. `is_extended`: extended resources may be devices, besides what pods claim."""

    is_extended: bool

    def counted(self, pod: CountedPodSpec, *, namespace: str, pod_set: str, path: str) -> DeviceCounts: ...


class _UncountedDevices:
    is_extended = False

    def counted(self, _pod: CountedPodSpec, *, namespace: str, pod_set: str, path: str) -> DeviceCounts:  # noqa: ARG002
        return NO_DEVICES


_UNCOUNTED = _UncountedDevices()


class Transformation(msgspec.Struct, frozen=True, kw_only=True):
    """For example, each `nvidia.com/gpu` (`input`) counts as 10 credits (`outputs`, in nano-units).

    With `multiply_by` the outputs are multiplied by the whole units of that resource, if the pod requests it. The input
    counts too, unless `should_replace`. An output below zero takes from other outputs and from nothing else.
    """

    input: str
    outputs: Mapping[str, int]
    should_replace: bool = False
    multiply_by: str = ""


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """How requests of pods are counted: by `transformations`, as the release that is followed multiplies and reads them, and
    else as they are, but for resources whose name starts with one of `excluded`."""

    excluded: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    compatibility: Compatibility = NEWEST

    def counted(self, nanos: Nanos) -> Nanos:
        """The counted requests of one pod, given its `nanos` by resource. What is excluded does not count by itself, and still
        counts by what it is transformed to, and multiplies: else who asks for more of it gets around the quota
        (kueue#16041, kueue#15954)."""
        by_input = {each.input: each for each in self.transformations if each.input in nanos}
        counted: Nanos = {}
        put_out: Nanos = {}
        for name, amount in nanos.items():
            rule, kept = by_input.get(name), amount
            if rule is not None:
                multiplied = self._times(amount, nanos.get(rule.multiply_by, quantity.NANO))
                add(put_out, {output: self._times(factor, multiplied) for output, factor in rule.outputs.items()})
                kept = amount if self.compatibility.has_unmultiplied_inputs else multiplied
            is_kept = rule is None or not rule.should_replace
            if is_kept and not name.startswith(self.excluded):
                counted[name] = kept
        add(counted, {name: max(0, amount) for name, amount in put_out.items()})
        return counted

    def _times(self, nanos: int, factor: int) -> int:
        """The product of two amounts in nano-units, rounded up."""
        if self.compatibility.has_exact_products:
            return _whole_units(nanos * factor)
        return nanos * _whole_units(factor)


def _whole_units(nanos: int) -> int:
    return -(-nanos // quantity.NANO)


AS_IT_IS = Accounting()


def demand(
    spec: WorkloadSpec,
    reclaimed: Iterable[ReclaimablePod] = (),
    *,
    accounting: Accounting = AS_IT_IS,
    rules: PodRules = _NO_RULES,
    devices: PodDevices = _UNCOUNTED,
    namespace: str = "",
) -> Demand:
    """The demand of a pending workload in a namespace.

    A template that cannot be decoded is a `problem`, not an error: one bad workload must not stop the others.
    """
    gone = {pods.name: pods.count for pods in reclaimed}
    problems: list[str] = []
    violations: list[str] = []
    uncounted: list[str] = []
    names: set[ObjectKey | str] = set()
    pod_sets: list[PodSetDemand] = []
    for index, pod_set in enumerate(spec.pod_sets):
        path = f"spec.podSets[{index}].template"
        try:
            written = decoder(CountedPodTemplate)(pod_set.template).spec
            problems += _below_zero(written, f"{path}.spec")
            pod = rules.completed(written)
            names.add(pod.runtime_class_name)
            if accounting.compatibility.has_pod_limits and pod.resources is not None:
                requests = {**pod.resources.limits, **pod.resources.requests}
                pod = replace(pod, resources=replace(pod.resources, requests=requests))
                problems += _above(f"{path}.spec.resources", pod.resources or Resources())
            problems += _above_limits(pod, path)
            violations += rules.violations(pod, path)
            counts = NO_DEVICES
            if pod.resource_claims or devices.is_extended:
                counts = devices.counted(pod, namespace=namespace, pod_set=pod_set.name, path=path)
                names |= counts.names
                uncounted += [counts.problem] if counts.problem else []
            nanos = accounting.counted(pod_requests(pod))
            if counts is not NO_DEVICES:
                nanos = counts.added(nanos)
            pod_sets.append(_pod_set_demand(pod_set, pod, nanos, gone=gone.get(pod_set.name, 0)))
        except (InvalidObject, msgspec.MsgspecError) as error:
            problems.append(f"{path}: {error}")
    problem = uncounted[0] if uncounted else _problem(problems, violations)
    return Demand(tuple(pod_sets), problem, frozenset(names - {""}), bool(uncounted))


def _problem(problems: list[str], violations: list[str]) -> str:
    """In Kueue's words. Like Kueue, look at LimitRanges only if the resources are valid."""
    if problems:
        return f"resources validation failed: {_together(problems)}"
    return f"resources didn't satisfy LimitRange constraints: {_together(violations)}" if violations else ""


def _together(findings: list[str]) -> str:
    return findings[0] if len(findings) == 1 else f"[{', '.join(findings)}]"


def invalid(path: str, resources: Iterable[str], message: str) -> str:
    """A field error about resources, as Kubernetes words it."""
    return f"{path}: Invalid value: {json.dumps(sorted(resources), separators=(',', ':'))}: {message}"


def _pod_set_demand(pod_set: PodSet, pod: CountedPodSpec, nanos: Nanos, *, gone: int) -> PodSetDemand:
    """The demand of a pod set whose pods count `nanos` each, when `gone` of them are over."""
    count = max(0, pod_set.count - max(0, gone))
    topology = (
        decoder(TopologyRequest)(pod_set.topology_request) if bytes(pod_set.topology_request) != b"null" else None
    )
    return PodSetDemand(
        name=pod_set.name,
        count=count,
        requests={name: quantity.capped(quantity.amount(name, each) * count) for name, each in sorted(nanos.items())},
        group=topology.pod_set_group_name if topology else "",
        has_topology=topology is not None and topology.is_explicit,
        nodes=node_rules(pod.node_selector, pod.affinity.node_affinity, pod.tolerations),
    )


def pod_requests(pod: CountedPodSpec) -> Nanos:
    """The requests of one pod in nano-units: containers, init containers and sidecars, pod level, overhead.

    The pod as a whole requests no less than its containers: API servers refuse others, but not in a Workload or a custom
    resource (kueue#16047)."""
    total = _containers(pod)
    if pod.resources is not None:
        raise_to(total, {name: nanos for name, nanos in _parsed(pod.resources.requests) if _is_pod_level(name)})
    for name, nanos in _parsed(pod.overhead):
        total[name] = total.get(name, 0) + nanos
    return total


def _containers(pod: CountedPodSpec) -> Nanos:
    running: Nanos = {}
    for container in pod.containers:
        add(running, container_requests(container))
    if not pod.init_containers:
        return running
    peak: Nanos = {}
    sidecars: Nanos = {}
    for container in pod.init_containers:
        own = container_requests(container)
        if container.restart_policy == "Always":
            add(running, own)
            add(sidecars, own)
            raise_to(peak, sidecars)
        else:
            add(own, sidecars)
            raise_to(peak, own)
    raise_to(peak, running)
    return peak


def container_requests(container: CountedContainer) -> Nanos:
    """The requests of a container; a limit without a request counts as the request."""
    return dict(_parsed({**container.resources.limits, **container.resources.requests}))


def _parsed(quantities: Quantities) -> Iterator[tuple[str, int]]:
    """What counts of each quantity, in nano-units."""
    return ((name, max(0, quantity.parse(text))) for name, text in quantities.items())


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def add(total: Nanos, more: Nanos) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def raise_to(peak: Nanos, candidate: Nanos) -> None:
    for name, nanos in candidate.items():
        peak[name] = max(peak.get(name, 0), nanos)


def _below_zero(pod: CountedPodSpec, path: str) -> Iterator[str]:
    for where, resources in _resources(pod, path):
        for part, quantities in (("requests", resources.requests), ("limits", resources.limits)):
            yield from _negative(f"{where}.resources.{part}", quantities)
    if pod.resources is not None:
        yield from _negative(f"{path}.resources.requests", pod.resources.requests)
        yield from _negative(f"{path}.resources.limits", pod.resources.limits)
    yield from _negative(f"{path}.overhead", pod.overhead)


def _negative(path: str, quantities: Quantities) -> Iterator[str]:
    for name, text in quantities.items():
        if quantity.parse(text) < 0:
            yield f"{path}[{name}]: Invalid value: {json.dumps(str(text))}: must be greater than or equal to 0"


def _above_limits(pod: CountedPodSpec, path: str) -> Iterator[str]:
    for where, resources in _resources(pod, f"{path}.spec"):
        yield from _above(where, resources)


def _resources(pod: CountedPodSpec, path: str) -> Iterator[tuple[str, Resources]]:
    """The resources of each container, and its path."""
    for kind, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for index, container in enumerate(containers):
            yield f"{path}.{kind}[{index}]", container.resources


def _above(path: str, resources: Resources) -> Iterator[str]:
    limits = resources.limits
    above = [
        name
        for name, text in resources.requests.items()
        if name in limits and quantity.parse(text) > quantity.parse(limits[name])
    ]
    if above:
        yield invalid(path, above, "requests must not exceed its limits")


def scaled(total: int, *, of: int, to: int) -> int:
    """An amount of `of` pods as that of `to` pods. Divides first, as Kueue does, so a remainder is lost."""
    return total if of == to or of == 0 else total // of * to


def rendered(requests: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity.render(name, value) for name, value in requests.items()}


def resource_requests(pod_sets: Iterable[PodSetDemand], *, should_count_pods: bool) -> tuple[PodSetRequest, ...]:
    """`status.resourceRequests` of a pending workload."""
    return tuple(
        PodSetRequest(name=p.name, resources=rendered(p.with_pods() if should_count_pods else p.requests))
        for p in pod_sets
    )
