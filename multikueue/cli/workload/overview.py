"""Many jobs at a glance: what a handful of lists of the manager cluster have of them, as the input of their answers.

What takes a look at each job is left out: its pods, and without a manager that reports it, who has its quota and what workers
are to it. `why` has that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.workload import (
    ADMITTED,
    FINISHED,
    QUOTA_RESERVED,
    any_owner_of,
    queue_of,
    waits_for_quota,
    workload_spec,
)
from multikueue.api.meta import ObjectKey
from multikueue.cli.access.connection import fetch_pairs, now
from multikueue.cli.workload.explanation import lines
from multikueue.cli.workload.lookup import Pair, fetch_workloads
from multikueue.errors import ApiError

if TYPE_CHECKING:
    from datetime import datetime

    from multikueue.answers.answer import JobAnswer
    from multikueue.answers.seen import SeenJob
    from multikueue.api.kubernetes.printed import PrintedEvent
    from multikueue.api.kueue.queues import LocalQueue
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.multikueue.clusters import MultiKueueCluster
    from multikueue.jobs.framework.adapter import Adapter
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.workload.nomination.prospects import Prospect

__all__ = [
    "ListedJob",
    "Overview",
    "adapters_of",
    "look_over",
    "read_answers",
    "read_places",
    "read_warnings",
]

Tree = dict[str, Any]


class ListedJob(msgspec.Struct, frozen=True):
    """`item`: its Workload as the server sent it, or the job itself without one. `name`: as commands take it. `labels`: those
    of its Workload and its own. `position`: among the pending workloads of its ClusterQueue, from 1; 0: unknown."""

    item: Tree
    name: str
    namespace: str
    answer: JobAnswer
    queue: str
    created: datetime | None
    workload: Workload | None = None
    position: int = 0
    labels: Mapping[str, str] = {}

    def document(self) -> Tree:
        """The item with the answer, for programs."""
        position = {"position": self.position} if self.position else {}
        return {**self.item, "answer": {**self.answer.document(), **position}}


@dataclass(slots=True)
class Overview:
    """What was seen in a namespace; in all if that is empty. Jobs, and Workloads, by their UIDs; `away`: the workers that do
    not answer; `told`: warnings by the UID of the job that they are about; `places`: by Workload, from 1;
    `own_checks`: the AdmissionChecks that are MultiKueue's; `answers`: the manager's, by Workload, with the versions that they
    are about."""

    where: str
    workloads: dict[str, Pair] = field(default_factory=dict)
    jobs: dict[str, tuple[Tree, SeenJob]] = field(default_factory=dict)
    queues: dict[ObjectKey, LocalQueue] | None = None
    classes: frozenset[str] | None = None
    away: dict[str, Prospect] = field(default_factory=dict)
    told: dict[str, list[PrintedEvent]] = field(default_factory=dict)
    places: dict[ObjectKey, int] = field(default_factory=dict)
    own_checks: frozenset[str] | None = None
    answers: dict[ObjectKey, tuple[str, JobAnswer]] = field(default_factory=dict)

    def listed(self) -> Iterator[ListedJob]:
        """All workloads, then the jobs that have none and are no parts of other objects."""
        yield from map(self.of_workload, self.workloads.values())
        yield from map(self.of_job, self.without_workload())

    def of_workload(self, pair: Pair) -> ListedJob:
        from multikueue.answers.answer import answer
        from multikueue.answers.seen import Seen, typed_name

        item, workload = pair
        name, namespace, job = typed_name(workload), workload.metadata.namespace, self._job_of(workload)
        queue = (self.queues or {}).get(queue_of(workload))
        gone = self.away.get(workload.status.cluster_name or "")
        seen = Seen(
            name=name,
            namespace=namespace,
            job=job,
            workload=workload,
            queues=self._queues_of(namespace),
            cluster_queue=queue.spec.cluster_queue if queue else "",
            workers=(gone,) if gone and workload.has(ADMITTED) else (),
            own_check=self._own_check_of(workload),
        )
        place = self.places.get(workload.key, 0) if waits_for_quota(workload) else 0
        created, queue_name = workload.metadata.creation_timestamp, workload_spec(workload).queue_name
        told = self._completed(workload, answer(seen, now()))
        labels = {**workload.metadata.labels, **(job.meta.labels if job else {})}
        return ListedJob(item, name, namespace, told, queue_name, created, workload, place, labels)

    def _own_check_of(self, workload: Workload) -> str | None:
        ours, checks = self.own_checks, workload.status.admission_checks
        return next((each.name for each in checks if each.name in ours), "") if ours is not None else None

    def _completed(self, workload: Workload, found: JobAnswer) -> JobAnswer:
        """With what only the manager sees, unless the workload has changed since."""
        from multikueue.answers.answer import better_seen

        version, told = self.answers.get(workload.key, ("", None))
        is_of_now = version == workload.metadata.resource_version
        return better_seen(found, told) if told is not None and is_of_now else found

    def of_job(self, uid: str) -> ListedJob:
        from multikueue.answers.answer import answer
        from multikueue.answers.seen import Seen

        item, job = self.jobs[uid]
        name, namespace = f"{job.kind.lower()}/{job.meta.name}", job.meta.namespace
        seen = Seen(
            name=name,
            namespace=namespace,
            job=job,
            queues=self._queues_of(namespace),
            classes=self.classes,
            told=tuple(self.told.get(uid, ())),
        )
        told, made = answer(seen, now()), job.meta.creation_timestamp
        return ListedJob(item, name, namespace, told, job.queue, made, labels=job.meta.labels)

    def without_workload(self) -> list[str]:
        """The UIDs of jobs that have no Workload and wait for one, or lack what it takes: of those without a queue only Jobs
        that do not run, since other objects without one are none of the manager's business."""
        owned = {owner.uid for _, workload in self.workloads.values() for owner in workload.metadata.owner_references}
        return [
            uid
            for uid, (_, job) in self.jobs.items()
            if uid not in owned
            and not job.owner
            and job.end is None
            and (job.queue or (job.kind == "Job" and not job.ready))
        ]

    def _job_of(self, workload: Workload) -> SeenJob | None:
        """Its job, with the ready pods of all its owners: a group of Pods has no other object."""
        found = [self.jobs[each.uid][1] for each in workload.metadata.owner_references if each.uid in self.jobs]
        if len(found) < 2:
            return next(iter(found), None)
        return msgspec.structs.replace(found[0], ready=sum(each.ready or 0 for each in found))

    def _queues_of(self, namespace: str) -> frozenset[str] | None:
        if self.queues is None:
            return None
        return frozenset(key.name for key in self.queues if key.namespace == namespace)

    def take_cluster(self, cluster: MultiKueueCluster, *, is_gone: bool = False) -> None:
        """The news of a worker."""
        from multikueue.workload.nomination.prospects import away

        found = None if is_gone else away(cluster)
        if found is not None:
            self.away[cluster.metadata.name] = found
        else:
            self.away.pop(cluster.metadata.name, None)


