"""What a pending workload asks for: LimitRanges and RuntimeClasses, their defaults, overhead and bounds (quota-engine 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from msgspec.structs import replace as replace_field

from multikueue.api.kubernetes.builtins import LimitRange, LimitRangeItem, RuntimeClass
from multikueue.api.kueue.workload import Workload, WorkloadSpec, WorkloadStatus, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue.quota.requests.amounts import (
    Accounting,
    CountedContainer,
    CountedPodSpec,
    Demand,
    Quantities,
    Resources,
    demand,
    invalid,
    pod_requests,
)
from multikueue.quota.requests.devices import DeviceRules, Devices

T = TypeVar("T")

_ABOVE = "requests must not be above the limitRange max"
_BELOW = "requests must not be below the limitRange min"


_UNBOUNDED = LimitRangeItem()


class Limits(msgspec.Struct, frozen=True):
    """The combined LimitRanges of a namespace, and the overhead of pods by RuntimeClass: the `PodRules` of
    `amounts`. `has_pod_defaults`: defaults for pods count."""

    container: LimitRangeItem = _UNBOUNDED
    pod: LimitRangeItem = _UNBOUNDED
    overheads: Mapping[str, Quantities] = {}
    has_pod_defaults: bool = True

    def completed(self, pod: CountedPodSpec) -> CountedPodSpec:
        """The pod as it is after creation: with the overhead of its class, default limits and default requests."""
        container, whole = self.container, self.pod
        is_default = container.default or container.default_request or whole.default or whole.default_request
        if not is_default and not pod.runtime_class_name:
            return pod  # the usual case, without a copy
        return replace(
            pod,
            overhead=pod.overhead or self.overheads.get(pod.runtime_class_name, {}),
            init_containers=tuple(map(self._with_defaults, pod.init_containers)),
            containers=tuple(map(self._with_defaults, pod.containers)),
            resources=self._of_pod(pod.resources),
        )

    def _of_pod(self, resources: Resources | None) -> Resources | None:
        """Defaults for pods count for those that have resources of their own."""
        if resources is None or not self.has_pod_defaults:
            return resources
        return Resources(
            requests={**self.pod.default_request, **resources.requests},
            limits={**self.pod.default, **resources.limits},
        )

    def _with_defaults(self, container: CountedContainer) -> CountedContainer:
        """As an API server completes a container: its own limits stand in for its requests before there are defaults
        (kueue#15020). A default limit is the request only where there is no default request."""
        own, defaults = container.resources, self.container
        limits = {**defaults.default, **own.limits}
        requests = {**defaults.default, **defaults.default_request, **own.limits, **own.requests}
        return replace(container, resources=Resources(requests=requests, limits=limits))

    def violations(self, pod: CountedPodSpec, path: str) -> Iterator[str]:
        """The bounds that a completed pod violates, in Kueue's words."""
        if not any((self.container.max, self.container.min, self.pod.max, self.pod.min)):
            return
        for kind, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
            for index, container in enumerate(containers):
                both = (container.resources.requests, container.resources.limits)
                most, least = _merged(max, both), _merged(min, both)
                yield from _outside(self.container, f"{path}.spec.{kind}[{index}]", most=most, least=least)
        total = pod_requests(pod)
        yield from _outside(self.pod, f"{path}.spec", most=total, least=total)


class LimitsByNamespace:
    """The LimitRanges of all namespaces and the RuntimeClasses, as last seen. Owned by the queue manager."""

    def __init__(self, *, has_pod_defaults: bool = True) -> None:
        self._for_pods = has_pod_defaults
        self._ranges: dict[str, dict[str, LimitRange]] = {}
        self._overheads: dict[str, Quantities] = {}
        self._known: dict[str, Limits] = {}

    def set_range(self, key: ObjectKey, value: LimitRange | None) -> None:
        """A LimitRange is there, or gone (None). Raises InvalidObject if a bound is not a quantity."""
        ranges = dict(self._ranges.get(key.namespace, {}))
        _put(ranges, key.name, value)
        self._known[key.namespace] = self._combined(ranges)
        self._ranges[key.namespace] = ranges

    def set_class(self, name: str, value: RuntimeClass | None) -> None:
        """A RuntimeClass is there, or gone (None)."""
        _put(self._overheads, name, value.overhead.pod_fixed if value is not None and value.overhead else None)
        self._known.clear()

    def of(self, namespace: str) -> Limits:
        """The limits of a namespace."""
        if namespace not in self._known:
            self._known[namespace] = self._combined(self._ranges.get(namespace, {}))
        return self._known[namespace]

    def _combined(self, ranges: Mapping[str, LimitRange]) -> Limits:
        return replace_field(combined(ranges.values(), self._overheads), has_pod_defaults=self._for_pods)


def _put(known: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        known.pop(name, None)
    else:
        known[name] = value


def combined(ranges: Iterable[LimitRange], overheads: Mapping[str, Quantities]) -> Limits:
    """All bounds apply; of several defaults the first counts, by the names of the LimitRanges."""
    items = [item for each in sorted(ranges, key=lambda each: each.metadata.name) for item in each.spec.limits]
    return Limits(_item(items, "Container"), _item(items, "Pod"), overheads)


def _item(items: Iterable[LimitRangeItem], type_: str) -> LimitRangeItem:
    found = [item for item in items if item.type == type_]
    return LimitRangeItem(
        type=type_,
        default=_first(item.default for item in found),
        default_request=_first(item.default_request for item in found),
        max=_strictest(min, [item.max for item in found]),
        min=_strictest(max, [item.min for item in found]),
    )


def _first(defaults: Iterable[Quantities]) -> Quantities:
    merged: Quantities = {}
    for each in defaults:
        merged = {**each, **merged}
    return merged


def _strictest(choose: Callable[..., str | int | float], bounds: list[Quantities]) -> Quantities:
    names = dict.fromkeys(name for each in bounds for name in each)
    return {name: choose((each[name] for each in bounds if name in each), key=quantity.parse) for name in names}


def _merged(choose: Callable[[int, int], int], both: tuple[Quantities, Quantities]) -> dict[str, int]:
    """Nano-units by resource, from either side; where both have a resource, `choose` (min or max) picks one."""
    merged: dict[str, int] = {}
    for quantities in both:
        for name, text in quantities.items():
            nanos = quantity.parse(text)
            merged[name] = choose(merged[name], nanos) if name in merged else nanos
    return merged


def _outside(bounds: LimitRangeItem, path: str, *, most: Mapping[str, int], least: Mapping[str, int]) -> Iterator[str]:
    above = [name for name, text in bounds.max.items() if name in most and most[name] > quantity.parse(text)]
    below = [name for name, text in bounds.min.items() if name in least and least[name] < quantity.parse(text)]
    if above:
        yield invalid(path, above, _ABOVE)
    if below:
        yield invalid(path, below, _BELOW)


class Counting:
    """`limits` and `devices` know the objects of the cluster that count."""

    def __init__(self, accounting: Accounting, devices: DeviceRules) -> None:
        self._accounting = accounting
        self.limits = LimitsByNamespace(has_pod_defaults=accounting.compatibility.has_pod_limits)
        self.devices = Devices(devices)

    def demand(self, workload: Workload, spec: WorkloadSpec) -> Demand:
        """The demand as of now. Raises InvalidObject if a quantity cannot be parsed."""
        namespace = workload.metadata.namespace
        return demand(
            spec,
            workload.status.reclaimable_pods,
            accounting=self._accounting,
            rules=self.limits.of(namespace),
            devices=self.devices,
            namespace=namespace,
        )

    def surplus(self, workload: Workload, template: msgspec.Raw) -> str:
        """What a pod asks for beyond a pod of the one pod set that its Workload counts, in words; empty if nothing.

        Both are counted by the same rules, so what a LimitRange or RuntimeClass adds is no surplus. Raises InvalidObject as
        `demand` does.
        """
        fresh, spec = replace(workload, status=WorkloadStatus()), workload_spec(workload)
        (counted, asked) = (
            self.demand(fresh, replace(spec, pod_sets=(replace(spec.pod_sets[0], template=each, count=1),)))
            for each in (spec.pod_sets[0].template, template)
        )
        if asked.problem or not asked.pod_sets or not counted.pod_sets:
            return asked.problem or "it cannot be counted"
        limits = counted.pod_sets[0].requests
        for name, amount in asked.pod_sets[0].requests.items():
            if amount > limits.get(name, 0):
                return f"{name} {quantity.render(name, amount)}, and {quantity.render(name, limits.get(name, 0))} is counted"
        return ""
