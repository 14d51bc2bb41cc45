"""Pods and pod templates: defaults and validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from fakekube.builtins.rules.rules import Rules
from fakekube.model.refusals import Problem, forbidden_value, invalid_value, required
from fakekube.model.values.names import dns_label
from fakekube.model.values.quantities import canonical_map
from fakekube.model.wire import Object

__all__ = ["PodRules", "defaulted_template", "template_problems", "timed_conditions"]

_GRACE = 30
_MODE = 0o644

_SPEC: Mapping[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": _GRACE,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER: Mapping[str, Any] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Mapping[str, Any] = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PORT: Mapping[str, Any] = {"protocol": "TCP"}
_HTTP: Mapping[str, Any] = {"path": "/", "scheme": "HTTP"}
_FIELD: Mapping[str, Any] = {"apiVersion": "v1"}
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")

# Fields without a meaning while they are false or empty: the server drops them then.
_QUIET = frozenset(
    {"hostIPC", "hostNetwork", "hostPID", "hostname", "nodeName", "nodeSelector", "overhead", "priorityClassName"}
    | {"dnsPolicy", "restartPolicy", "schedulerName", "serviceAccount", "serviceAccountName", "subdomain"}
)
_QUIET_IN_CONTAINERS = frozenset({"imagePullPolicy", "stdin", "stdinOnce", "tty", "workingDir"})

_VOLUMES: Mapping[str, Mapping[str, Any]] = {
    "configMap": {"defaultMode": _MODE},
    "secret": {"defaultMode": _MODE},
    "projected": {"defaultMode": _MODE},
    "downwardAPI": {"defaultMode": _MODE},
    "hostPath": {"type": ""},
}

Part = dict[str, Any]


def defaulted_template(template: Part) -> Part:
    """A pod template with the defaults of its pods; the same template if they are set."""
    return _with(template, {"spec": defaulted_spec})


def defaulted_spec(spec: Part) -> Part:
    """The spec of a pod with its defaults; the same spec if they are set."""
    spec = _filled(_said(spec, _QUIET), _SPEC)
    if "serviceAccountName" in spec and spec.get("serviceAccount") != spec["serviceAccountName"]:
        spec = {**spec, "serviceAccount": spec["serviceAccountName"]}
    elif "serviceAccount" in spec and "serviceAccountName" not in spec:
        spec = {**spec, "serviceAccountName": spec["serviceAccount"]}
    return _with(spec, dict.fromkeys(_CONTAINERS, _each(_container)) | {"volumes": _each(_volume)})


def _container(container: Part) -> Part:
    container = _filled(_said(container, _QUIET_IN_CONTAINERS), _CONTAINER)
    if "imagePullPolicy" not in container:
        container = {**container, "imagePullPolicy": _pull_policy(container.get("image", ""))}
    return _with(
        container,
        {
            "resources": _resources,
            "ports": _each(lambda port: _filled(port, _PORT)),
            "env": _each(_variable),
            "livenessProbe": _probe,
            "readinessProbe": _probe,
            "startupProbe": _probe,
            "lifecycle": lambda hooks: _with(hooks, {"postStart": _handler, "preStop": _handler}),
        },
    )


def _resources(resources: Part) -> Part:
    return _with(resources, {"limits": _amounts, "requests": _amounts})


def _amounts(amounts: Part) -> Part:
    made = canonical_map(amounts)
    return amounts if made == amounts else made


def _pull_policy(image: str) -> str:
    """IfNotPresent for an image with a fixed tag or digest, Always for `latest`."""
    tag = image.rpartition("/")[2]
    return "IfNotPresent" if "@" in tag or (":" in tag and not tag.endswith(":latest")) else "Always"


def _variable(variable: Part) -> Part:
    if variable.get("value") == "":
        variable = {name: value for name, value in variable.items() if name != "value"}
    return _with(variable, {"valueFrom": lambda source: _with(source, {"fieldRef": _field_reference})})


def _field_reference(reference: Part) -> Part:
    return _filled(reference, _FIELD)


def _probe(probe: Part) -> Part:
    return _handler(_filled(probe, _PROBE))


def _handler(handler: Part) -> Part:
    return _with(
        handler, {"httpGet": lambda get: _filled(get, _HTTP), "grpc": lambda call: _filled(call, {"service": ""})}
    )


def _volume(volume: Part) -> Part:
    if volume.keys() == {"name"}:
        return {**volume, "emptyDir": {}}
    volume = _with(volume, _FILLED_VOLUMES)
    return _with(volume, _PARTS_OF_VOLUMES)


def _claim(template: Part) -> Part:
    spec = _filled(template.get("spec") or {}, {"volumeMode": "Filesystem"})
    return _filled({**template, "spec": spec}, {"metadata": {}})


def _source(source: Part) -> Part:
    return _with(source, _PARTS_OF_SOURCES)


def _token(source: Part) -> Part:
    return _filled(source, {"expirationSeconds": 3600})


def _said(value: Part, quiet: frozenset[str]) -> Part:
    unsaid = [name for name in quiet & value.keys() if not value[name]]
    return {name: each for name, each in value.items() if name not in unsaid} if unsaid else value


def _filled(value: Part, wanted: Mapping[str, Any]) -> Part:
    missing = {name: default for name, default in wanted.items() if name not in value}
    return {**value, **missing} if missing else value


def _with(value: Part, changes: Mapping[str, Callable[[Any], Any]]) -> Part:
    """The value with some of its parts changed; the same value if none changes."""
    changed = {
        name: made
        for name, change in changes.items()
        if name in value and (made := change(value[name])) is not value[name]
    }
    return {**value, **changed} if changed else value


def _each(change: Callable[[Part], Part]) -> Callable[[list[Part]], list[Part]]:
    def changed(values: list[Part]) -> list[Part]:
        made = [change(value) for value in values]
        return made if any(one is not other for one, other in zip(made, values, strict=True)) else values

    return changed


def _filling(wanted: Mapping[str, Any]) -> Callable[[Any], Any]:
    return lambda source: _filled(source, wanted)


_FILLED_VOLUMES: Mapping[str, Callable[[Any], Any]] = {kind: _filling(wanted) for kind, wanted in _VOLUMES.items()}
_DOWNWARD: Mapping[str, Callable[[Any], Any]] = {
    "downwardAPI": lambda source: _with(
        source, {"items": _each(lambda item: _with(item, {"fieldRef": _field_reference}))}
    )
}
_PARTS_OF_SOURCES: Mapping[str, Callable[[Any], Any]] = {**_DOWNWARD, "serviceAccountToken": _token}
_PARTS_OF_VOLUMES: Mapping[str, Callable[[Any], Any]] = {
    **_DOWNWARD,
    "ephemeral": lambda source: _with(source, {"volumeClaimTemplate": _claim}),
    "projected": lambda source: _with(source, {"sources": _each(_source)}),
}


def template_problems(spec: Part, path: str) -> Iterator[Problem]:
    """Problems of a pod spec at `path`."""
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for kind in _CONTAINERS[:2]:
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _container_problems(container, f"{path}.{kind}[{index}]")


def _container_problems(container: Part, path: str) -> Iterator[Problem]:
    name = container.get("name")
    if not name:
        yield required(f"{path}.name")
    else:
        yield from (invalid_value(f"{path}.name", name, each) for each in dns_label(name))
    if not container.get("image"):
        yield required(f"{path}.image")


_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
_ADMITTED: Mapping[str, Any] = {
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "enableServiceLinks": True,
}

_CHANGEABLE = frozenset(
    {"containers", "initContainers", "activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}
)
_CHANGEABLE_WHILE_GATED = _CHANGEABLE | {"schedulingGates", "nodeSelector", "affinity"}
_UNCHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodRules(Rules):
    blank: ClassVar[Object] = {"spec": {"containers": []}}
    counts_generation = True
    returns_deleted = True
    fields = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )

    def defaulted(self, item: Object) -> Object:
        spec = defaulted_spec(item.get("spec") or {})
        spec = _with(spec, dict.fromkeys(_CONTAINERS, _each(_requesting)))
        spec = _filled(spec, {"enableServiceLinks": True})
        status = timed_conditions(item.get("status") or {}, "lastProbeTime", "lastTransitionTime")
        return {**item, "spec": spec, "status": status}

    def created(self, item: Object) -> Object:
        spec = _filled(item["spec"], _ADMITTED)
        keys = {each.get("key") for each in spec.get("tolerations") or ()}
        missing = [each for each in _TOLERATIONS if each["key"] not in keys]
        spec = {**spec, "tolerations": [*(spec.get("tolerations") or ()), *missing]}
        status: Object = {"phase": "Pending", "qosClass": _quality(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [{**_GATED, "lastTransitionTime": item["metadata"]["creationTimestamp"]}]
        return {**item, "spec": spec, "status": status}

    def problems(self, item: Object) -> list[Problem]:
        return list(template_problems(item["spec"], "spec"))

    def update_problems(self, new: Object, old: Object) -> list[Problem]:
        before, after = old["spec"], new["spec"]
        changeable = _CHANGEABLE_WHILE_GATED if before.get("schedulingGates") else _CHANGEABLE
        others = (before.keys() | after.keys()) - changeable
        changed = any(before.get(name) != after.get(name) for name in sorted(others))
        if changed or _fixed_parts(before) != _fixed_parts(after):
            return [forbidden_value("spec", _UNCHANGEABLE)]
        return []

    def grace_period(self, item: Object, asked: int | None) -> int | None:
        spec, status = item["spec"], item.get("status") or {}
        grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", _GRACE)
        # No grace period without running containers.
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            grace = 0
        return 1 if grace < 0 else int(grace)


_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def timed_conditions(status: Part, *times: str) -> Part:
    """The status with these time fields in its conditions, null if absent, as typed kinds show them."""

    def timed(condition: Part) -> Part:
        if all(name in condition for name in times) and "" not in condition.values():
            return condition
        told = {name: value for name, value in condition.items() if value != ""}
        return {**dict.fromkeys(times), **told}

    return _with(status, {"conditions": _each(timed)})


def _requesting(container: Part) -> Part:
    """A container whose requests default to its limits."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    missing = {name: amount for name, amount in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def _quality(spec: Part) -> str:
    """The quality of service class, from what the containers request and limit."""
    given = [container.get("resources") or {} for kind in _CONTAINERS[:2] for container in spec.get(kind) or ()]
    if not any(each.get("limits") or each.get("requests") for each in given):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= (each.get("limits") or {}).keys() and each.get("limits") == each.get("requests")
        for each in given
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _fixed_parts(spec: Part) -> list[Part]:
    """The containers without their mutable fields."""
    return [
        {name: value for name, value in container.items() if name != "image"}
        for kind in _CONTAINERS[:2]
        for container in spec.get(kind) or ()
    ]
