"""The visibility API: pending workloads, their positions (quota-engine 5.5), and the reasons. Paths in, documents out.

It is served behind the API server's aggregation layer, with the discovery documents that the aggregation layer
requests: pending workloads as Kueue serves them (group `visibility.kueue.x-k8s.io`, versions v1beta2 and v1beta1), and
our own group `visibility.multikueue.dev/v1alpha1`. There `namespaces/N/workloads/W/explanation` says why a workload
waits, and `namespaces/N/answers` the same in short of all that wait there (`web.answers`); `pods` and `events` list the
relatives of a workload on its worker (`web.relatives`), and `log` streams the log of a pod. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from multikueue.api.meta import Object, ObjectKey, OwnerReference, render_time
from multikueue.quota.queueing.pending_workload import PendingWorkload

GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
SUBRESOURCE = "pendingworkloads"
SUMMARY = "PendingWorkloadsSummary"

EXPLANATIONS = "visibility.multikueue.dev"
EXPLANATIONS_VERSION = "v1alpha1"
EXPLANATION, PODS, EVENTS, LOG, ANSWERS = "explanation", "pods", "events", "log", "answers"

SERVED = (*((GROUP, version) for version in VERSIONS), (EXPLANATIONS, EXPLANATIONS_VERSION))
"""The groups and versions; each is registered by an APIService."""

LIMIT = 1000
"""Workloads in one answer, unless the request has a limit."""

MOST = 5000
"""Maximum workloads in one answer, whatever the request's limit: the event loop waits while the answer is made."""

_LARGEST = 2**63 - 1

_DNS_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?").fullmatch

Lines = Callable[[str], Iterable[PendingWorkload] | None]
"""The pending workloads of a ClusterQueue, in queue order; None if there is no such ClusterQueue."""

Places = Callable[[str, ObjectKey], Iterable[tuple[PendingWorkload, int]]]
"""Those of a ClusterQueue that wait in a LocalQueue, in queue order, each with its place in the ClusterQueue, from 0 on."""

Routes = Callable[[ObjectKey], str | None]
"""The ClusterQueue behind a LocalQueue; None if there is no such LocalQueue."""


RETRY_AFTER = 1
"""Seconds after which a client refused with 429 may ask again."""


class Refused(Exception):
    """The request is refused, with the code, reason and message of a Kubernetes Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the groups, versions and resources served; `document` is the answer."""

    path: str
    document: Mapping[str, Any]


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A request for at most `limit` pending workloads, from `offset` on, of a ClusterQueue or LocalQueue."""

    version: str
    name: str
    namespace: str = ""
    offset: int = 0
    limit: int = LIMIT

    group = GROUP
    subresource = SUBRESOURCE

    @property
    def resource(self) -> str:
        return "localqueues" if self.namespace else "clusterqueues"


class Explain(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the reasons why a workload waits."""

    namespace: str
    name: str

    group = EXPLANATIONS
    version = EXPLANATIONS_VERSION
    resource = "workloads"
    subresource = EXPLANATION

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the answers of the workloads of a namespace that wait."""

    namespace: str

    name = ""
    group = EXPLANATIONS
    version = EXPLANATIONS_VERSION
    resource = ANSWERS
    subresource = ""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the pods or events of a workload on its worker: `subresource` is the plural of their kind.

    The user also needs the right to `list` them in that namespace of the manager cluster, as if they were there.
    """

    namespace: str
    name: str
    subresource: str

    group = EXPLANATIONS
    version = EXPLANATIONS_VERSION
    resource = "workloads"

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class PodLog(msgspec.Struct, frozen=True, kw_only=True):
    """A request for the log of a pod of the workload; `query` has the parameters for the worker's API server.

    The user also needs the right to `get` `pods/log` in that namespace of the manager cluster.
    """

    namespace: str
    name: str
    pod: str
    query: tuple[tuple[str, str], ...] = ()

    group = EXPLANATIONS
    version = EXPLANATIONS_VERSION
    resource = "workloads"
    subresource = LOG

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


VisibilityRequest = Discovery | Pending | Explain | Answers | Look | PodLog

_RELATIVES = {PODS: "WorkloadPods", EVENTS: "WorkloadEvents"}
"""The readable collections on the worker: plural, and kind of the answer."""


