"""Where a worker makes something else of pods than the manager counts: one file, one comparison, kind by kind. Pure.

The manager counts by its own objects, and pods run by those of the worker. Amounts are compared, not texts: what `1000m`
says here and `1` there is the same, and so are two LimitRanges and one that together say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from multikueue.api.kind import Kind
from multikueue.api.kinds import (
    DEVICE_CLASSES,
    LIMIT_RANGES,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
)
from multikueue.api.kubernetes.builtins import (
    DeviceClass,
    LimitRange,
    PriorityClass,
    ResourceClaimTemplate,
    RuntimeClass,
)
from multikueue.api.kueue.queues import WorkloadPriorityClass
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import Object, Value, decoder
from multikueue.api.values import quantity
from multikueue.quota.requests.amounts import (
    CountedContainer,
    CountedPodSpec,
    CountedPodTemplate,
    Demand,
    PodResourceClaim,
    Quantities,
    Resources,
)
from multikueue.quota.requests.devices import DeviceRules, Devices
from multikueue.quota.requests.limits import Limits, combined

__all__ = ["COMPARED", "COUNTED", "Difference", "PodPolicies", "differences", "differences_for"]

COMPARED: Mapping[str, Kind[Any]] = {
    "limit_ranges": LIMIT_RANGES,
    "runtime_classes": RUNTIME_CLASSES,
    "priority_classes": PRIORITY_CLASSES,
    "workload_priority_classes": WORKLOAD_PRIORITY_CLASSES,
    "claim_templates": RESOURCE_CLAIM_TEMPLATES,
    "device_classes": DEVICE_CLASSES,
}
"""The kinds of objects that are compared, by the fields of `PodPolicies`."""

COUNTED = ("limit_ranges", "runtime_classes", "claim_templates", "device_classes")
"""Those of them that change what is counted."""

C = TypeVar("C", bound=Object)
P = TypeVar("P", PriorityClass, WorkloadPriorityClass)

NONE, MISSING = "none", "missing"
NO_CLASS = "(pods without a class)"


class PodPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster goes by when it makes pods. None: it could not be seen there, so it is not compared."""

    limit_ranges: Sequence[LimitRange] | None = ()
    runtime_classes: Sequence[RuntimeClass] | None = ()
    priority_classes: Sequence[PriorityClass] | None = ()
    workload_priority_classes: Sequence[WorkloadPriorityClass] | None = ()
    claim_templates: Sequence[ResourceClaimTemplate] | None = ()
    device_classes: Sequence[DeviceClass] | None = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One field of one object that is not the same on the manager and on a worker; a value that is not there is `none`."""

    subject: str
    field: str
    manager: str
    worker: str
    meaning: str
    advice: str

    def __str__(self) -> str:
        if self.worker == MISSING:
            return f"it is missing there: {self.meaning}; {self.advice}"
        return f"{self.field} is {self.manager} on the manager, {self.worker} there: {self.meaning}; {self.advice}"


def differences(
    ours: PodPolicies, theirs: PodPolicies, namespaces: Iterable[str], devices: DeviceRules | None = None
) -> tuple[Difference, ...]:
    """All that jobs of these namespaces may meet. `devices` says which resource devices count as; else each DeviceClass
    counts by itself. Raises InvalidObject for an amount that is not a quantity."""
    places = tuple(dict.fromkeys(namespaces))
    return (
        *(found for place in places for found in _limit_ranges(ours, theirs, place)),
        *_overheads(ours, theirs),
        *_by_name(ours, theirs, places, devices or DeviceRules()),
    )


def differences_for(
    workload: Workload,
    ours: PodPolicies,
    theirs: PodPolicies,
    count: Callable[[PodPolicies], Demand],
    devices: DeviceRules | None = None,
) -> tuple[Difference, ...]:
    """What one workload would meet; `count` says what it demands by some rules, as the manager counts."""
    namespace = workload.metadata.namespace
    of_ranges, of_classes, of_devices = f"LimitRanges of {namespace}", "RuntimeClasses", "DeviceClasses"
    counted = count(ours)
    found: list[Difference] = []
    if ours.limit_ranges is not None and theirs.limit_ranges is not None:
        found += _demands(of_ranges, counted, count(replace(ours, limit_ranges=theirs.limit_ranges)))
    if ours.runtime_classes is not None and theirs.runtime_classes is not None:
        there = {each.metadata.name for each in theirs.runtime_classes}
        lacking = (each for each in ours.runtime_classes if each.metadata.name not in there)  # reported by their names
        classes = (*theirs.runtime_classes, *lacking)
        found += _demands(of_classes, counted, count(replace(ours, runtime_classes=classes)))
    if ours.device_classes is not None and theirs.device_classes is not None:
        found += _demands(of_devices, counted, count(replace(ours, device_classes=theirs.device_classes)))
    named = _named(workload, ours)
    others = _by_name(ours, theirs, (namespace,), devices or DeviceRules())
    return (*found, *(each for each in others if each.subject in named))


def _demands(subject: str, ours: Demand, theirs: Demand) -> Iterator[Difference]:
    """What a workload demands here and there, by pod set and resource."""
    there = {each.name: each.requests for each in theirs.pod_sets}
    for pod_set in ours.pod_sets:
        other = there.get(pod_set.name, {})
        for resource in sorted({*pod_set.requests, *other}):
            mine, its = pod_set.requests.get(resource, 0), other.get(resource, 0)
            if mine != its:
                counts, runs = quantity.render(resource, mine), quantity.render(resource, its)
                yield Difference(
                    subject=subject,
                    field=f"{resource} of pod set {pod_set.name}",
                    manager=counts,
                    worker=runs,
                    meaning=f"it counts as {counts}, and takes {runs} there",
                    advice=f"make the {subject} equal, or say in the job what its pods need",
                )
    if ours.problem != theirs.problem:
        yield Difference(
            subject=subject,
            field="what becomes of its pods",
            manager="refused" if ours.problem else "accepted",
            worker="refused" if theirs.problem else "accepted",
            meaning=theirs.problem or ours.problem,
            advice=f"make the {subject} equal, or change what the job's pods request",
        )


# --- LimitRanges -----------------------------------------------------------------------------------------------------

_Given = Mapping[tuple[str, str], Quantities]
"""Amounts by type and field, as a LimitRange calls them, and resource."""

_FIELDS = {"defaultRequest": "default_request", "default": "default", "max": "max", "min": "min"}
_SILENT = CountedPodSpec(containers=(CountedContainer(),), resources=Resources())


def _limit_ranges(ours: PodPolicies, theirs: PodPolicies, namespace: str) -> Iterator[Difference]:
    if ours.limit_ranges is None or theirs.limit_ranges is None:
        return
    here, there = _within(ours.limit_ranges, namespace), _within(theirs.limit_ranges, namespace)
    mine, its = _given(combined(here, {})), _given(combined(there, {}))
    for type_, field in mine:
        ours_by, theirs_by = mine[type_, field], its[type_, field]
        for resource in sorted({*ours_by, *theirs_by}):
            own, other = ours_by.get(resource), theirs_by.get(resource)
            if _is_same(field, own, other):
                continue
            names = _having(there, type_, field, resource) or _having(here, type_, field, resource)
            yield Difference(
                subject=f"LimitRange {namespace}/{', '.join(names)}",
                field=f"{field}.{resource} of type {type_}",
                manager=NONE if own is None else str(own),
                worker=NONE if other is None else str(other),
                meaning=_meaning(type_, field, resource, own, other),
                advice=f"give namespace {namespace} the same {field} on both, or say it in each job",
            )


def _given(limits: Limits) -> _Given:
    """What pods get that say nothing, and what bounds them."""
    silent = limits.completed(_SILENT)
    container, pod = silent.containers[0].resources, silent.resources or Resources()
    return {
        ("Container", "defaultRequest"): container.requests,
        ("Container", "default"): container.limits,
        ("Container", "max"): limits.container.max,
        ("Container", "min"): limits.container.min,
        ("Pod", "defaultRequest"): {**pod.limits, **pod.requests},
        ("Pod", "default"): pod.limits,
        ("Pod", "max"): limits.pod.max,
        ("Pod", "min"): limits.pod.min,
    }


Amount = str | int | float | None


def _is_same(field: str, ours: Amount, theirs: Amount) -> bool:
    """Without a minimum, or without a default request, it is 0."""
    absent = 0 if field in ("defaultRequest", "min") else None
    return _nanos(ours, absent) == _nanos(theirs, absent)


def _nanos(amount: Amount, absent: int | None) -> int | None:
    return absent if amount is None else quantity.parse(amount)


def _meaning(type_: str, field: str, resource: str, ours: Amount, theirs: Amount) -> str:
    who = "a container" if type_ == "Container" else "a pod"
    if field == "defaultRequest":
        silent = who if type_ == "Container" else "a pod with resources of its own"
        return f"{silent} that requests no {resource} counts as {ours or 0}, and runs with {theirs or 0} there"
    if field == "default":
        limit = "no limit" if theirs is None else f"the limit {theirs}, and is refused if it requests more"
        return f"{who} without a limit of {resource} gets {limit} there"
    side = "more" if field == "max" else "less"
    if theirs is not None and (ours is None or _is_stricter(field, theirs, ours)):
        return f"{who} with {side} {resource} than {theirs} is refused there, though it is counted here"
    return f"{who} with {side} {resource} than {ours} waits here, though it might run there"


def _is_stricter(field: str, theirs: str | int | float, ours: str | int | float) -> bool:
    more = quantity.parse(theirs) > quantity.parse(ours)
    return more if field == "min" else not more


def _having(ranges: Iterable[LimitRange], type_: str, field: str, resource: str) -> list[str]:
    """The LimitRanges that say something of it. A default limit stands in for a default request."""
    fields = [_FIELDS[field], *(["default"] if field == "defaultRequest" else [])]
    return sorted(
        each.metadata.name
        for each in ranges
        if any(
            item.type == type_ and any(resource in getattr(item, name) for name in fields) for item in each.spec.limits
        )
    )


def _within(ranges: Iterable[LimitRange], namespace: str) -> list[LimitRange]:
    return [each for each in ranges if each.metadata.namespace == namespace]


# --- RuntimeClasses --------------------------------------------------------------------------------------------------


def _overheads(ours: PodPolicies, theirs: PodPolicies) -> Iterator[Difference]:
    if ours.runtime_classes is None or theirs.runtime_classes is None:
        return
    here = {each.metadata.name: _overhead(each) for each in ours.runtime_classes}
    for each in sorted(theirs.runtime_classes, key=lambda each: each.key):
        name, mine, its = each.metadata.name, here.get(each.metadata.name, {}), _overhead(each)
        for resource in sorted({*mine, *its}):
            own, other = mine.get(resource), its.get(resource)
            if _nanos(own, 0) != _nanos(other, 0):
                yield Difference(
                    subject=f"RuntimeClass {name}",
                    field=f"overhead.podFixed.{resource}",
                    manager=NONE if own is None else str(own),
                    worker=NONE if other is None else str(other),
                    meaning=f"each pod that names it counts {own or 0} for it, and takes {other or 0} there",
                    advice="give it the same overhead on both",
                )


def _overhead(value: RuntimeClass) -> Quantities:
    return value.overhead.pod_fixed if value.overhead is not None else {}


# --- what pods name --------------------------------------------------------------------------------------------------


def _by_name(
    ours: PodPolicies, theirs: PodPolicies, namespaces: Sequence[str], devices: DeviceRules
) -> Iterator[Difference]:
    """Objects that pods name, and that are not there, or not the same."""
    refused = "pods that name it are refused there, so their jobs do not begin"
    yield from _missing("RuntimeClass", ours.runtime_classes, theirs.runtime_classes, refused)
    yield from _missing("PriorityClass", ours.priority_classes, theirs.priority_classes, refused)
    pods = "its pods have priority {1} there, and {0} where they are counted"
    yield from _values("PriorityClass", ours.priority_classes, theirs.priority_classes, pods)
    yield from _default_priority(ours, theirs)
    kept = "copies keep the value that the manager gave them, and no job of the worker itself can name it"
    mine, its = ours.workload_priority_classes, theirs.workload_priority_classes
    yield from _missing("WorkloadPriorityClass", mine, its, kept)
    copies = "copies wait there by {0}, but a Kueue before 0.20 makes it {1} when it starts"
    yield from _values("WorkloadPriorityClass", mine, its, copies)
    yield from _templates(ours, theirs, namespaces, devices)
    lacking = "nothing there has such devices, so pods that claim them do not start"
    yield from _missing("DeviceClass", ours.device_classes, theirs.device_classes, lacking)
    yield from _extended_names(ours, theirs)


def _missing(
    kind: str, ours: Sequence[Object] | None, theirs: Sequence[Object] | None, meaning: str
) -> Iterator[Difference]:
    """Objects of the manager that the worker lacks. Others of the worker are its own affair."""
    if ours is None or theirs is None:
        return
    there = {each.key for each in theirs}
    for each in sorted(ours, key=lambda each: each.key):
        if each.key not in there:
            yield Difference(
                subject=f"{kind} {each.key}",
                field="object",
                manager="there",
                worker=MISSING,
                meaning=meaning,
                advice="create it there",
            )


def _values(kind: str, ours: Sequence[P] | None, theirs: Sequence[P] | None, meaning: str) -> Iterator[Difference]:
    """`meaning` has a place for each of the two values."""
    for name, own, other in _both(ours, theirs):
        if own.value != other.value:
            yield Difference(
                subject=f"{kind} {name}",
                field="value",
                manager=str(own.value),
                worker=str(other.value),
                meaning=meaning.format(own.value, other.value),
                advice="give it the same value on both",
            )


def _default_priority(ours: PodPolicies, theirs: PodPolicies) -> Iterator[Difference]:
    """The priority of pods without a class. A class of the same name is compared already."""
    if ours.priority_classes is None or theirs.priority_classes is None:
        return
    (mine, own), (its, other) = _default(ours.priority_classes), _default(theirs.priority_classes)
    if mine != its and own != other:
        yield Difference(
            subject=f"PriorityClass {NO_CLASS}",
            field="globalDefault",
            manager=f"{mine} ({own})" if own else f"{mine} (no class)",
            worker=f"{its} ({other})" if other else f"{its} (no class)",
            meaning=f"pods without a class have priority {its} there, and {mine} where they are counted",
            advice="have the same class as the default on both, or name a class in each job",
        )


def _default(classes: Iterable[PriorityClass]) -> tuple[int, str]:
    """Of several, as a race in Kubernetes allows, the smallest counts."""
    return min(((each.value, each.metadata.name) for each in classes if each.global_default), default=(0, ""))


# --- devices ---------------------------------------------------------------------------------------------------------


def _templates(
    ours: PodPolicies, theirs: PodPolicies, namespaces: Sequence[str], devices: DeviceRules
) -> Iterator[Difference]:
    if ours.claim_templates is None or theirs.claim_templates is None:
        return
    here = [each for each in ours.claim_templates if each.metadata.namespace in namespaces]
    lacking = "pods that claim by it do not start there"
    yield from _missing("ResourceClaimTemplate", here, theirs.claim_templates, lacking)
    for name, template, its_template in _both(here, theirs.claim_templates):
        mine, its = _claimed(template, devices), _claimed(its_template, devices)
        for resource in sorted({*mine, *its}):
            own, other = mine.get(resource, "0"), its.get(resource, "0")
            if own != other:
                yield Difference(
                    subject=f"ResourceClaimTemplate {name}",
                    field=resource,
                    manager=own,
                    worker=other,
                    meaning=f"each pod that claims by it counts {own}, and claims {other} there",
                    advice="give it the same requests on both",
                )


def _extended_names(ours: PodPolicies, theirs: PodPolicies) -> Iterator[Difference]:
    for name, own, other in _both(ours.device_classes, theirs.device_classes):
        mine, its = own.spec.extended_resource_name, other.spec.extended_resource_name
        if mine != its:
            yield Difference(
                subject=f"DeviceClass {name}",
                field="spec.extendedResourceName",
                manager=mine or NONE,
                worker=its or NONE,
                meaning=f"requests of {mine or its} are devices on one side only",
                advice="give it the same name on both",
            )


def _claimed(template: ResourceClaimTemplate, devices: DeviceRules) -> dict[str, str]:
    """How many devices a pod claims by it, by the resource that they count as; else why they cannot be counted."""
    classes = {each.exactly.device_class_name for each in template.spec.spec.devices.requests if each.exactly}
    counts_as = {name: devices.of_class.get(name, name) for name in classes}
    known = Devices(DeviceRules(of_class=counts_as or {"": ""}, has_details=devices.has_details))
    known.set_template(template.key, template)
    pod = CountedPodSpec(resource_claims=(PodResourceClaim(resource_claim_template_name=template.metadata.name),))
    counts = known.counted(pod, namespace=template.metadata.namespace, pod_set="", path="")
    if counts.problem:
        return {"devices": f"not countable ({counts.problem.lstrip('.')})"}
    return {name: str(nanos // quantity.NANO) for name, nanos in counts.requests.items()}


# --- names -----------------------------------------------------------------------------------------------------------


class _PrioritySpec(Value):
    priority_class_name: str = ""


class _PriorityTemplate(Value):
    spec: _PrioritySpec = _PrioritySpec()


def _named(workload: Workload, ours: PodPolicies) -> set[str]:
    """The objects that a workload depends on, as the subjects of differences."""
    namespace, spec = workload.metadata.namespace, workload_spec(workload)
    named: set[str] = set()
    _, default = _default(ours.priority_classes or ())
    if spec.priority_class_ref is not None:
        named.add(f"{spec.priority_class_ref.kind} {spec.priority_class_ref.name}")
    for pod_set in spec.pod_sets:
        pod = decoder(CountedPodTemplate)(pod_set.template).spec
        named.add(f"RuntimeClass {pod.runtime_class_name}")
        priority = decoder(_PriorityTemplate)(pod_set.template).spec.priority_class_name
        named |= {f"PriorityClass {each}" for each in ((priority,) if priority else (NO_CLASS, default))}
        templates = {claim.resource_claim_template_name for claim in pod.resource_claims}
        named |= {f"ResourceClaimTemplate {namespace}/{name}" for name in templates}
        for template in ours.claim_templates or ():
            if template.metadata.namespace == namespace and template.metadata.name in templates:
                requests = template.spec.spec.devices.requests
                named |= {f"DeviceClass {each.exactly.device_class_name}" for each in requests if each.exactly}
    return named


def _both(ours: Iterable[C] | None, theirs: Iterable[C] | None) -> Iterator[tuple[str, C, C]]:
    """Objects that both sides have, with their names."""
    there = {each.key: each for each in theirs or ()}
    for each in sorted(ours or (), key=lambda each: each.key):
        if each.key in there:
            yield str(each.key), each, there[each.key]
