"""Kubernetes' built-in kinds that we read, besides jobs.

Namespace, Secret, ConfigMap, APIService, PriorityClass, LimitRange, RuntimeClass, DeviceClass, ResourceClaimTemplate,
MutatingWebhookConfiguration, CustomResourceDefinition, Lease.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from multikueue.api.meta import Int64, Object, ObjectKey, Time, Value, decoder

KUBE_SYSTEM = ObjectKey("", "kube-system")
"""The namespace that every cluster has since it was created. It cannot be deleted, so its UID identifies the
cluster."""


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Namespace(Object):
    pass


def is_namespace(name: str) -> bool:
    """Whether the name is valid for a namespace (RFC 1123 label)."""
    return _LABEL.fullmatch(name) is not None


class Secret(Object):
    type: str = ""
    data: dict[str, str] = {}


class ConfigMap(Object):
    data: dict[str, str] = {}


class ServiceSpec(Value):
    type: str = ""
    external_name: str = ""


class ServiceObject(Object):
    spec: ServiceSpec = ServiceSpec()


class ServiceReference(Value):
    namespace: str = ""
    name: str = ""
    port: Int64 = 443


class APIServiceSpec(Value):
    service: ServiceReference | None = None
    ca_bundle: str = ""
    insecure_skip_tls_verify: bool = False


class APIService(Object):
    spec: APIServiceSpec = APIServiceSpec()


class PriorityClass(Object):
    value: Int64 = 0
    global_default: bool = False


class LimitRangeItem(Value):
    type: str = ""
    default: dict[str, str | int | float] = {}
    default_request: dict[str, str | int | float] = {}
    max: dict[str, str | int | float] = {}
    min: dict[str, str | int | float] = {}


class LimitRangeSpec(Value):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object):
    spec: LimitRangeSpec = LimitRangeSpec()


class Overhead(Value):
    pod_fixed: dict[str, str | int | float] = {}


class RuntimeClass(Object):
    overhead: Overhead | None = None


class Unread(Value):
    """An object that is there, whatever is in it."""


class ExactDeviceRequest(Value):
    """Devices of one class."""

    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: Int64 = 1
    admin_access: bool | None = None
    selectors: tuple[Unread, ...] = ()


class DeviceRequest(Value):
    """One of both: exactly these devices, or the first of several requests that can be had."""

    exactly: ExactDeviceRequest | None = None
    first_available: tuple[Unread, ...] | None = None


class DeviceClaim(Value):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Unread, ...] = ()
    config: tuple[Unread, ...] = ()


class ResourceClaimSpec(Value):
    devices: DeviceClaim = DeviceClaim()


class ResourceClaimTemplateSpec(Value):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object):
    """What each pod that names it gets a ResourceClaim from."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Value):
    extended_resource_name: str = ""


class DeviceClass(Object):
    """Devices of one sort. Pods may ask for them by the name of an extended resource, too."""

    spec: DeviceClassSpec = DeviceClassSpec()


class MutatingWebhookConfiguration(Object):
    webhooks: msgspec.Raw = msgspec.Raw(b"[]")


class Version(Value):
    name: str = ""
    served: bool = False


class Conversion(Value):
    strategy: str = "None"


class DefinitionSpec(Value):
    group: str = ""
    versions: tuple[Version, ...] = ()
    conversion: Conversion = Conversion()

    @property
    def is_converted(self) -> bool:
        """Whether something translates between its versions, besides their name."""
        return self.conversion.strategy != "None"


class Definition(Object):
    spec: DefinitionSpec = DefinitionSpec()


class LeaseSpec(Value):
    """The holder of a lease; none if `holder_identity` is empty. The times are for people: no decision rests on
    them."""

    holder_identity: str = ""
    lease_duration_seconds: Int64 = 0
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int64 = 0


class Lease(Object):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_decode_spec = decoder(LeaseSpec)


def record_of(lease: Lease | None) -> LeaseSpec:
    """The spec of a lease. One that cannot be decoded counts as empty, and an empty one has no holder."""
    if lease is None:
        return LeaseSpec()
    try:
        return _decode_spec(lease.spec)
    except msgspec.DecodeError:
        return LeaseSpec()


def render_micro_time(when: datetime) -> str:
    """RFC 3339 with six digits and a Z, as Kubernetes writes metav1.MicroTime."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