def _waits_for_checks(workload: Workload) -> bool:
    return workload.has(QUOTA_RESERVED) and not workload.has(ADMITTED) and bool(workload.status.admission_checks)


async def look_over(client: ClusterClient, where: str) -> Overview:
    """Raises Forbidden where workloads may not be listed; what else may not be is left out."""
    from multikueue.api.kinds import ADMISSION_CHECKS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES

    found = Overview(where)
    found.workloads = {pair[1].metadata.uid: pair for pair in await fetch_workloads(client, where)}
    queues = await _allowed(client, LOCAL_QUEUES, where)
    found.queues = {each.key: each for each in queues} if queues is not None else None
    if any(_waits_for_checks(workload) for _, workload in found.workloads.values()):
        checks = await _allowed(client, ADMISSION_CHECKS)
        ours = (each.metadata.name for each in checks or () if each.spec.controller_name == CONTROLLER_NAME)
        found.own_checks = frozenset(ours) if checks is not None else None
    await read_warnings(client, found)
    about = (event.involved_object for told in found.told.values() for event in told)
    warned = [(each.api_version, each.kind) for each in about]
    for adapter in adapters_of((workload for _, workload in found.workloads.values()), warned):
        await _read_jobs(client, found, adapter)
    await _read_workers(client, found)
    if any(found.jobs[uid][1].workload_class for uid in found.without_workload()):
        classes = await _allowed(client, WORKLOAD_PRIORITY_CLASSES)
        found.classes = frozenset(each.metadata.name for each in classes) if classes is not None else None
    await read_places(client, found, (workload for _, workload in found.workloads.values()))
    await read_answers(client, found, (workload for _, workload in found.workloads.values()))
    return found


async def _allowed(client: ClusterClient, kind: Any, where: str = "") -> list[Any] | None:
    """All objects of the kind; None if they cannot be listed."""
    try:
        return [value for _, value in await fetch_pairs(client, kind, namespace=where)]
    except ApiError:
        return None


# --- jobs ------------------------------------------------------------------------------------------------------------


def adapters_of(workloads: Iterable[Workload], more: Iterable[tuple[str, str]] = ()) -> list[Adapter]:
    """Those of the kinds of the workloads' jobs, that of Jobs, and those of `more` kinds by apiVersion and kind."""
    from multikueue.jobs.integrations.frameworks import known_kind

    owners = [any_owner_of(each) for each in workloads if not each.has(FINISHED)]
    kinds = dict.fromkeys([("batch/v1", "Job"), *((each.api_version, each.kind) for each in owners if each), *more])
    return [adapter for kind in kinds if (adapter := known_kind(*kind)) is not None]


