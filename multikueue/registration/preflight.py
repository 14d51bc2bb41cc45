"""The check of a worker: whether it answers, serves the kinds, grants the rights and has the queues.

All requests use the credential that the manager will use (contract CX-51, CX-52).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import anyio
import msgspec

from multikueue.answers.findings import Finding, Level
from multikueue.api.kind import Kind
from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CONFIGS, PODS, WORKLOADS
from multikueue.api.kueue.admission_checks import ACTIVE, CONTROLLER_NAME, AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.api.multikueue.clusters import MultiKueueConfig, clusters_of
from multikueue.errors import ApiError, Forbidden, MultiKueueError, NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import Definitions, definitions, lost
from multikueue.registration.ownership import ask
from multikueue.registration.plan import IDENTITY, JOB_KINDS, OPTIONAL_KINDS, RIGHTS, Right, copy_rights
from multikueue.store.workers.watch_scope import EVERYWHERE

__all__ = ["Routes", "missing_rights", "preflight", "routes"]

AT_ONCE = 8
"""Concurrent requests: each needs a connection, and new ones are expensive."""

_KUEUE = (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES)
_FURTHER = tuple(kind for kind in OPTIONAL_KINDS if kind != PODS)
"""Without Pods, which every worker serves and few run as jobs."""
_NOT_THERE = "jobs of this kind cannot go there"
_AGAIN = "register the cluster again"


class Place(msgspec.Struct, frozen=True):
    """A right and its namespace; empty: all namespaces."""

    right: Right
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.right} in {self.namespace}" if self.namespace else str(self.right)


async def preflight(
    worker: ClusterClient,
    queues: Sequence[ObjectKey] = (),
    declared: Sequence[Kind[Any]] = (),
    *,
    namespaces: Sequence[str] = EVERYWHERE,
    ours: Definitions | None = None,
) -> tuple[Finding, ...]:
    """Everything the manager needs of a worker, one finding each; `queues` are the LocalQueues that must be there, `declared`
    the kinds of jobs that somebody declared to the manager, `namespaces` those that the worker offers, `ours` Kueue's
    definitions on the manager cluster, if they are known.

    Raises ClusterUnreachable and Unauthorized: nothing can be checked then.
    """
    version = (await ask(worker, "GET", "/version"))["gitVersion"]
    served = await _served(worker, (*_KUEUE, *JOB_KINDS, *_FURTHER, *declared))
    reached = Finding("ok", "API server", f"reached, version {version}")
    return (
        reached,
        *(_kind(kind, served, "failed", "install Kueue 0.16 or newer there") for kind in _KUEUE),
        *_skew(ours, await definitions(worker)),
        *(_kind(kind, served, "warning", _NOT_THERE) for kind in JOB_KINDS),
        *await _rights(worker, namespaces),
        await _identity(worker),
        *_offered(namespaces, queues),
        *await _further(worker, [kind for kind in _FURTHER if _is_served(kind, served)], served, _AGAIN, namespaces),
        *await _further(worker, declared, served, f"{_AGAIN} with --run-kind {{}}", namespaces),
        *await _queues(worker, queues, namespaces),
    )


async def missing_rights(
    client: ClusterClient, rights: Iterable[Right] = RIGHTS, *, namespaces: Sequence[str] = EVERYWHERE
) -> dict[Place, tuple[str, ...]]:
    """The missing verbs, by right and namespace. Rights that are granted in full are included, without verbs."""
    granted: dict[tuple[Place, str], bool] = {}
    errors: list[MultiKueueError] = []
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def look(place: Place, verb: str) -> None:
        try:
            async with limit:
                granted[place, verb] = await _is_allowed(client, place, verb)
        except MultiKueueError as error:
            errors.append(error)

    wanted = tuple(
        Place(right, where) for right in rights for where in (namespaces if right.is_namespaced else EVERYWHERE)
    )
    async with anyio.create_task_group() as tasks:
        for place in wanted:
            for verb in place.right.verbs:
                tasks.start_soon(look, place, verb)
    if errors:
        raise errors[0]
    return {place: tuple(verb for verb in place.right.verbs if not granted[place, verb]) for place in wanted}


class Routes(msgspec.Struct, frozen=True, kw_only=True):
    """The manager's queues, checks and configs: which LocalQueues lead to which cluster."""

    local_queues: Sequence[LocalQueue]
    cluster_queues: Sequence[ClusterQueue]
    checks: Sequence[AdmissionCheck]
    configs: Sequence[MultiKueueConfig]

    def configs_with(self, cluster: str) -> tuple[str, ...]:
        """The names of the MultiKueueConfigs that name the cluster."""
        return tuple(config.metadata.name for config in self.configs if cluster in clusters_of(config))

    def queues_to(self, cluster: str) -> tuple[ObjectKey, ...]:
        """The LocalQueues whose jobs may go to the cluster: LocalQueue, ClusterQueue, check, config, cluster."""
        naming = self.configs_with(cluster)
        checks = {check.metadata.name for check in self.checks if _is_configured_by(check, naming)}
        feeding = {queue.metadata.name for queue in self.cluster_queues if checks & _checks_of(queue)}
        return tuple(sorted(queue.key for queue in self.local_queues if queue.spec.cluster_queue in feeding))

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return next((each for each in self.cluster_queues if each.metadata.name == name), None)

    def behind(self, queue: ObjectKey) -> ClusterQueue | None:
        """The ClusterQueue that a LocalQueue leads to; None if either is missing."""
        local = next((each for each in self.local_queues if each.key == queue), None)
        return self.cluster_queue(local.spec.cluster_queue) if local is not None else None

    def check_of(self, queue: ClusterQueue) -> AdmissionCheck | None:
        """The MultiKueue check of a ClusterQueue."""
        checks = {check.metadata.name: check for check in self.checks}
        rules = queue.spec.admission_checks_strategy.admission_checks
        found = (checks[rule.name] for rule in rules if rule.name in checks)
        return next((each for each in found if each.spec.controller_name == CONTROLLER_NAME), None)

    def clusters_of(self, queue: ClusterQueue) -> tuple[str, ...] | None:
        """The clusters that the jobs of a ClusterQueue may go to; None if it has no MultiKueue check."""
        check = self.check_of(queue)
        if check is None:
            return None
        named = (clusters_of(each) for each in self.configs if _is_configured_by(check, (each.metadata.name,)))
        return next(named, ())


