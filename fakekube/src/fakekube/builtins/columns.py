"""The columns of built-in kinds in `kubectl get`, as kube-apiserver 1.37 computes them: one file, a table of kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fakekube.model.wire import Json, Object

__all__ = ["BUILT_IN", "NONE", "UNKNOWN", "Cell", "human", "since"]

NONE, UNKNOWN, INVALID = "<none>", "<unknown>", "<invalid>"


@dataclass(frozen=True, slots=True)
class Cell:
    """A column, and the function that computes its cell. Priority 1 is shown with `-o wide` only."""

    name: str
    value: Callable[[Object, datetime], Json]
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


def human(duration: timedelta) -> str:
    """A duration as kubectl prints it: `12s`, `5m13s`, `3h`, `2d4h`, `1y20d`."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return "0s" if seconds >= -1 else INVALID
    # Each row: below how many seconds, the large unit, and the small one if it is shown.
    for below, (size, unit), small in _SCALE:
        if seconds < below:
            return _two(seconds, size, unit, small)
    return f"{seconds // _YEAR}y"


_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY

_SCALE: tuple[tuple[int, tuple[int, str], tuple[int, str] | None], ...] = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def _two(seconds: int, size: int, unit: str, small: tuple[int, str] | None) -> str:
    whole, rest = divmod(seconds, size)
    if small is None or rest < small[0]:
        return f"{whole}{unit}"
    return f"{whole}{unit}{rest // small[0]}{small[1]}"


def since(timestamp: str | None, now: datetime) -> str:
    """The age of a timestamp; `<unknown>` without one."""
    if not timestamp:
        return UNKNOWN
    moment = _time(timestamp)
    return human(now - moment) if moment else INVALID


def _time(timestamp: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(timestamp)
    except (ValueError, TypeError):
        return None
    return moment if moment.tzinfo else None


def _at(*path: str, default: Json = "") -> Callable[[Object, datetime], Json]:
    """The value at a path; the default if it is absent or empty."""

    def value(item: Object, _now: datetime) -> Json:
        found: Any = item
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if found not in (None, "") else default

    return value


def _age_of(*path: str, never: str = UNKNOWN) -> Callable[[Object, datetime], Json]:
    find = _at(*path)

    def value(item: Object, now: datetime) -> Json:
        moment = find(item, now)
        return since(moment, now) if moment else never

    return value


def _amount(*path: str) -> Callable[[Object, datetime], Json]:
    """The number of items at a path."""
    find = _at(*path, default=())
    return lambda item, now: len(find(item, now))


def _joined(*paths: tuple[str, ...]) -> Callable[[Object, datetime], Json]:
    """Numbers as `ready/desired`."""
    finds = [_at(*path, default=0) for path in paths]
    return lambda item, now: "/".join(str(find(item, now)) for find in finds)


NAME = Cell("Name", _at("metadata", "name"), format="name")
AGE = Cell("Age", _age_of("metadata", "creationTimestamp"))
CREATED_AT = Cell("Created At", _at("metadata", "creationTimestamp"), type="date")


def _condition(item: Object, kind: str) -> str:
    conditions = item.get("status", {}).get("conditions") or ()
    return next((c.get("status", "") for c in conditions if c.get("type") == kind), "")


# --- Jobs

_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job_status(job: Object, _now: datetime) -> str:
    for condition, shown in _JOB_STATES:
        holds = _condition(job, condition) == "True" if condition else "deletionTimestamp" in job["metadata"]
        if holds:
            return shown
    return "Running"


def _job_completions(job: Object, _now: datetime) -> str:
    spec, done = job.get("spec", {}), job.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Object, now: datetime) -> str:
    status = job.get("status", {})
    start = _time(status.get("startTime"))
    if start is None:
        return ""
    return human((_time(status.get("completionTime")) or now) - start)


def _containers(*template: str) -> tuple[Cell, Cell]:
    """Names and images of the containers in the pod template at a path."""
    find = _at(*template, "spec", "containers", default=())

    def listing(key: str) -> Callable[[Object, datetime], Json]:
        return lambda item, now: ",".join(container.get(key, "") for container in find(item, now))

    return Cell("Containers", listing("name"), priority=1), Cell("Images", listing("image"), priority=1)


def _selector(*path: str) -> Cell:
    find = _at(*path, default=None)
    return Cell("Selector", lambda item, now: _selector_text(find(item, now)), priority=1)


_OPERATOR_TEXT = {"In": "in", "NotIn": "notin"}


def _selector_text(selector: Mapping[str, Any] | None) -> str:
    if not selector:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    terms += [_expression_text(each) for each in selector.get("matchExpressions") or ()]
    return ",".join(terms) or NONE


