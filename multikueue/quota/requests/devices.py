"""The devices that pods claim, and what they count as (KEP 2941)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from multikueue.api.kubernetes.builtins import DeviceClass, DeviceRequest, ResourceClaimTemplate
from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue.quota.requests.amounts import (
    NO_DEVICES,
    CountedContainer,
    CountedPodSpec,
    DeviceCounts,
    Nanos,
    PodResourceClaim,
    add,
    container_requests,
    raise_to,
)

_GATE_IS_OFF = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
_NAMED_CLAIM = "KueueDRAIntegration feature does not support use of resource claims"


class DeviceRules(msgspec.Struct, frozen=True, kw_only=True):
    """How devices count: as the resource that `of_class` has for their DeviceClass.

    Without `is_counting` nothing is counted, and who claims devices waits, unless `should_refuse` is off, too. With
    `has_extended` what pods request of an extended resource counts as devices, where a DeviceClass is behind it. Without
    `has_details` a template must not say more than how many devices of which class.
    """

    of_class: Mapping[str, str] = {}
    is_counting: bool = True
    should_refuse: bool = True
    has_extended: bool = True
    has_details: bool = True

    @property
    def needs_templates(self) -> bool:
        return self.is_counting and bool(self.of_class)

    @property
    def needs_classes(self) -> bool:
        return self.needs_templates and self.has_extended


NO_CLASS = DeviceRules()
"""No DeviceClass is counted, and who claims devices waits."""


class _UncountedError(Exception):
    """These devices cannot be counted, and why."""


class Devices:
    """The ResourceClaimTemplates and DeviceClasses, as last seen. Owned by the queue manager."""

    def __init__(self, rules: DeviceRules) -> None:
        self.rules = rules
        self.is_extended = rules.needs_classes
        self._templates: dict[ObjectKey, ResourceClaimTemplate] = {}
        self._extended: dict[str, str] = {}
        """The extended resource of each DeviceClass that is behind one."""

    def set_template(self, key: ObjectKey, value: ResourceClaimTemplate | None) -> tuple[ObjectKey, ...]:
        """A ResourceClaimTemplate is there, or gone (None). Returns what may count differently now."""
        if value is None:
            self._templates.pop(key, None)
        else:
            self._templates[key] = value
        return (key,)

    def set_class(self, name: str, value: DeviceClass | None) -> set[str]:
        """A DeviceClass is there, or gone (None). Returns the extended resources that may count differently now."""
        before, now = self._extended.pop(name, ""), value.spec.extended_resource_name if value is not None else ""
        if now:
            self._extended[name] = now
        return {before, now} - {""} if before != now else set()

    def counted(self, pod: CountedPodSpec, *, namespace: str, pod_set: str, path: str) -> DeviceCounts:
        """The devices of one pod; `path` is that of its template."""
        if not self.rules.is_counting:
            is_refused = pod.resource_claims and self.rules.should_refuse
            return DeviceCounts(problem=_GATE_IS_OFF) if is_refused else NO_DEVICES
        requests: Nanos = {}
        extended = self._extended_of(pod) if self.is_extended else {}
        replaced = {name: nanos for name, nanos in extended.items() if name in self._extended.values()}
        problem = ""
        try:
            for index, claim in enumerate(pod.resource_claims):
                add(requests, self._of_claim(claim, namespace, pod_set, f"{path}.spec.resourceClaims[{index}]"))
        except _UncountedError as error:
            problem = str(error)
        for name, nanos in replaced.items():
            add(requests, {self._counts_as(name): nanos})
        templates = (claim.resource_claim_template_name for claim in pod.resource_claims)
        known = {ObjectKey(namespace, name) for name in templates if name} if self.rules.needs_templates else set()
        return DeviceCounts(requests, frozenset(replaced), frozenset((*known, *extended)), problem)

    # --- claims ---

    def _of_claim(self, claim: PodResourceClaim, namespace: str, pod_set: str, path: str) -> Nanos:
        if claim.resource_claim_name is not None:
            raise _UncountedError(f"{_NAMED_CLAIM}: {path}.resourceClaimName: {json.dumps(claim.resource_claim_name)}")
        name = claim.resource_claim_template_name
        if name is None:
            return {}
        where = f"{path}.resourceClaimTemplateName"
        if not self.rules.of_class:
            said = f"ResourceClaimTemplate {name}: no DeviceClass is mapped in DRA configuration for podset {pod_set}"
            raise _UncountedError(f"{where}: Not found: {json.dumps(said)}")
        template = self._templates.get(ObjectKey(namespace, name))
        if template is None:
            said = f"ResourceClaimTemplate {name} of podset {pod_set} is not there"
            raise _UncountedError(f"{where}: Not found: {json.dumps(said)}")
        counts: Nanos = {}
        for device_class, count in self._of_template(template, path):
            resource = self.rules.of_class.get(device_class)
            if resource is None:
                said = f"DeviceClass {device_class} is not mapped in DRA configuration for podset {pod_set}"
                raise _UncountedError(f"{where}: Not found: {json.dumps(said)}")
            add(counts, {resource: max(0, count) * quantity.NANO})
        return counts

    def _of_template(self, template: ResourceClaimTemplate, path: str) -> Iterator[tuple[str, int]]:
        """The DeviceClass and number of each request."""
        claim, name = template.spec.spec.devices, template.metadata.name
        if not self.rules.has_details:
            for part, given in (("constraints", claim.constraints), ("config", claim.config)):
                if given:
                    raise _UncountedError(_unsupported(f"{path}.devices.{part}", name, f"device {part}"))
        for index, request in enumerate(claim.requests):
            yield from self._of_request(request, name, f"{path}.devices.requests[{index}]")

    def _of_request(self, request: DeviceRequest, template: str, path: str) -> Iterator[tuple[str, int]]:
        exactly = request.exactly
        if request.first_available is not None:
            raise _UncountedError(_unsupported(f"{path}.firstAvailable", template, "FirstAvailable device selection"))
        if exactly is None:
            raise _UncountedError(f"{path}.exactly: Required value: ResourceClaimTemplate {template}")
        if exactly.selectors and not self.rules.has_details:
            raise _UncountedError(_unsupported(f"{path}.exactly.selectors", template, "CEL selectors"))
        if exactly.admin_access:
            raise _UncountedError(_unsupported(f"{path}.exactly.adminAccess", template, "AdminAccess", value="true"))
        if exactly.allocation_mode != "ExactCount":
            mode, where = exactly.allocation_mode, f"{path}.exactly.allocationMode"
            raise _UncountedError(_unsupported(where, template, f"AllocationMode '{mode}'", value=json.dumps(mode)))
        if exactly.device_class_name:
            yield exactly.device_class_name, exactly.count

    # --- extended resources ---

    def _extended_of(self, pod: CountedPodSpec) -> Nanos:
        """The extended resources that a pod requests: the more of what its init containers need one after another, and its
        containers together."""
        running: Nanos = {}
        peak: Nanos = {}
        for container in pod.containers:
            add(running, _extended_in(container))
        for container in pod.init_containers:
            raise_to(peak, _extended_in(container))
        raise_to(peak, running)
        return peak

    def _counts_as(self, extended: str) -> str:
        """The resource that the first DeviceClass behind it is mapped to; else it counts as it is called."""
        behind = sorted(name for name, each in self._extended.items() if each == extended)
        return next((self.rules.of_class[name] for name in behind if name in self.rules.of_class), extended)


def _extended_in(container: CountedContainer) -> Nanos:
    return {name: nanos for name, nanos in container_requests(container).items() if nanos and _is_extended(name)}


def _is_extended(resource: str) -> bool:
    return "/" in resource and not resource.startswith(("kubernetes.io/", "hugepages-"))


def _unsupported(path: str, template: str, what: str, *, value: str = "null") -> str:
    """A field error, as Kubernetes words it."""
    return f"{path}: Invalid value: {value}: ResourceClaimTemplate {template}: {what} is not supported"
