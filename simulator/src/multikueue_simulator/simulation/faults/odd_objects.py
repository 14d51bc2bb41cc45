"""Objects and answers that a client cannot or would not send through an API server, by name, for adversaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from fakekube.model.wire import Object, Request, Response
from multikueue.api import kinds
from multikueue.api.kueue.workload import (
    ADMITTED,
    ATTEMPT_ANNOTATION,
    ELASTIC_ANNOTATION,
    JOB_UID_LABEL,
    MAX_EXEC_TIME_LABEL,
    ORIGIN_LABEL,
    PREBUILT_LABEL,
    QUOTA_RESERVED,
)
from multikueue.api.meta import ObjectMeta
from multikueue.api.multikueue.strategies import OPTIONS_ANNOTATION, STRATEGY_ANNOTATION
from multikueue.store.caches.placements import PLACEMENT_ANNOTATION
from multikueue_simulator.world import objects

__all__ = [
    "DEEP",
    "DIGITS",
    "EXPONENT",
    "HAND_MADE",
    "KUBECONFIGS",
    "ODD_ANSWERS",
    "ODD_JOBS",
    "PASSWORD",
    "ROGUE",
    "SLANDERS",
    "SPOILED",
    "WRONG_JOBS",
    "copy_marks",
    "deep_copy",
    "idle_job",
    "made_good",
    "meta_of",
    "plain_job",
    "plain_workload",
]

ROGUE = "rogue"
"""The hostile tenant's namespace and queues. Nobody else can use up their quota."""

DIGITS, EXPONENT = "9" * 5000, "1e20000"
LONG = "x" * 32768
YEAR_9999 = "9999-12-31T23:59:59Z"

_DEPTH = 9900
DEEP = msgspec.Raw(b'{"f:a":' * _DEPTH + b"{}" + b"}" * _DEPTH)
"""JSON of the maximum depth that an API server accepts. fakekube's storage never parses it."""


def deep_copy(body: Object) -> Object:
    return dict(msgspec.json.decode(msgspec.json.encode(body)))


def plain_job(name: str) -> Object:
    return objects.job(name, ROGUE, queue=ROGUE, seconds=5.0)


def idle_job(name: str) -> Object:
    """A Job without a queue, which requests no quota yet."""
    body = plain_job(name)
    body["metadata"]["labels"] = {}
    return body


def meta_of(body: Object) -> ObjectMeta:
    metadata = body["metadata"]
    return ObjectMeta(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])


def plain_workload(name: str) -> Object:
    template = plain_job(name)["spec"]["template"]
    spec = {"podSets": [{"name": "main", "count": 1, "template": template}], "queueName": ROGUE}
    kind = kinds.WORKLOADS
    metadata = {"name": name, "namespace": ROGUE}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _container(body: Object) -> Object:
    found: Object = body["spec"]["template"]["spec"]["containers"][0]
    return found


def _asks(quantity: str) -> Callable[[Object], None]:
    def spoil(body: Object) -> None:
        _container(body)["resources"] = {"requests": {"cpu": quantity, "memory": quantity}}

    return spoil


def _deep(body: Object) -> None:
    body["metadata"]["managedFields"] = [DEEP]


def _deep_plain(body: Object) -> None:
    body["metadata"] |= {"managedFields": [DEEP], "labels": {}}


def _deep_template(body: Object) -> None:
    body["spec"]["template"]["spec"]["affinity"] = DEEP


def _many_owners(body: Object) -> None:
    body["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "None", "name": "x" * number, "uid": f"{number}", "controller": True}
        for number in range(1, 50)
    ]


def _all_labels(body: Object) -> None:
    copy_marks(body)
    body["metadata"]["labels"] |= {JOB_UID_LABEL: "none", MAX_EXEC_TIME_LABEL: "-1"}
    body["metadata"]["annotations"] |= {ELASTIC_ANNOTATION: "true"}


def copy_marks(body: Object) -> None:
    metadata = body["metadata"]
    marks = {ORIGIN_LABEL: "multikueue", PREBUILT_LABEL: metadata["name"]}
    metadata["labels"] = (metadata.get("labels") or {}) | marks
    mark = f"{YEAR_9999}/{metadata.get('uid', '')}"
    metadata["annotations"] = (metadata.get("annotations") or {}) | {ATTEMPT_ANNOTATION: mark}


