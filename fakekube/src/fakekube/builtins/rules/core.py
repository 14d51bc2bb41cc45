"""Rules of the kinds in the core group except Pods, and of Events in events.k8s.io."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from fakekube.builtins.rules.pods import timed_conditions
from fakekube.builtins.rules.rules import Rules, texts
from fakekube.model.refusals import (
    Problem,
    bad_request,
    forbidden,
    forbidden_value,
    immutable,
    invalid_value,
    required,
)
from fakekube.model.resources import Resource
from fakekube.model.selectors import Alias
from fakekube.model.values.names import dns_label
from fakekube.model.values.quantities import canonical_map
from fakekube.model.wire import Json, Object, Refused

__all__ = [
    "NAMESPACE_LABEL",
    "DataRules",
    "EndpointsRules",
    "EventRules",
    "LimitRangeRules",
    "NamespaceRules",
    "NewEventRules",
    "NodeRules",
    "ResourceQuotaRules",
    "SecretRules",
    "ServiceAccountRules",
    "ServiceRules",
]

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label by which selectors find a namespace by its name."""

_UNDELETABLE = frozenset({"default", "kube-system", "kube-public"})
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"
_is_config_key = re.compile(_CONFIG_KEY).fullmatch


class DataRules(Rules):
    """Kinds with data that can be immutable."""

    data: ClassVar[tuple[str, ...]] = ("data", "binaryData")
    encoded: ClassVar[str] = "binaryData"
    """The field with base64 data."""
    whole: ClassVar[str] = "[]"
    """The field that an error about the total size names."""

    def defaulted(self, item: Object) -> Object:
        empty = [name for name in self.data if item.get(name) == {}]
        return {name: value for name, value in item.items() if name not in empty} if empty else item

    def problems(self, item: Object) -> list[Problem]:
        contents = [(name, item.get(name) or {}) for name in self.data]
        found = [problem for name, data in contents for problem in _key_problems(data, name)]
        if sum(_size(data, encoded=name == self.encoded) for name, data in contents) > _MOST_DATA:
            found.append(Problem("FieldValueTooLong", self.whole, f"Too long: may not be more than {_MOST_DATA} bytes"))
        return found

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        if not old.get("immutable"):
            return []
        frozen = [name for name in self.data if new.get(name) != old.get(name)]
        if not new.get("immutable"):
            frozen.insert(0, "immutable")
        return [forbidden_value(name, "field is immutable when `immutable` is set") for name in frozen]


_MOST_DATA = 2**20
"""Maximum total size of all values, in bytes."""


