"""The LocalQueues and namespaces that a worker lacks of the manager's: which they are, and how they are made.

A copy looks for its LocalQueue under the name and in the namespace that it has on the manager. What is there already stays as
it is, whoever made it; what is made here has `SYNCED_LABEL`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM, Namespace
from multikueue.api.kueue.queues import ClusterQueue, LabelSelector, LocalQueue
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, MultiKueueCluster
from multikueue.errors import ConfigurationError, Forbidden, NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.requests.matching import is_selected
from multikueue.registration.choices import OUR_NAME
from multikueue.registration.plan import LABELS, Right, Wanted
from multikueue.registration.preflight import missing_rights

__all__ = ["SYNCED_LABEL", "LackingQueues", "QueuesOnWorker", "lacking", "look_for_lacking", "refuse_another_cluster"]

SYNCED_LABEL = "multikueue.dev/synced-by"
"""On a namespace or LocalQueue of a worker: the origin of the manager for whose queues it was made."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""What each namespace has without being asked."""

_NAME_IT = "make it, or name the one that takes these jobs with --cluster-queue"
_SELECT_IT = "change its namespaceSelector, or the labels of the namespace"

_MAKE_NAMESPACES = Right("", "namespaces", ("create",), is_namespaced=False)
_MAKE_QUEUES = Right("kueue.x-k8s.io", "localqueues", ("create",))


