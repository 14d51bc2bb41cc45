"""Rules of the kinds in groups other than core and batch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from fakekube.builtins.rules.rules import Rules, texts
from fakekube.model.refusals import (
    Problem,
    bad_request,
    forbidden_value,
    immutable,
    invalid_value,
    required,
    unsupported_value,
)
from fakekube.model.values.names import dns_label, path_segment
from fakekube.model.wire import Object, User
from fakekube.schemas import crd

__all__ = [
    "SYSTEM_PRIORITIES",
    "APIServiceRules",
    "BindingRules",
    "ClaimTemplateRules",
    "DefinitionRules",
    "LeaseRules",
    "MutatingWebhookRules",
    "PriorityClassRules",
    "RoleRules",
    "RuntimeClassRules",
    "SigningRequestRules",
    "WebhookRules",
]

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)").fullmatch


class LeaseRules(Rules):
    plain_finalizers = True
    updates_blindly = False
    creates_on_update = True

    def check(self, item: Object, /) -> None:
        spec = item.get("spec")
        times = {name: spec.get(name) for name in ("acquireTime", "renewTime")} if isinstance(spec, dict) else {}
        for time in texts(times):
            if not _MICRO_TIME(time):
                raise bad_request(_unreadable_time(time))

    def defaulted(self, item: Object) -> Object:
        return item if "spec" in item else {**item, "spec": {}}

    def problems(self, item: Object) -> list[Problem]:
        spec = item["spec"]
        found = []
        if spec.get("leaseDurationSeconds", 1) <= 0:
            found.append(
                invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
            )
        if spec.get("leaseTransitions", 0) < 0:
            detail = "must be greater than or equal to 0"
            found.append(invalid_value("spec.leaseTransitions", spec["leaseTransitions"], detail))
        return found


def _unreadable_time(text: str) -> str:
    why = f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{text[19:]}" as ".000000"'
    return f'Lease in version "v1" cannot be handled as a Lease: {why}'


_HIGHEST_PRIORITY = 1_000_000_000


_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassRules(Rules):
    counts_generation = True

    def defaulted(self, item: Object) -> Object:
        return {"value": 0, "preemptionPolicy": "PreemptLowerPriority", **item}

    def differs(self, _new: Object, _old: Object, /) -> bool:
        return False

    def problems(self, item: Object) -> list[Problem]:
        name, value = item["metadata"].get("name", ""), item["value"]
        found = []
        if name.startswith("system-") and name not in SYSTEM_PRIORITIES:
            detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
            found.append(forbidden_value("metadata.name", f"{detail}{name} is not a known system priority class"))
        elif value > _HIGHEST_PRIORITY and name not in SYSTEM_PRIORITIES:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
            found.append(forbidden_value("value", detail))
        if item["preemptionPolicy"] not in _PREEMPTION_POLICIES:
            found.append(unsupported_value("preemptionPolicy", item["preemptionPolicy"], _PREEMPTION_POLICIES))
        return found

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        found = []
        if new["value"] != old["value"]:
            found.append(forbidden_value("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            found.append(immutable("preemptionPolicy", new["preemptionPolicy"]))
        return found


SYSTEM_PRIORITIES: Mapping[str, Object] = {
    "system-cluster-critical": {
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, "
        "but can be moved to another node if necessary.",
    },
    "system-node-critical": {
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
}
"""The priority classes of every cluster."""


class RuntimeClassRules(Rules):
    updates_blindly = False
    creates_on_update = True

    def problems(self, item: Object) -> list[Problem]:
        handler = item.get("handler", "")
        return [invalid_value("handler", handler, each) for each in dns_label(handler)]

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        return [immutable("handler", new.get("handler"))] if new.get("handler") != old.get("handler") else []


class ClaimTemplateRules(Rules):
    """Rules of ResourceClaimTemplates: each device request asks for one device, unless it says how many."""

    def defaulted(self, item: Object) -> Object:
        spec = (item.get("spec") or {}).get("spec") or {}
        requests = (spec.get("devices") or {}).get("requests")
        if not requests:
            return item
        devices = {**spec["devices"], "requests": [_device_request(each) for each in requests]}
        return {**item, "spec": {**item["spec"], "spec": {**spec, "devices": devices}}}

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        return [immutable("spec", new.get("spec"))] if new.get("spec") != old.get("spec") else []


def _device_request(request: Object) -> Object:
    alternatives = {"firstAvailable": [_counted(each) for each in request.get("firstAvailable") or ()]}
    exactly = {"exactly": _counted(request["exactly"])} if request.get("exactly") else {}
    return {**request, **exactly, **(alternatives if alternatives["firstAvailable"] else {})}


def _counted(request: Object) -> Object:
    mode = request.get("allocationMode") or "ExactCount"
    count = {"count": request.get("count") or 1} if mode == "ExactCount" else {}
    return {**request, "allocationMode": mode, **count}


class RoleRules(Rules):
    name = staticmethod(path_segment)
    creates_on_update = True

    def defaulted(self, item: Object) -> Object:
        return {"rules": None, **item}


class BindingRules(Rules):
    name = staticmethod(path_segment)
    creates_on_update = True

    def defaulted(self, item: Object) -> Object:
        if not item.get("subjects"):
            return item
        return {**item, "subjects": [_subject(each) for each in item["subjects"]]}

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        if new.get("roleRef") == old.get("roleRef"):
            return []
        return [invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")]


def _subject(subject: Object) -> Object:
    if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
        return {**subject, "apiGroup": "rbac.authorization.k8s.io"}
    return subject


class WebhookRules(Rules):
    """Rules of both webhook configurations."""

    counts_generation = True
    updates_blindly = False
    defaults: ClassVar[Mapping[str, Any]] = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    }

    def defaulted(self, item: Object) -> Object:
        if not item.get("webhooks"):
            return item
        return {**item, "webhooks": [self._webhook(each) for each in item["webhooks"]]}

    def _webhook(self, webhook: Object) -> Object:
        made = {**self.defaults, **webhook}
        made["rules"] = [{"scope": "*", **rule} for rule in webhook.get("rules") or ()]
        config = webhook.get("clientConfig") or {}
        if "service" in config:
            made["clientConfig"] = {**config, "service": {"port": 443, **config["service"]}}
        return made

    def differs(self, new: Object, old: Object) -> bool:
        return bool(new.get("webhooks") != old.get("webhooks"))

    def problems(self, item: Object) -> list[Problem]:
        return [
            problem
            for index, webhook in enumerate(item.get("webhooks") or ())
            for problem in _webhook_problems(webhook, f"webhooks[{index}]")
        ]


class MutatingWebhookRules(WebhookRules):
    defaults: ClassVar[Mapping[str, Any]] = {**WebhookRules.defaults, "reinvocationPolicy": "Never"}


def _webhook_problems(webhook: Object, path: str) -> Iterator[Problem]:
    name = webhook.get("name", "")
    if len(name.split(".")) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid_value(f"{path}.name", name, detail)
    if not webhook.get("sideEffects"):
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    config = webhook.get("clientConfig") or {}
    if ("url" in config) == ("service" in config):
        yield required(f"{path}.clientConfig", "exactly one of url or service is required")
    if not webhook.get("admissionReviewVersions"):
        yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")


class DefinitionRules(Rules):
    """CustomResourceDefinitions. The cluster does the work of their controllers."""

    counts_generation = True
    dies_in_generations = False
    tells_grace = False

    def defaulted(self, item: Object) -> Object:
        return crd.defaulted(item) if isinstance(item.get("spec"), dict) else item

    def created(self, item: Object) -> Object:
        stored = [each["name"] for each in item["spec"].get("versions") or () if each.get("storage")]
        names: Object = {"plural": "", "kind": ""}
        return {**item, "status": {"conditions": None, "acceptedNames": names, "storedVersions": stored}}

    def problems(self, item: Object) -> list[Problem]:
        return crd.problems(item)

    def lingers(self, _item: Object) -> bool:
        return True

    def dying(self, item: Object) -> Object:
        finalizers = item["metadata"].get("finalizers") or []
        if _CLEANUP in finalizers:
            return item
        return {**item, "metadata": {**item["metadata"], "finalizers": [*finalizers, _CLEANUP]}}


_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class APIServiceRules(Rules):
    updates_blindly = False

    def defaulted(self, item: Object) -> Object:
        spec = item.get("spec") or {}
        if "service" in spec:
            item = {**item, "spec": {**spec, "service": {"port": 443, **spec["service"]}}}
        return {**item, "status": item.get("status") or {}}

    def created(self, item: Object) -> Object:
        return {**item, "status": {}}


class SigningRequestRules(Rules):
    """CertificateSigningRequests. No signer runs here."""

    def signed(self, item: Object, user: User, /) -> Object:
        who: Object = {"username": user.name, "groups": list(user.groups)}
        return {**item, "spec": {**(item.get("spec") or {}), **who, **({"uid": user.uid} if user.uid else {})}}

    def created(self, item: Object) -> Object:
        return {**item, "status": {}}

    def updated(self, new: Object, old: Object) -> Object:
        return {**new, "spec": old["spec"]}
