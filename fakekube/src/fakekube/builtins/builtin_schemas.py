"""Schemas of the built-in kinds, as far as a client can tell the difference.

The fields and their types come from kubernetes_asyncio's models. The tables here add the rest: list keys and sets, the
keys of strategic merge patches, texts that are quantities or bytes. No field is required: the real server decodes
without required fields too, and validates afterwards, kind by kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from fakekube.builtins.models import fields_of
from fakekube.schemas.structure import QUANTITY_FORMAT

__all__ = ["model_of", "schema_of"]

Schema = dict[str, Any]

_MODELS = {("", "Event"): "CoreV1Event", ("events.k8s.io", "Event"): "EventsV1Event"}
"""Kinds whose name exists in another group as well."""


@cache
def schema_of(group: str, version: str, kind: str) -> Mapping[str, Any]:
    """The OpenAPI v3 schema of a built-in kind. Raises LookupError if the library does not know it."""
    schema = _model(model_of(group, version, kind), ())
    gvk = {"group": group, "version": version, "kind": kind}
    return schema | {"x-kubernetes-group-version-kind": [gvk]}


def model_of(group: str, version: str, kind: str) -> str:
    """The name of a kind's model in the library, see `models`."""
    return _MODELS.get((group, kind)) or f"V{version[1:]}{kind}"


def _model(name: str, within: tuple[str, ...]) -> Schema:
    """The schema of a model with all nested models; open where a model contains itself."""
    if name in within:
        return {"type": "object"} | _OPEN
    inside = (*within, name)
    properties = {field: _field(name, field, declared, inside) for field, declared in fields_of(name).items()}
    atomic = {"x-kubernetes-map-type": "atomic"} if name in _WHOLE_OBJECTS else {}
    return {"type": "object", "properties": properties} | atomic


def _field(model: str, field: str, declared: str, within: tuple[str, ...]) -> Schema:
    special = _SPECIAL.get((model, field)) or _SPECIAL.get(("", field), {})
    return special if special.keys() & _VALUE_KEYWORDS else _typed(declared, within) | special


def _typed(declared: str, within: tuple[str, ...]) -> Schema:
    if declared in _SCALARS:
        return dict(_SCALARS[declared])
    if declared.startswith("list["):
        return {"type": "array", "items": _typed(declared[5:-1], within), "x-kubernetes-list-type": "atomic"}
    if declared.startswith("dict("):
        return {"type": "object", "additionalProperties": _typed(declared[len("dict(str, ") : -1], within)}
    return _model(declared, within)


_OPEN: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Schema = {"x-kubernetes-int-or-string": True}
_QUANTITY: Schema = {"oneOf": [{"type": "string", "format": QUANTITY_FORMAT}, {"type": "number"}]}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": _QUANTITY}
_BYTES: Schema = {"type": "string", "format": "byte"}
_MAP_OF_BYTES: Schema = {"type": "object", "additionalProperties": _BYTES}
_WHOLE: Schema = {"x-kubernetes-map-type": "atomic"}

_VALUE_KEYWORDS = frozenset({"type", "oneOf", *_OPEN, *_INT_OR_STRING})
"""A schema with one of these keywords replaces that of a field; other schemas only add to it."""

_SCALARS: Mapping[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": _OPEN,
}


def _merged(key: str, *, retain: bool = False) -> Schema:
    """A list that a strategic merge patch joins by a key."""
    strategy = "merge,retainKeys" if retain else "merge"
    return {"x-kubernetes-patch-strategy": strategy, "x-kubernetes-patch-merge-key": key}