async def routes(manager: ClusterClient) -> Routes:
    """As the manager cluster has them now."""
    return Routes(
        local_queues=(await manager.list(LOCAL_QUEUES)).items,
        cluster_queues=(await manager.list(CLUSTER_QUEUES)).items,
        checks=(await manager.list(ADMISSION_CHECKS)).items,
        configs=(await manager.list(MULTIKUEUE_CONFIGS)).items,
    )


def _is_configured_by(check: AdmissionCheck, configs: Collection[str]) -> bool:
    parameters = check.spec.parameters
    return check.spec.controller_name == CONTROLLER_NAME and parameters is not None and parameters.name in configs


def _checks_of(queue: ClusterQueue) -> set[str]:
    return {rule.name for rule in queue.spec.admission_checks_strategy.admission_checks}


_Served = Mapping[str, Collection[str]]
"""The plurals of the kinds that a worker serves, by API version."""


async def _served(worker: ClusterClient, kinds: Iterable[Kind[Any]]) -> _Served:
    groups = {kind.api_version: kind.path().rpartition("/")[0] for kind in kinds}
    return {version: await _resources(worker, path) for version, path in groups.items()}


def _is_served(kind: Kind[Any], served: _Served) -> bool:
    return kind.plural in served[kind.api_version]


def _kind(kind: Kind[Any], served: _Served, otherwise: Level, advice: str) -> Finding:
    if _is_served(kind, served):
        return Finding("ok", f"kind {kind.kind}", f"served as {kind.api_version}")
    return Finding(otherwise, f"kind {kind.kind}", f"{kind.api_version} is not served", repair=advice)


def _skew(ours: Definitions | None, theirs: Definitions | None) -> list[Finding]:
    """Of which Kueue its definitions are, and what of the manager's they lack: a copy would come without it."""
    if theirs is None:
        return []
    subject, there = "Kueue's definitions", f"as of Kueue {theirs.release}, served as {', '.join(theirs.versions)}"
    if ours is None or ours == theirs:
        return [Finding("ok", subject, there)]
    lacks = [f"a copy there is without {', '.join(unknown)}"] if (unknown := lost(ours, theirs)) else []
    lacks += [f"has at most {theirs.pod_sets} pod sets, not {ours.pod_sets}"] if theirs.pod_sets < ours.pod_sets else []
    detail = "; ".join([f"{there}; the manager's are as of {ours.release}", *lacks])
    return [Finding("warning" if lacks else "ok", subject, detail)]