class QueuesOnWorker(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has. `namespaces` has those that were asked for: None is one that may not be seen, and one that is missing
    has no entry."""

    queues: frozenset[ObjectKey]
    cluster_queues: Mapping[str, ClusterQueue]
    namespaces: Mapping[str, Namespace | None]


class LackingQueues(msgspec.Struct, frozen=True):
    """What has to be made on a worker, in this order; and why a LocalQueue that is missing cannot be."""

    wanted: tuple[Wanted, ...] = ()
    problems: Mapping[ObjectKey, str] = {}


def lacking(
    queues: Sequence[LocalQueue],
    spaces: Mapping[str, Namespace],
    there: QueuesOnWorker,
    *,
    origin: str = OUR_NAME,
    cluster_queue: str = "",
) -> LackingQueues:
    """What a worker lacks of the manager's queues. `spaces`: the manager's namespaces, as far as they are known. A queue leads
    to the ClusterQueue of the same name there, or to `cluster_queue`.

    A new namespace has those labels of the manager's that its ClusterQueues select by, and no others: what a label lets pods
    do there is not for the manager to say.
    """
    missing = sorted((each for each in queues if each.key not in there.queues), key=lambda each: each.key)
    wanted, problems, labels = dict[ObjectKey, Wanted](), dict[ObjectKey, str](), dict[str, dict[str, str]]()
    mark = {**LABELS, SYNCED_LABEL: origin}
    for queue in missing:
        name = cluster_queue or queue.spec.cluster_queue
        shared, space = there.cluster_queues.get(name), queue.metadata.namespace
        if shared is None:
            known = ", ".join(sorted(there.cluster_queues)) or "none"
            problems[queue.key] = f"there is no ClusterQueue {name} (there are: {known}): {_NAME_IT}"
            continue
        own = spaces[space].metadata.labels if space in spaces else {}
        selector = shared.spec.namespace_selector
        chosen = {key: own[key] for key in _keys(selector) if key in own and key != NAME_LABEL}
        is_new, known_space = space not in there.namespaces, there.namespaces.get(space)
        has = chosen if known_space is None else known_space.metadata.labels
        if (is_new or known_space is not None) and not is_selected(selector, {**has, NAME_LABEL: space}):
            problems[queue.key] = f"ClusterQueue {name} there does not select namespace {space}: {_SELECT_IT}"
            continue
        if is_new:
            labels.setdefault(space, {}).update(chosen)
        body = {"metadata": {"name": queue.metadata.name, "namespace": space, "labels": mark}}
        wanted[queue.key] = Wanted(LOCAL_QUEUES, {**body, "spec": {"clusterQueue": name}}, is_shared=True)
    made = (
        Wanted(NAMESPACES, {"metadata": {"name": name, "labels": {**chosen, **mark}}}, is_shared=True)
        for name, chosen in sorted(labels.items())
    )
    return LackingQueues((*made, *wanted.values()), problems)


async def look_for_lacking(
    worker: ClusterClient,
    queues: Sequence[LocalQueue],
    spaces: Mapping[str, Namespace],
    offered: Sequence[str],
    *,
    origin: str = OUR_NAME,
    cluster_queue: str = "",
    advice: str = "",
) -> LackingQueues:
    """What the worker lacks of those queues whose namespaces it offers, without what the caller may not make there: `advice`
    says how they may. Raises ClusterUnreachable and ApiError."""
    queues = [each for each in queues if "" in offered or each.metadata.namespace in offered]
    pages = [await worker.list(LOCAL_QUEUES, namespace=namespace) for namespace in offered] if queues else []
    known = frozenset(each.key for page in pages for each in page.items)
    places = sorted({each.metadata.namespace for each in queues if each.key not in known})
    if not places:
        return LackingQueues()
    shared = {each.metadata.name: each for each in (await worker.list(CLUSTER_QUEUES)).items}
    there = QueuesOnWorker(queues=known, cluster_queues=shared, namespaces=await _namespaces(worker, places))
    found = lacking(queues, spaces, there, origin=origin, cluster_queue=cluster_queue)
    return _allowed(found, await _refused_places(worker, found.wanted), advice)


async def refuse_another_cluster(worker: ClusterClient, cluster: MultiKueueCluster) -> None:
    """Raises ConfigurationError if this way leads to another cluster than the manager's connection did."""
    known = cluster.metadata.annotations.get(CLUSTER_UID_ANNOTATION)
    try:
        uid = (await worker.get(NAMESPACES, KUBE_SYSTEM)).metadata.uid if known else ""
    except (NotFound, Forbidden):
        return
    if known and uid != known:
        name = cluster.metadata.name
        raise ConfigurationError(
            f"your way to {name} leads to another cluster than the manager's: its kube-system has the UID {uid}, not {known}"
        )


def _keys(selector: LabelSelector | None) -> Iterable[str]:
    """The keys of the labels that it looks at."""
    if selector is None:
        return ()
    return dict.fromkeys((*selector.match_labels, *(each.key for each in selector.match_expressions)))


async def _namespaces(worker: ClusterClient, names: Iterable[str]) -> dict[str, Namespace | None]:
    found: dict[str, Namespace | None] = {}
    for name in names:
        try:
            found[name] = await worker.get(NAMESPACES, ObjectKey("", name))
        except Forbidden:
            found[name] = None
        except NotFound:
            continue
    return found


async def _refused_places(worker: ClusterClient, wanted: Iterable[Wanted]) -> dict[str, str]:
    """Why the caller may make nothing in a namespace, by its name."""
    made = {each.key.name for each in wanted if each.kind == NAMESPACES}
    places = sorted({each.key.namespace for each in wanted if each.kind == LOCAL_QUEUES})
    may_not = [
        place.right
        for place, verbs in (await missing_rights(worker, [_MAKE_NAMESPACES] if made else [])).items()
        if verbs
    ]
    refused = dict.fromkeys(made, "you may not create namespaces there") if may_not else {}
    for place, verbs in (await missing_rights(worker, [_MAKE_QUEUES] if places else [], namespaces=places)).items():
        if verbs:
            refused.setdefault(place.namespace, f"you may not create LocalQueues in namespace {place.namespace} there")
    return refused


def _allowed(found: LackingQueues, refused: Mapping[str, str], advice: str) -> LackingQueues:
    """Without what is refused, which is a problem of its queues."""
    problems = {
        each.key: "; ".join(filter(None, (refused[each.key.namespace], advice)))
        for each in found.wanted
        if each.key.namespace in refused
    }
    wanted = (each for each in found.wanted if (each.key.namespace or each.key.name) not in refused)
    return LackingQueues(tuple(wanted), {**found.problems, **problems})