def _strategy(body: Object) -> None:
    body["metadata"]["annotations"] |= {
        STRATEGY_ANNOTATION: "../../etc/passwd",
        OPTIONS_ANNOTATION: "[" * 5000,
        PLACEMENT_ANNOTATION: "/" * 300,
    }


def _large(body: Object) -> None:
    body["metadata"]["annotations"]["example.com/note"] = "x" * 250_000
    _container(body)["env"] = [{"name": f"V{number}", "value": "x" * 7500} for number in range(100)]


def _many(body: Object) -> None:
    body["spec"] |= {"parallelism": 2**31 - 1, "completions": 2**31 - 1}


def _priority(body: Object) -> None:
    body["spec"]["template"]["spec"]["priorityClassName"] = "none" * 50
    body["metadata"]["labels"][MAX_EXEC_TIME_LABEL] = "9" * 5000


ODD_JOBS: Mapping[str, Callable[[Object], None]] = {
    "digits": _asks(DIGITS),
    "exponent": _asks(EXPONENT),
    "tiny": _asks("1e-20000"),
    "negative": _asks(f"-{DIGITS}"),
    "deep": _deep,
    "deep-plain": _deep_plain,
    "deep-template": _deep_template,
    "owners": _many_owners,
    "labels": _all_labels,
    "strategy": _strategy,
    "large": _large,
    "many": _many,
    "priority": _priority,
}

WRONG_JOBS = frozenset({"digits", "exponent", "negative", "deep", "deep-template", "many"})
"""Odd jobs that can never be dispatched, in contrast to the others."""


def _status(body: Object, **status: object) -> None:
    body["status"] = (body.get("status") or {}) | status


def _says(type_: str, status: str = "True", *, message: str = "", at: str = "2026-01-01T00:00:00Z") -> Object:
    return {"type": type_, "status": status, "reason": "Odd", "message": message, "lastTransitionTime": at}


def _ready(body: Object, worker: str) -> None:
    check = {"name": objects.CHECK, "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assigned = {"name": "main", "flavors": {"cpu": objects.FLAVOR}, "resourceUsage": {"cpu": "1"}, "count": 1}
    admission = {"clusterQueue": ROGUE, "podSetAssignments": [assigned]}
    conditions = [_says(QUOTA_RESERVED), _says(ADMITTED)]
    _status(body, clusterName=worker, admissionChecks=[check], admission=admission, conditions=conditions)


def _odd_amounts(body: Object, _worker: str) -> None:
    container = body["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": DIGITS, "memory": EXPONENT}}


HAND_MADE: Mapping[str, Callable[[Object, str], None]] = {
    "winner": lambda body, worker: _status(body, clusterName=worker),
    "nominations": lambda body, worker: _status(body, nominatedClusterNames=["nobody", worker, "x" * 253]),
    "ready": _ready,
    "year": lambda body, _worker: _status(
        body, conditions=[_says("Evicted", at=YEAR_9999), _says("Requeued", "False", at=YEAR_9999)]
    ),
    "long": lambda body, _worker: _status(
        body, conditions=[_says("Evicted", message=LONG), _says("Odd", message=LONG)]
    ),
    "digits": _odd_amounts,
    "deep": lambda body, _worker: _deep(body),
    "copy": lambda body, _worker: copy_marks(body),
}


def _unadmitted(message: str = "", at: str = "2026-01-01T00:00:00Z") -> Callable[[Object], Object]:
    said = [_says(QUOTA_RESERVED, "False", message=message, at=at) | {"reason": "Inadmissible"}]
    return lambda body: {**body, "status": {"conditions": said}}


def _slow_check(body: Object) -> Object:
    check = {"name": "odd", "state": "Pending", "message": LONG, "lastTransitionTime": YEAR_9999}
    return {**body, "status": {"admissionChecks": [check]}}


def _with_quantity(quantity: str) -> Callable[[Object], Object]:
    def spoiled(body: Object) -> Object:
        body = deep_copy(body)
        container = body["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": quantity}}
        return body

    return spoiled


def _wild(body: Object) -> Object:
    far = 2**53
    status = {
        "conditions": [_says(QUOTA_RESERVED, "False") | {"observedGeneration": -far}],
        "reclaimablePods": [{"name": "main", "count": -1}, {"name": "none", "count": 2**31 - 1}],
        "requeueState": {"count": 2**31 - 1, "requeueAt": YEAR_9999},
        "admissionChecks": [],
    }
    return {**body, "status": status}