async def _resources(worker: ClusterClient, path: str) -> set[str]:
    try:
        return {resource["name"] for resource in (await ask(worker, "GET", path))["resources"]}
    except NotFound:
        return set()


async def _rights(worker: ClusterClient, namespaces: Sequence[str]) -> list[Finding]:
    missing = await missing_rights(worker, namespaces=namespaces)
    return [
        Finding("failed", f"rights on {place}", f"lacks {', '.join(lacking)}", repair=_AGAIN)
        if lacking
        else Finding("ok", f"rights on {place}", ", ".join(place.right.verbs))
        for place, lacking in missing.items()
    ]


async def _identity(worker: ClusterClient) -> Finding:
    if any((await missing_rights(worker, [IDENTITY])).values()):
        why = "cannot be read, so nobody sees if two names lead to this cluster, or one leads elsewhere"
        return Finding("warning", "identity", f"namespace {IDENTITY.name} {why}", repair=_AGAIN)
    return Finding("ok", "identity", f"namespace {IDENTITY.name} may be read")


def _offered(namespaces: Sequence[str], queues: Sequence[ObjectKey]) -> list[Finding]:
    if "" in namespaces:
        return []
    names = ", ".join(namespaces) or "none"
    if any(queue.namespace in namespaces for queue in queues) or (namespaces and not queues):
        return [Finding("ok", "namespaces", f"offers {names}")]
    why = "no LocalQueue that leads to it is in one of them, so nothing is sent there"
    return [Finding("warning", "namespaces", f"offers {names}: {why}")]


async def _further(
    worker: ClusterClient, kinds: Sequence[Kind[Any]], served: _Served, advice: str, namespaces: Sequence[str]
) -> list[Finding]:
    """Findings for kinds of jobs that a worker need not run."""
    rights = {kind: copy_rights([(kind.group, kind.plural)]) for kind in kinds if _is_served(kind, served)}
    missing = await missing_rights(worker, (right for each in rights.values() for right in each), namespaces=namespaces)

    def finding(kind: Kind[Any]) -> Finding:
        own = rights.get(kind, ())
        lacking = [f"{', '.join(verbs)} on {place}" for place, verbs in missing.items() if place.right in own and verbs]
        if not lacking:
            return _kind(kind, served, "warning", _NOT_THERE)
        what = advice.format(f"{kind.plural}.{kind.group}")
        return Finding("warning", f"kind {kind.kind}", f"lacks {' and '.join(lacking)}: {_NOT_THERE} until you {what}")

    return [finding(kind) for kind in kinds]


async def _is_allowed(client: ClusterClient, place: Place, verb: str) -> bool:
    right = place.right
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "subresource": subresource, "verb": verb}
    attributes |= {"name": right.name} if right.name else {}
    attributes |= {"namespace": place.namespace} if place.namespace else {}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await ask(client, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool(answer["status"].get("allowed", False))


async def _queues(worker: ClusterClient, wanted: Sequence[ObjectKey], namespaces: Sequence[str]) -> list[Finding]:
    """Whether each queue is there and takes jobs: a copy carries its queue's name and namespace with it."""
    wanted = [key for key in wanted if key.namespace in namespaces or "" in namespaces]
    try:
        pages = [await worker.list(LOCAL_QUEUES, namespace=namespace) for namespace in namespaces]
        there = {queue.key: queue for page in pages for queue in page.items}
    except (NotFound, Forbidden):
        return []  # reported already, as a kind not served or a right missing
    except ApiError as error:
        return [Finding("warning", "local queues", str(error))]
    seen = {key.namespace for key in there}
    return [_queue(key, there.get(key), key.namespace in seen) for key in wanted]


def _queue(key: ObjectKey, queue: LocalQueue | None, is_namespace_seen: bool) -> Finding:
    subject = f"LocalQueue {key}"
    if queue is None and not is_namespace_seen:
        return Finding(
            "failed",
            subject,
            "missing",
            repair=f"create namespace {key.namespace} (if it is missing too) and the queue",
        )
    if queue is None:
        return Finding("failed", subject, "missing", repair="create it, copies look for it under the same name")
    active = find_condition(queue.status.conditions, ACTIVE)
    if active is None:
        return Finding("warning", subject, "nobody has looked at it", repair="does Kueue run there?")
    if active.status != "True":
        return Finding("warning", subject, f"not active: {active.message or active.reason}")
    return Finding("ok", subject, "active")