def _keyed(*keys: str) -> Schema:
    """A list with keys in server-side apply."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def _both(*keys: str, retain: bool = False) -> Schema:
    """A list with keys in both; a strategic merge patch uses the first."""
    return _keyed(*keys) | _merged(keys[0], retain=retain)


_SET: Schema = {"x-kubernetes-list-type": "set"}
_MERGED_SET: Schema = _SET | {"x-kubernetes-patch-strategy": "merge"}


def _fields(schema: Schema, *places: str) -> Mapping[tuple[str, str], Schema]:
    """The schema for several places, each `Model.field`, or `.field` for a field of that name in any model."""
    return {(place.partition(".")[0], place.partition(".")[2]): schema for place in places}


_PODS = ("V1Container", "V1EphemeralContainer")


def _of_containers(field: str) -> Iterable[str]:
    return (f"{model}.{field}" for model in _PODS)


_SPECIAL: Mapping[tuple[str, str], Schema] = {
    # Metadata.
    **_fields(_MERGED_SET, "V1ObjectMeta.finalizers"),
    **_fields(_both("uid"), "V1ObjectMeta.ownerReferences"),
    **_fields({"type": "object"} | _OPEN, "V1ManagedFieldsEntry.fieldsV1"),
    # Pods.
    **_fields(_both("name"), "V1PodSpec.containers", "V1PodSpec.initContainers", "V1PodSpec.ephemeralContainers"),
    **_fields(_both("name"), "V1PodSpec.imagePullSecrets", "V1PodSpec.schedulingGates"),
    **_fields(_both("name", retain=True), "V1PodSpec.volumes", "V1PodSpec.resourceClaims"),
    **_fields(_both("ip"), "V1PodSpec.hostAliases", "V1PodStatus.podIPs"),
    **_fields({"x-kubernetes-list-type": "atomic"} | _merged("ip"), "V1PodStatus.hostIPs"),
    **_fields(_both("name", retain=True), "V1PodStatus.resourceClaimStatuses"),
    **_fields(_both("topologyKey", "whenUnsatisfiable"), "V1PodSpec.topologySpreadConstraints"),
    **_fields(_both("name"), *_of_containers("env")),
    **_fields(_both("containerPort", "protocol"), *_of_containers("ports")),
    **_fields(_both("mountPath"), *_of_containers("volumeMounts")),
    **_fields(_both("devicePath"), *_of_containers("volumeDevices")),
    **_fields(_keyed("name"), "V1ResourceRequirements.claims"),
    **_fields({"type": "string", "default": "TCP"}, "V1ContainerPort.protocol", "V1ServicePort.protocol"),
    **_fields(_both("mountPath"), "V1ContainerStatus.volumeMounts"),
    **_fields(_both("name"), "V1ContainerStatus.allocatedResourcesStatus"),
    **_fields(_keyed("resourceID"), "V1ResourceStatus.resources"),
    # Conditions that have keys; a Job's have them for patches only.
    **_fields(
        _both("type"),
        "V1PodStatus.conditions",
        "V1NamespaceStatus.conditions",
        "V1NodeStatus.conditions",
        "V1NodeStatus.addresses",
        "V1ServiceStatus.conditions",
        "V1DeploymentStatus.conditions",
        "V1ReplicaSetStatus.conditions",
        "V1StatefulSetStatus.conditions",
        "V1DaemonSetStatus.conditions",
        "V1APIServiceStatus.conditions",
        "V1PersistentVolumeClaimStatus.conditions",
        "V1PodDisruptionBudgetStatus.conditions",
    ),
    **_fields(_keyed("type"), "V1CustomResourceDefinitionStatus.conditions"),
    **_fields(_merged("type"), "V1JobStatus.conditions"),
    # Jobs.
    **_fields(_SET, "V1UncountedTerminatedPods.succeeded", "V1UncountedTerminatedPods.failed"),
    **_fields(_SET, "V1PodFailurePolicyOnExitCodesRequirement.values", "V1ContainerRestartRuleOnExitCodes.values"),
    # Services, accounts, nodes.
    **_fields(_both("port", "protocol"), "V1ServiceSpec.ports"),
    **_fields(_both("name"), "V1ServiceAccount.secrets"),
    **_fields(_MERGED_SET, "V1NodeSpec.podCIDRs"),
    # Workloads and budgets.
    **_fields({"x-kubernetes-patch-strategy": "retainKeys"}, "V1DeploymentSpec.strategy"),
    **_fields({"x-kubernetes-patch-strategy": "replace"}, "V1PodDisruptionBudgetSpec.selector"),
    # Webhooks and definitions.
    **_fields(_both("name"), "V1MutatingWebhookConfiguration.webhooks", "V1ValidatingWebhookConfiguration.webhooks"),
    **_fields(_both("name"), "V1MutatingWebhook.matchConditions", "V1ValidatingWebhook.matchConditions"),
    **_fields(_BYTES, ".caBundle"),
    **_fields(_both("rule"), "V1JSONSchemaProps.x-kubernetes-validations"),
    **_fields({"type": "object"} | _OPEN, "V1CustomResourceSubresources.status"),
    # Values whose form the library's types leave open.
    **_fields(_MAP_OF_BYTES, "V1Secret.data", "V1ConfigMap.binaryData"),
    **_fields(
        _INT_OR_STRING,
        "V1HTTPGetAction.port",
        "V1TCPSocketAction.port",
        "V1ServicePort.targetPort",
        ".maxSurge",
        ".maxUnavailable",
        ".minAvailable",
    ),
    **_fields(
        _QUANTITIES,
        "V1ResourceRequirements.limits",
        "V1ResourceRequirements.requests",
        "V1VolumeResourceRequirements.limits",
        "V1VolumeResourceRequirements.requests",
        "V1ContainerStatus.allocatedResources",
        "V1PodSpec.overhead",
        "V1PodStatus.allocatedResources",
        "V1PersistentVolumeClaimStatus.allocatedResources",
        "V1PersistentVolumeClaimStatus.capacity",
        "V1Overhead.podFixed",
        "V1NodeStatus.allocatable",
        "V1NodeStatus.capacity",
        "V1LimitRangeItem.default",
        "V1LimitRangeItem.defaultRequest",
        "V1LimitRangeItem.max",
        "V1LimitRangeItem.maxLimitRequestRatio",
        "V1LimitRangeItem.min",
        "V1CapacityRequirements.requests",
        "V1ResourceQuotaSpec.hard",
        "V1ResourceQuotaStatus.hard",
        "V1ResourceQuotaStatus.used",
    ),
    **_fields(_QUANTITY, "V1EmptyDirVolumeSource.sizeLimit", "V1ResourceFieldSelector.divisor"),
    # Maps that change only as a whole.
    **_fields(_WHOLE, "V1PodSpec.nodeSelector", "V1ServiceSpec.selector", "V1Scheduling.nodeSelector"),
}
"""Keywords that the library's models lack, by model and field."""

_WHOLE_OBJECTS = frozenset(
    {
        "CoreV1EndpointPort", "RbacV1Subject", "V1ConfigMapKeySelector", "V1EndpointAddress", "V1FileKeySelector",
        "V1LabelSelector", "V1LocalObjectReference", "V1NodeSelector", "V1NodeSelectorTerm", "V1ObjectFieldSelector",
        "V1ObjectReference", "V1OwnerReference", "V1ResourceFieldSelector", "V1RoleRef", "V1ScopeSelector",
        "V1SecretKeySelector", "V1SecretReference", "V1ServiceBackendPort", "V1TypedLocalObjectReference",
    }
)  # fmt: skip
"""Models that server-side apply treats as one value (atomic)."""