SLANDERS: Mapping[str, Callable[[Object], Object]] = {
    "long": _unadmitted(message=LONG),
    "year": _unadmitted(at=YEAR_9999),
    "check": _slow_check,
    "digits": _with_quantity(DIGITS),
    "exponent": _with_quantity(EXPONENT),
    "deep": lambda body: {**body, "metadata": body["metadata"] | {"managedFields": [DEEP]}},
    "wild": _wild,
}


def _refusal(message: str, *, code: int, headers: Mapping[str, str] | None = None, after: object = None) -> Response:
    body: Object = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    if after is not None:
        body["details"] = {"retryAfterSeconds": after}
    return Response(status=code, body=msgspec.json.encode(body), headers=headers or {})


def _endless(request: Request) -> Response:
    body = {"kind": "List", "apiVersion": "v1", "metadata": {"continue": "more", "resourceVersion": "1"}, "items": []}
    if request.method != "GET":
        return _refusal("no", code=503)
    return Response(body=msgspec.json.encode(body))


ODD_ANSWERS: Mapping[str, Callable[[Request], Response]] = {
    "endless": _endless,
    "retry": lambda _: _refusal("later", code=429, headers={"Retry-After": "999999999"}),
    "retry-details": lambda _: _refusal("later", code=429, after=1e300),
    "error": lambda _: _refusal("x" * 1_000_000, code=500),
    "deep": lambda _: Response(body=bytes(DEEP)),
    "no-json": lambda _: Response(body=b"\xff<html>"),
    "other": lambda _: Response(body=b'{"items": {"a": [1, null]}, "metadata": []}'),
}


def _quota(body: Object) -> Object:
    body["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = DIGITS
    return body


def _weight(body: Object) -> Object:
    body["spec"]["fairSharing"] = {"weight": "1e400"}
    return body


def _config(body: Object) -> Object:
    body["spec"]["clusters"] = [*body["spec"]["clusters"], "none", "x" * 253, *body["spec"]["clusters"]]
    return body


def _odd_strategy(body: Object) -> Object:
    body["metadata"]["annotations"] = {STRATEGY_ANNOTATION: "none", OPTIONS_ANNOTATION: "[" * 5000}
    return body


def _flavor(body: Object) -> Object:
    body["spec"] = (body.get("spec") or {}) | {"nodeLabels": {f"example.com/{number}": "x" * 63 for number in range(8)}}
    return body


PASSWORD = "hunter2"  # noqa: S105  # of nobody


def _aliases(config: Object) -> bytes:
    """As YAML, unfolded a thousand times as long as it is written."""
    tower = f"a: &a {'x' * 600}\nb: &b [{', '.join(['*a'] * 100)}]\nc: [{', '.join(['*b'] * 10)}]\n"
    return msgspec.yaml.encode(config) + tower.encode()


def _through_proxy(config: Object) -> bytes:
    (cluster,) = config["clusters"]
    cluster["cluster"]["proxy-url"] = f"http://admin:{PASSWORD}@proxy.example.com"
    return msgspec.json.encode(config)


KUBECONFIGS: Mapping[str, tuple[Callable[[Object], bytes], str]] = {
    "aliases": (_aliases, "InsecureKubeConfig"),
    "proxy": (_through_proxy, "ClientConnectionFailed"),
}
"""The kubeconfig made of a good one, and the reason that its MultiKueueCluster is to give for not being Active."""


def made_good(body: Object, whole: Object, part: str, name: str) -> Object:
    """The body with one field of its spec, or with its metadata, replaced by that of the intact body."""
    kept = {key: value for key, value in body[part].items() if key != name}
    good = {name: whole[part][name]} if name in whole[part] else {}
    return {**body, part: kept | good}


SPOILED: Mapping[str, tuple[str, Callable[[Object], Object], tuple[str, str]]] = {
    "quota": ("ClusterQueue", _quota, ("spec", "resourceGroups")),
    "weight": ("ClusterQueue", _weight, ("spec", "fairSharing")),
    "config": ("MultiKueueConfig", _config, ("spec", "clusters")),
    "strategy": ("AdmissionCheck", _odd_strategy, ("metadata", "annotations")),
    "flavor": ("ResourceFlavor", _flavor, ("spec", "nodeLabels")),
}
"""The kind to spoil, the function that spoils it, and the path of the field."""