async def _read_jobs(client: ClusterClient, found: Overview, adapter: Adapter) -> None:
    from multikueue.cli.workload.seen import seen_job

    try:
        pairs = await fetch_pairs(client, adapter.kind, namespace=found.where)
    except ApiError:
        return
    for item, _ in pairs:
        found.jobs[item["metadata"]["uid"]] = (item, seen_job(item))


async def read_warnings(client: ClusterClient, found: Overview) -> None:
    """Why jobs have no Workload, in the words of the manager."""
    from multikueue.api.kubernetes.printed import PRINTED_EVENTS

    try:
        pairs = await fetch_pairs(
            client, PRINTED_EVENTS, namespace=found.where, params={"fieldSelector": "type=Warning"}
        )
    except ApiError:
        return
    found.told.clear()
    for _, event in pairs:
        found.told.setdefault(event.involved_object.uid, []).append(event)


# --- workers ---------------------------------------------------------------------------------------------------------


async def _read_workers(client: ClusterClient, found: Overview) -> None:
    """Which workers with work do not answer: as the manager cluster has it, else as the manager reports of one workload on
    each."""
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.cli.workload.explanation import fetch_explanation
    from multikueue.workload.nomination.prospects import State

    on = {
        workload.status.cluster_name: workload
        for _, workload in found.workloads.values()
        if workload.status.cluster_name and workload.has(ADMITTED) and not workload.has(FINISHED)
    }
    if not on:
        return
    clusters = await _allowed(client, MULTIKUEUE_CLUSTERS)
    for cluster in clusters or ():
        found.take_cluster(cluster)
    if clusters is not None:
        return
    for name, workload in on.items():
        try:
            told = await fetch_explanation(client, workload.key)
        except ApiError:
            return
        gone = [each for each in told.workers if (each.cluster, each.state) == (name, State.UNREACHABLE.value)]
        found.away |= dict.fromkeys([name], gone[0]) if gone else {}


# --- places ----------------------------------------------------------------------------------------------------------


class _Pending(msgspec.Struct, rename="camel"):
    metadata: Mapping[str, Any] = {}
    position_in_cluster_queue: int = 0


class _Summary(msgspec.Struct):
    items: tuple[_Pending, ...] = ()


async def read_places(client: ClusterClient, found: Overview, workloads: Iterable[Workload]) -> None:
    """The places of those that wait for quota, in one read per queue: by the manager, else by what may be listed."""
    queues = dict.fromkeys(queue_of(each) for each in workloads if waits_for_quota(each))
    for queue in queues:
        path = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{queue.namespace}/localqueues/{queue.name}/pendingworkloads"
        try:
            told = msgspec.json.decode(await client.request("GET", path, params={"limit": "5000"}), type=_Summary)
        except ApiError:  # no such API, no right to it, or no server behind it
            await _count_places(client, found)
            return
        except msgspec.DecodeError:
            continue
        for each in told.items:
            key = ObjectKey(queue.namespace, each.metadata.get("name", ""))
            found.places[key] = each.position_in_cluster_queue + 1


async def _count_places(client: ClusterClient, found: Overview) -> None:
    from multikueue.api.kinds import LOCAL_QUEUES, WORKLOADS

    queues, workloads = await _allowed(client, LOCAL_QUEUES), await _allowed(client, WORKLOADS)
    if queues is None or workloads is None:
        return
    for line in lines(queues, workloads).values():
        found.places |= {each.key: place for place, each in enumerate(line, 1)}


# --- answers ---------------------------------------------------------------------------------------------------------


class _Told(msgspec.Struct):
    metadata: Mapping[str, Any] = {}
    answer: Any = None


class _Answers(msgspec.Struct):
    items: tuple[_Told, ...] = ()


async def read_answers(client: ClusterClient, found: Overview, workloads: Iterable[Workload]) -> None:
    """What the manager answers of those that wait, in one read per namespace; without such a manager nothing."""
    from multikueue.answers.answer import JobAnswer

    waiting = (each for each in workloads if not each.has(ADMITTED) and not each.has(FINISHED))
    for namespace in dict.fromkeys(each.metadata.namespace for each in waiting):
        path = f"/apis/visibility.multikueue.dev/v1alpha1/namespaces/{namespace}/answers"
        try:
            told = msgspec.json.decode(await client.request("GET", path), type=_Answers)
            for each in told.items:
                key = ObjectKey(namespace, each.metadata.get("name", ""))
                version = each.metadata.get("resourceVersion", "")
                found.answers[key] = (version, msgspec.convert(each.answer, JobAnswer))
        except (ApiError, msgspec.DecodeError):  # none, no right to it, or one of another release
            return