def _expression_text(expression: Mapping[str, Any]) -> str:
    key, operator = expression.get("key", ""), expression.get("operator")
    if operator == "Exists":
        return str(key)
    if operator == "DoesNotExist":
        return f"!{key}"
    values = ",".join(sorted(expression.get("values") or ()))
    return f"{key} {_OPERATOR_TEXT.get(str(operator), operator)} ({values})"


def _labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


# --- Pods


def _pod_ready(pod: Object, _now: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    ready = sum(1 for each in statuses if each.get("ready") and "running" in each.get("state", {}))
    return f"{ready}/{len(pod.get('spec', {}).get('containers', ()))}"


def _pod_status(pod: Object, _now: datetime) -> str:
    """The phase, or a more specific status: the reason of a waiting or terminated container, or Terminating."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"] and status.get("phase") not in ("Succeeded", "Failed"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    reason = status.get("reason") or status.get("phase", "")
    if any(c.get("reason") == "SchedulingGated" for c in status.get("conditions") or () if c["type"] == "PodScheduled"):
        reason = "SchedulingGated"
    initializing = _init_status(pod)
    return initializing or _container_status(status, reason)


def _init_status(pod: Object) -> str:
    statuses = pod.get("status", {}).get("initContainerStatuses") or ()
    for number, each in enumerate(statuses):
        state = each.get("state", {})
        ended, waits = state.get("terminated"), state.get("waiting", {}).get("reason", "")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}"
        if waits and waits != "PodInitializing":
            return f"Init:{waits}"
        return f"Init:{number}/{len(pod['spec'].get('initContainers', ()))}"
    return ""


def _container_status(status: Mapping[str, Any], reason: str) -> str:
    failure, runs = "", False
    for each in reversed(status.get("containerStatuses") or ()):
        state = each.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ending(state["terminated"])
            failure = reason if state["terminated"].get("exitCode") else failure
        elif each.get("ready") and "running" in state:
            runs = True
    if reason != "Completed":
        return reason
    if runs and _condition({"status": status}, "Ready") == "True":
        return "Running"
    return failure or ("NotReady" if runs else reason)


def _ending(ended: Mapping[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _pod_restarts(pod: Object, now: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    restarts = sum(each.get("restartCount", 0) for each in statuses)
    ends = [each.get("lastState", {}).get("terminated", {}).get("finishedAt", "") for each in statuses]
    last = max(ends, default="")
    return f"{restarts} ({since(last, now)} ago)" if restarts and last else str(restarts)


def _pod_address(pod: Object, _now: datetime) -> str:
    addresses = pod.get("status", {}).get("podIPs") or ()
    return addresses[0].get("ip", NONE) if addresses else NONE


def _readiness_gates(pod: Object, _now: datetime) -> str:
    gates = pod.get("spec", {}).get("readinessGates") or ()
    met = sum(1 for gate in gates if _condition(pod, gate.get("conditionType", "")) == "True")
    return f"{met}/{len(gates)}" if gates else NONE


# --- Events


def _of_event(event: Object, field: str) -> Json:
    """A field of an Event of the core group, which has another name in events.k8s.io."""
    return event.get(field) or event.get(f"deprecated{field[0].upper()}{field[1:]}")


def _event_first(event: Object, now: datetime) -> str:
    return since(_of_event(event, "firstTimestamp") or event.get("eventTime"), now)


def _event_last(event: Object, now: datetime) -> str:
    if event.get("series"):
        return since(event["series"].get("lastObservedTime"), now)
    last = _of_event(event, "lastTimestamp")
    return since(last, now) if last else _event_first(event, now)


def _event_count(event: Object, _now: datetime) -> int:
    if event.get("series"):
        return int(event["series"].get("count", 0))
    return _of_event(event, "count") or 1


def _event_target(event: Object) -> Mapping[str, Any]:
    return event.get("involvedObject") or event.get("regarding") or {}


def _event_object(event: Object, _now: datetime) -> str:
    target = _event_target(event)
    return "/".join(part for part in (target.get("kind", "").lower(), target.get("name", "")) if part)


def _event_source(event: Object, _now: datetime) -> str:
    source = _of_event(event, "source") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(part for part in (component, instance) if part)


_EVENT = (
    Cell("Last Seen", _event_last),
    Cell("Type", _at("type")),
    Cell("Reason", _at("reason")),
    Cell("Object", _event_object),
    Cell("Subobject", lambda event, _now: _event_target(event).get("fieldPath", ""), priority=1),
    Cell("Source", _event_source, priority=1),
    Cell("Message", lambda event, _now: (event.get("message") or event.get("note") or "").strip()),
    Cell("First Seen", _event_first, priority=1),
    Cell("Count", _event_count, priority=1),
    Cell("Name", NAME.value, format="name", priority=1),
)


# --- Nodes, services, roles


def _node_status(node: Object, _now: datetime) -> str:
    ready = _condition(node, "Ready")
    words = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    return ",".join([*words, *(["SchedulingDisabled"] if node.get("spec", {}).get("unschedulable") else [])])


def _node_roles(node: Object, _now: datetime) -> str:
    prefix, labels = "node-role.kubernetes.io/", node["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role" and value}
    return ",".join(sorted(roles)) or NONE


def _node_kernel(node: Object, _now: datetime) -> str:
    told = (node.get("status") or {}).get("nodeInfo") or {}
    kernel, architecture = told.get("kernelVersion") or UNKNOWN, told.get("architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _node_address(kind: str) -> Callable[[Object, datetime], Json]:
    find = _at("status", "addresses", default=())
    return lambda node, now: next((a.get("address", "") for a in find(node, now) if a.get("type") == kind), NONE)


def _service_address(service: Object, _now: datetime) -> str:
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    return ",".join(spec.get("externalIPs") or ()) or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)


def _service_ports(service: Object, _now: datetime) -> str:
    return ",".join(_port(each) for each in service.get("spec", {}).get("ports") or ()) or NONE


def _port(port: Mapping[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def _cluster_address(service: Object, _now: datetime) -> str:
    spec = service.get("spec", {})
    return next(iter(spec.get("clusterIPs") or ()), "") or spec.get("clusterIP") or NONE


def _subjects(kind: str) -> Callable[[Object, datetime], Json]:
    def value(binding: Object, _now: datetime) -> Json:
        subjects: Iterable[Mapping[str, Any]] = binding.get("subjects") or ()
        return ", ".join(
            f"{each.get('namespace', '')}/{each['name']}" if kind == "ServiceAccount" else each["name"]
            for each in subjects
            if each.get("kind") == kind
        )

    return value


_BINDING = (
    NAME,
    Cell("Role", lambda item, _now: "{kind}/{name}".format_map(item["roleRef"])),
    AGE,
    Cell("Users", _subjects("User"), priority=1),
    Cell("Groups", _subjects("Group"), priority=1),
    Cell("ServiceAccounts", _subjects("ServiceAccount"), priority=1),
)


def _endpoints(endpoints: Object, _now: datetime) -> str:
    subsets: Iterable[Mapping[str, Any]] = endpoints.get("subsets") or ()
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in subsets
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or NONE


def _api_service(item: Object, _now: datetime) -> str:
    service = item.get("spec", {}).get("service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def _api_available(item: Object, _now: datetime) -> str:
    conditions = item.get("status", {}).get("conditions") or ()
    found = next((each for each in conditions if each.get("type") == "Available"), None)
    if found is None:
        return "Unknown"
    return "True" if found.get("status") == "True" else f"{found.get('status')} ({found.get('reason')})"


def _signing_state(request: Object, _now: datetime) -> str:
    types = {each.get("type") for each in request.get("status", {}).get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    issued = ",Issued" if request.get("status", {}).get("certificate") else ""
    return f"{state}{',Failed' if 'Failed' in types else ''}{issued}"


def _signing_duration(request: Object, _now: datetime) -> str:
    seconds = request.get("spec", {}).get("expirationSeconds")
    return NONE if seconds is None else human(timedelta(seconds=seconds))


def _quota(limits: bool) -> Callable[[Object, datetime], Json]:
    def value(quota: Object, _now: datetime) -> Json:
        status = quota.get("status", {})
        used, hard = status.get("used") or {}, status.get("hard") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return value


def _replicated(*, selector: bool = True) -> tuple[Cell, ...]:
    return (*_containers("spec", "template"), *([_selector("spec", "selector")] if selector else []))


def _number(*path: str) -> Callable[[Object, datetime], Json]:
    return _at(*path, default=0)


BUILT_IN: Mapping[str, tuple[Cell, ...]] = {
    "jobs.batch": (
        NAME,
        Cell("Status", _job_status),
        Cell("Completions", _job_completions),
        Cell("Duration", _job_duration),
        AGE,
        *_replicated(),
    ),
    "cronjobs.batch": (
        NAME,
        Cell("Schedule", _at("spec", "schedule")),
        Cell("Timezone", _at("spec", "timeZone", default=NONE)),
        Cell("Suspend", lambda item, _now: str(item.get("spec", {}).get("suspend", "<unset>")), type="boolean"),
        Cell("Active", _amount("status", "active"), type="integer"),
        Cell("Last Schedule", _age_of("status", "lastScheduleTime", never=NONE)),
        AGE,
        *_containers("spec", "jobTemplate", "spec", "template"),
        _selector("spec", "jobTemplate", "spec", "selector"),
    ),
    "pods.": (
        NAME,
        Cell("Ready", _pod_ready),
        Cell("Status", _pod_status),
        Cell("Restarts", _pod_restarts),
        AGE,
        Cell("IP", _pod_address, priority=1),
        Cell("Node", _at("spec", "nodeName", default=NONE), priority=1),
        Cell("Nominated Node", _at("status", "nominatedNodeName", default=NONE), priority=1),
        Cell("Readiness Gates", _readiness_gates, priority=1),
    ),
    "namespaces.": (NAME, Cell("Status", _at("status", "phase")), AGE),
    "secrets.": (NAME, Cell("Type", _at("type")), Cell("Data", _amount("data")), AGE),
    "configmaps.": (
        NAME,
        Cell("Data", lambda item, _now: len(item.get("data") or ()) + len(item.get("binaryData") or ())),
        AGE,
    ),
    "serviceaccounts.": (NAME, AGE),
    "events.": _EVENT,
    "nodes.": (
        NAME,
        Cell("Status", _node_status),
        Cell("Roles", _node_roles),
        AGE,
        Cell("Version", _at("status", "nodeInfo", "kubeletVersion")),
        Cell("Internal-IP", _node_address("InternalIP"), priority=1),
        Cell("External-IP", _node_address("ExternalIP"), priority=1),
        Cell("OS-Image", _at("status", "nodeInfo", "osImage", default=UNKNOWN), priority=1),
        Cell("Kernel-Version", _node_kernel, priority=1),
        Cell("Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN), priority=1),
    ),
    "services.": (
        NAME,
        Cell("Type", _at("spec", "type")),
        Cell("Cluster-IP", _cluster_address),
        Cell("External-IP", _service_address),
        Cell("Port(s)", _service_ports),
        AGE,
        Cell("Selector", lambda item, _now: _labels_text(item.get("spec", {}).get("selector")), priority=1),
    ),
    "resourcequotas.": (NAME, Cell("Request", _quota(False)), Cell("Limit", _quota(True)), AGE),
    "podtemplates.": (
        NAME,
        *(Cell(cell.name, cell.value) for cell in _containers("template")),
        Cell("Pod Labels", lambda item, _now: _labels_text(item.get("template", {}).get("metadata", {}).get("labels"))),
    ),
    "deployments.apps": (
        NAME,
        Cell("Ready", _joined(("status", "readyReplicas"), ("spec", "replicas"))),
        Cell("Up-to-date", _number("status", "updatedReplicas")),
        Cell("Available", _number("status", "availableReplicas")),
        AGE,
        *_replicated(),
    ),
    "replicasets.apps": (
        NAME,
        Cell("Desired", _number("spec", "replicas"), type="integer"),
        Cell("Current", _number("status", "replicas"), type="integer"),
        Cell("Ready", _number("status", "readyReplicas"), type="integer"),
        AGE,
        *_replicated(),
    ),
    "statefulsets.apps": (
        NAME,
        Cell("Ready", _joined(("status", "readyReplicas"), ("spec", "replicas"))),
        AGE,
        *_replicated(selector=False),
    ),
    "leases.coordination.k8s.io": (NAME, Cell("Holder", _at("spec", "holderIdentity")), AGE),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Cell("Value", _number("value"), type="integer"),
        Cell("Global-Default", lambda item, _now: bool(item.get("globalDefault")), type="boolean"),
        AGE,
        Cell("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        NAME,
        Cell("Webhooks", _amount("webhooks"), type="integer"),
        AGE,
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        NAME,
        Cell("Webhooks", _amount("webhooks"), type="integer"),
        AGE,
    ),
    "endpoints.": (NAME, Cell("Endpoints", _endpoints), AGE),
    "apiservices.apiregistration.k8s.io": (
        NAME,
        Cell("Service", _api_service),
        Cell("Available", _api_available),
        AGE,
    ),
    "certificatesigningrequests.certificates.k8s.io": (
        NAME,
        AGE,
        Cell("SignerName", _at("spec", "signerName")),
        Cell("Requestor", _at("spec", "username")),
        Cell("RequestedDuration", _signing_duration),
        Cell("Condition", _signing_state),
    ),
    "runtimeclasses.node.k8s.io": (NAME, Cell("Handler", _at("handler")), AGE),
}
"""By `Resource.storage`. Other kinds show name and age, as in the real server."""