def parse_request(path: str, query: Mapping[str, str]) -> VisibilityRequest:
    """The request in a GET. `path` is decoded. Raises Refused: 404 for an unknown path, 400 for a bad parameter."""
    document = _DOCUMENTS.get(path.rstrip("/"))
    if document is not None:
        return Discovery(path=path, document=document)
    match path.split("/"):
        case ["", "apis", group, version, *rest] if group == GROUP and version in VERSIONS:
            match rest:
                case ["clusterqueues", name, sub] if name and sub == SUBRESOURCE:
                    return _pending(version, name, "", query)
                case ["namespaces", namespace, "localqueues", name, sub] if namespace and name and sub == SUBRESOURCE:
                    return _pending(version, name, namespace, query)
        case ["", "apis", group, version, "namespaces", namespace, sub] if (group, version, sub) == (
            EXPLANATIONS,
            EXPLANATIONS_VERSION,
            ANSWERS,
        ) and namespace:
            return Answers(namespace=namespace)
        case ["", "apis", group, version, "namespaces", namespace, "workloads", name, sub] if (
            (group, version) == (EXPLANATIONS, EXPLANATIONS_VERSION) and namespace and name
        ):
            if sub == EXPLANATION:
                return Explain(namespace=namespace, name=name)
            if sub in _RELATIVES:
                return Look(namespace=namespace, name=name, subresource=sub)
            if sub == LOG:
                return _log(namespace, name, query)
    raise Refused(404, "NotFound", "the server could not find the requested resource")


def _pending(version: str, name: str, namespace: str, query: Mapping[str, str]) -> Pending:
    offset, limit = _number(query, "offset"), _number(query, "limit")
    return Pending(version=version, name=name, namespace=namespace, offset=offset, limit=min(limit or LIMIT, MOST))


def _log(namespace: str, name: str, query: Mapping[str, str]) -> PodLog:
    pod = _dns_name(query, "pod")
    if not pod:
        raise Refused(400, "BadRequest", "query parameter pod: expected the name of a pod")
    parameters = {"container": _dns_name(query, "container")}
    parameters |= {each: str(_number(query, each)) for each in ("tailLines", "sinceSeconds") if query.get(each)}
    parameters |= {each: "true" if _flag(query, each) else "" for each in ("follow", "previous", "timestamps")}
    return PodLog(
        namespace=namespace, name=name, pod=pod, query=tuple((each, text) for each, text in parameters.items() if text)
    )


def _dns_name(query: Mapping[str, str], name: str) -> str:
    """A valid DNS name, or an empty one: it becomes a part of a path. Raises Refused (400)."""
    text = query.get(name, "")
    if text and not _DNS_NAME(text):
        raise Refused(400, "BadRequest", f"query parameter {name}: expected the name of a {name}, got {text!r:.300}")
    return text


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "")
    if text not in ("", "true", "false"):
        raise Refused(400, "BadRequest", f"query parameter {name}: expected true or false, got {text!r:.300}")
    return text == "true"


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "") or "0"
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not 0 <= number <= _LARGEST:
        raise Refused(400, "BadRequest", f"query parameter {name}: expected a whole number of 0 or more, got {text!r}")
    return number


def pending_summary(request: Pending, *, lines: Lines, places: Places, routes: Routes) -> dict[str, Any]:
    """The PendingWorkloadsSummary. Raises Refused (404) if there is no such queue."""
    cluster_queue = routes(ObjectKey(request.namespace, request.name)) if request.namespace else request.name
    line = lines(cluster_queue) if cluster_queue is not None else ()
    if line is None or cluster_queue is None:
        kind = request.resource.removesuffix("s")
        raise Refused(404, "NotFound", f'{kind}.{GROUP} "{request.name}" not found')
    found = (
        _local_places(places(cluster_queue, ObjectKey(request.namespace, request.name)))
        if request.namespace
        else _places(line)
    )
    shown = islice(islice(found, request.offset, None), request.limit)
    return {
        "kind": SUMMARY,
        "apiVersion": f"{GROUP}/{request.version}",
        "metadata": {},
        "items": [_item(*place) for place in shown],
    }


def relatives(request: Look, cluster: str, items: Sequence[Object], unseen: Sequence[str]) -> dict[str, Any]:
    """The objects found on the worker `cluster` (empty: on none); `unseen`: why some may be missing."""
    return {
        "kind": _RELATIVES[request.subresource],
        "apiVersion": f"{EXPLANATIONS}/{EXPLANATIONS_VERSION}",
        "metadata": {"name": request.name, "namespace": request.namespace},
        **({"cluster": cluster} if cluster else {}),
        "items": items,
        **({"unseen": list(unseen)} if unseen else {}),
    }