def _size(data: Mapping[str, str], *, encoded: bool) -> int:
    if encoded:
        return sum(len(text) * 3 // 4 - text.count("=", -2) for text in data.values())
    return sum(len(text) if text.isascii() else len(text.encode()) for text in data.values())


def _key_problems(data: Mapping[str, Json], path: str) -> Iterator[Problem]:
    for key in data:
        if not _is_config_key(key):
            detail = (
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
                f"'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
            )
            yield invalid_value(f"{path}[{key}]", key, detail)


class SecretRules(DataRules):
    data = ("data",)
    encoded = "data"
    whole = "data"
    fields = ("type",)

    def check(self, item: Object, /) -> None:
        for value in texts(item.get("data")):
            _check_base64(value)

    def defaulted(self, item: Object) -> Object:
        item = super().defaulted(item)
        if "type" in item and "stringData" not in item:
            return item
        plain = {key: base64.b64encode(text.encode()).decode() for key, text in (item.get("stringData") or {}).items()}
        kept = {name: value for name, value in item.items() if name != "stringData"}
        if plain:
            kept["data"] = {**(item.get("data") or {}), **plain}
        return {**kept, "type": item.get("type") or "Opaque"}

    def problems(self, item: Object) -> list[Problem]:
        missing = [key for key in _SECRET_KEYS.get(item["type"], ()) if key not in (item.get("data") or {})]
        return [*super().problems(item), *(required(f"data[{key}]") for key in missing)]

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        changed = [immutable("type", new.get("type"))] if new.get("type") != old.get("type") else []
        return changed + super().update_problems(new, old)


_SECRET_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _check_base64(value: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        wrong = re.search(r"[^A-Za-z0-9+/=]", value)
        place = wrong.start() if wrong else max(0, len(value) - 1)
        reason = f"illegal base64 data at input byte {place}"
        raise bad_request(f'Secret in version "v1" cannot be handled as a Secret: {reason}') from None


class NamespaceRules(Rules):
    name = staticmethod(dns_label)
    returns_deleted = True
    tells_grace = False
    fields = ("status.phase", "name")
    aliases: ClassVar[Mapping[str, Alias]] = {"name": Alias("metadata.name")}

    def defaulted(self, item: Object) -> Object:
        if "status" in item:
            item = {**item, "status": timed_conditions(item["status"], "lastTransitionTime")}
        metadata = item["metadata"]
        name = metadata.get("name")
        if not name or (metadata.get("labels") or {}).get(NAMESPACE_LABEL) == name:
            return item
        labels = {**(metadata.get("labels") or {}), NAMESPACE_LABEL: name}
        return {**item, "metadata": {**metadata, "labels": labels}}

    def created(self, item: Object) -> Object:
        item = self.defaulted(item)
        finalizers = [each for each in (item.get("spec") or {}).get("finalizers") or () if each != "kubernetes"]
        return {**item, "spec": {"finalizers": [*finalizers, "kubernetes"]}, "status": {"phase": "Active"}}

    def updated(self, new: Object, old: Object) -> Object:
        """Its finalizers are removed only through `finalize`; its phase follows its deletion."""
        new = {**new, "spec": old.get("spec") or {}}
        phase = "Terminating" if "deletionTimestamp" in old["metadata"] else "Active"
        status = {**(new.get("status") or {}), "phase": phase}
        return {**new, "status": status}

    def refused_deletion(self, resource: Resource, item: Object) -> Refused | None:
        name = item["metadata"]["name"]
        return forbidden(resource, name, "this namespace may not be deleted") if name in _UNDELETABLE else None

    def lingers(self, item: Object) -> bool:
        return bool((item.get("spec") or {}).get("finalizers"))

    def dying(self, item: Object) -> Object:
        return {**item, "status": {**(item.get("status") or {}), "phase": "Terminating"}}

    def is_done(self, item: Object) -> bool:
        return super().is_done(item) and not self.lingers(item)


class EventRules(Rules):
    """Events of the core group."""

    blank: ClassVar[Object] = {"involvedObject": {}, "source": {}}
    is_owner = False
    creates_on_update = True
    fields = (
        *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
        *("involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath"),
        *("reason", "reportingComponent", "source", "type"),
    )
    aliases: ClassVar[Mapping[str, Alias]] = {"source": Alias("source.component")}

    def defaulted(self, item: Object) -> Object:
        untold: Object = {"source": {}, "firstTimestamp": None, "lastTimestamp": None, "eventTime": None}
        told = {"reportingComponent": "", "reportingInstance": "", "involvedObject": {}}
        return {**untold, **told, **item}

    def problems(self, item: Object) -> list[Problem]:
        return list(_event_problems(item, item["involvedObject"].get("namespace", "")))


def _event_problems(item: Object, about: str) -> Iterator[Problem]:
    namespace = item["metadata"].get("namespace")
    # Events about cluster-scoped objects are in the default namespace.
    if about != namespace and (about or namespace not in ("default", "kube-system")):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


class NewEventRules(Rules):
    """Events of the group events.k8s.io."""

    is_owner = False
    creates_on_update = True
    aliases: ClassVar[Mapping[str, Alias]] = {
        **{f"regarding.{name}": Alias(f"involvedObject.{name}") for name in ("kind", "namespace", "name", "uid")},
        "reportingController": Alias("reportingComponent"),
    }
    fields = (*aliases, "reason", "type")

    def defaulted(self, item: Object) -> Object:
        untold: Object = {"deprecatedSource": {}, "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None}
        return {"eventTime": None, **untold, **item}

    def problems(self, item: Object) -> list[Problem]:
        found = list(_event_problems(item, (item.get("regarding") or {}).get("namespace", "")))
        if not item.get("eventTime"):
            found.append(required("eventTime"))
        if item.get("type", "") not in ("Normal", "Warning"):
            found.append(invalid_value("type", item.get("type", ""), f"has invalid value: {item.get('type', '')}"))
        return found


class ServiceAccountRules(Rules):
    returns_deleted = True


class ResourceQuotaRules(Rules):
    returns_deleted = True

    def created(self, item: Object) -> Object:
        return {**item, "status": {}}


class LimitRangeRules(Rules):
    creates_on_update = True

    def defaulted(self, item: Object) -> Object:
        limits = (item.get("spec") or {}).get("limits")
        if not limits:
            return item
        return {**item, "spec": {**item["spec"], "limits": [_limit(each) for each in limits]}}


def _limit(limit: Object) -> Object:
    """Defaults of a LimitRange item: `default` comes from `max`, `defaultRequest` from `default`."""
    limit = {name: canonical_map(value) if isinstance(value, dict) else value for name, value in limit.items()}
    if limit.get("type") != "Container":
        return limit
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    made = {"default": default, "defaultRequest": request}
    return {**limit, **{name: value for name, value in made.items() if value}}


class NodeRules(Rules):
    keeps_status = True
    fields = ("spec.unschedulable",)

    def defaulted(self, item: Object) -> Object:
        status = timed_conditions(item.get("status") or {}, "lastHeartbeatTime", "lastTransitionTime")
        amounts = {name: canonical_map(status[name]) for name in ("capacity", "allocatable") if name in status}
        if "capacity" in amounts:
            amounts.setdefault("allocatable", amounts["capacity"])
        return {**item, "spec": item.get("spec") or {}, "status": status | amounts}


class ServiceRules(Rules):
    returns_deleted = True
    creates_on_update = True
    name = staticmethod(dns_label)

    def defaulted(self, item: Object) -> Object:
        given = item.get("spec") or {}
        spec = {"sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster", **given}
        if spec.get("ports"):
            spec["ports"] = [_service_port(each) for each in spec["ports"]]
        return {**item, "spec": spec, "status": {"loadBalancer": {}, **(item.get("status") or {})}}

    def created(self, item: Object) -> Object:
        return {**item, "status": {"loadBalancer": {}}}


def _service_port(port: Object) -> Object:
    return {"protocol": "TCP", "targetPort": port.get("port"), **port}


class EndpointsRules(Rules):
    creates_on_update = True

    def defaulted(self, item: Object) -> Object:
        if not item.get("subsets"):
            return item
        return {**item, "subsets": [_subset(each) for each in item["subsets"]]}


def _subset(subset: Object) -> Object:
    if not subset.get("ports"):
        return subset
    return {**subset, "ports": [{"protocol": "TCP", **port} for port in subset["ports"]]}
