"""Kubernetes' built-in kinds that we read, besides jobs.

Namespace, Secret, ConfigMap, APIService, PriorityClass, LimitRange, RuntimeClass, MutatingWebhookConfiguration.
"""

from __future__ import annotations

import re

import msgspec

from multikueue.api.meta import Int64, Object, ObjectKey, Value

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


class MutatingWebhookConfiguration(Object):
    webhooks: msgspec.Raw = msgspec.Raw(b"[]")