def _places(line: Iterable[PendingWorkload]) -> Iterator[tuple[PendingWorkload, int, int]]:
    """Each pending workload with its positions in the ClusterQueue and in its LocalQueue, from 0 on."""
    before: dict[ObjectKey, int] = {}
    for place, waiting in enumerate(line):
        local_place = before.get(waiting.local_queue, 0)
        before[waiting.local_queue] = local_place + 1
        yield waiting, place, local_place


def _local_places(own: Iterable[tuple[PendingWorkload, int]]) -> Iterator[tuple[PendingWorkload, int, int]]:
    return ((waiting, place, local_place) for local_place, (waiting, place) in enumerate(own))


def _item(waiting: PendingWorkload, place: int, local_place: int) -> dict[str, Any]:
    meta = waiting.workload.metadata
    created = meta.creation_timestamp
    return {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "creationTimestamp": render_time(created) if created else None,
            **(
                {"ownerReferences": [_owner(owner) for owner in meta.owner_references]} if meta.owner_references else {}
            ),
        },
        "priority": waiting.spec.priority,
        "localQueueName": waiting.spec.queue_name,
        "positionInClusterQueue": place,
        "positionInLocalQueue": local_place,
    }


def _owner(owner: OwnerReference) -> dict[str, str]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def status(refused: Refused) -> dict[str, Any]:
    """The Kubernetes Status of a refusal."""
    details = {"details": {"retryAfterSeconds": RETRY_AFTER}} if refused.code == 429 else {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refused.message,
        "reason": refused.reason,
        "code": refused.code,
        **details,
    }


# Discovery documents.


def _resources(group: str, version: str, *resources: dict[str, Any]) -> dict[str, Any]:
    served = {"groupVersion": f"{group}/{version}", "resources": list(resources)}
    return {"kind": "APIResourceList", "apiVersion": "v1", **served}


def _resource(name: str, singular: str, kind: str, *, is_namespaced: bool, verbs: list[str]) -> dict[str, Any]:
    return {"name": name, "singularName": singular, "kind": kind, "namespaced": is_namespaced, "verbs": verbs}


# Resources without verbs are listed because their subresources need one; they cannot be requested.
_LINES = (
    _resource("clusterqueues", "clusterqueue", SUMMARY, is_namespaced=False, verbs=[]),
    _resource(f"clusterqueues/{SUBRESOURCE}", "", SUMMARY, is_namespaced=False, verbs=["get"]),
    _resource("localqueues", "localqueue", SUMMARY, is_namespaced=True, verbs=[]),
    _resource(f"localqueues/{SUBRESOURCE}", "", SUMMARY, is_namespaced=True, verbs=["get"]),
)
_OF_WORKLOADS = (
    _resource("workloads", "workload", "WorkloadExplanation", is_namespaced=True, verbs=[]),
    _resource(f"workloads/{EXPLANATION}", "", "WorkloadExplanation", is_namespaced=True, verbs=["get"]),
    *(
        _resource(f"workloads/{plural}", "", kind, is_namespaced=True, verbs=["get"])
        for plural, kind in _RELATIVES.items()
    ),
    _resource(f"workloads/{LOG}", "", "WorkloadLog", is_namespaced=True, verbs=["get"]),
    _resource(ANSWERS, "answer", "WorkloadAnswer", is_namespaced=True, verbs=["list"]),
)


def _group(name: str, *versions: str) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


_GROUPS = (_group(GROUP, *VERSIONS), _group(EXPLANATIONS, EXPLANATIONS_VERSION))

_DOCUMENTS: Mapping[str, Mapping[str, Any]] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(_GROUPS)},
    **{f"/apis/{group['name']}": {"kind": "APIGroup", "apiVersion": "v1", **group} for group in _GROUPS},
    **{f"/apis/{GROUP}/{version}": _resources(GROUP, version, *_LINES) for version in VERSIONS},
    f"/apis/{EXPLANATIONS}/{EXPLANATIONS_VERSION}": _resources(EXPLANATIONS, EXPLANATIONS_VERSION, *_OF_WORKLOADS),
}
