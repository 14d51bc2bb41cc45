"""Looks at a job and all that it depends on, with the rights of the caller: the input of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, any_owner_of, waits_for_quota, workload_spec
from multikueue.cli.access.connection import fetch_pairs, now
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload.lookup import Pair, fetch_workloads, named, pick
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, InvalidObject, MultiKueueError, NotFound

if TYPE_CHECKING:
    from multikueue.answers.answer import JobAnswer
    from multikueue.answers.seen import Seen, SeenJob
    from multikueue.api.kubernetes.printed import PrintedEvent, PrintedPod
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.cli.workload.explanation import ManagerExplanation
    from multikueue.cli.workload.pod_policies import Elsewhere
    from multikueue.cli.workload.prospects import Inquiry
    from multikueue.kube.cluster_client import ClusterClient, WatchingClient
    from multikueue.quota.visibility.differences import PodPolicies
    from multikueue.quota.visibility.explain import Explanation
    from multikueue.settings import Settings
    from multikueue.workload.nomination.choice import ExplainedChoice
    from multikueue.workload.nomination.prospects import Prospect

__all__ = ["Inspection", "job_names", "look", "look_at", "look_without_workload", "seen_job"]

Tree = dict[str, Any]

_BUILT_IN = ("v1", "batch/v1", "apps/v1")
"""Where the kinds are that come with Kubernetes and that people submit."""


@dataclass(slots=True)
class Inspection:
    """`told`: the manager's answer, if it gives one; `choice`: what its strategy thinks of the workers. `elsewhere`: where its
    pods are others on a worker than those that are counted; `uncompared`: what was not compared. `start`: when it
    starts, or why that is unknown; empty if that was not asked."""

    seen: Seen
    told: JobAnswer | None = None
    choice: ExplainedChoice | None = None
    elsewhere: list[Elsewhere] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    start: str = ""

    def answer(self) -> JobAnswer:
        from multikueue.answers.answer import answer, better_seen

        found = answer(self.seen, now())
        return found if self.told is None else better_seen(found, self.told)

    def document(self, told: JobAnswer) -> Tree:
        """The answer, and what was seen beside it, for programs."""
        import msgspec

        full = told.document()
        if self.seen.quota is not None:
            full["quota"] = msgspec.to_builtins(self.seen.quota)
        if self.seen.workers:
            full["workers"] = msgspec.to_builtins(self.seen.workers)
        if self.choice is not None:
            full["choice"] = msgspec.to_builtins(self.choice)
        if self.elsewhere:
            full["differences"] = [each.document() for each in self.elsewhere]
        if self.start:
            full["start"] = self.start
        return full


async def look(
    client: WatchingClient, reach: WorkerAccess, namespace: str, name: str, settings: Settings | None
) -> Inspection:
    """Raises CommandFailed if there is neither a workload nor a job of that name."""
    mine = await fetch_workloads(client, namespace)
    alone = await look_without_workload(client, namespace, name, mine)
    if alone is not None:
        return Inspection(alone)
    _, workload = pick(mine, name, namespace)
    return await look_at(client, reach, workload, mine, settings)


async def look_at(
    client: WatchingClient,
    reach: WorkerAccess,
    workload: Workload,
    mine: list[Pair],
    settings: Settings | None,
    *,
    foreseen: SeenJob | None = None,
) -> Inspection:
    """`mine`: the workloads of its namespace. `foreseen`: the job, if it is not submitted yet: the workload is the one that
    it would have."""
    return await _Looking(client, reach, workload, mine, settings, foreseen).all()


# --- a job without a Workload ----------------------------------------------------------------------------------------


async def _find_job(client: ClusterClient, namespace: str, word: str) -> Tree | None:
    """The object of that KIND/NAME; without a kind, of one that is dispatched. Of other kinds, those that come with Kubernetes
    are known: that they are not dispatched is known of an object, too, that may not be read."""
    from multikueue.jobs.integrations.frameworks import FRAMEWORKS
    from multikueue.kube.relatives import collection

    kind, _, name = word.rpartition("/")
    singular = kind.lower().partition(".")[0]
    known = {each.kind.kind.lower(): each.kind for each in FRAMEWORKS.values()}
    wanted = [each for word, each in known.items() if singular in ("", word, each.plural)]
    for each in wanted:
        found = await _get(client, f"{collection(each.api_version, namespace, each.plural)}/{quote(name, safe='')}")
        if found is not None:
            return {"apiVersion": each.api_version, "kind": each.kind} | found
    return await _find_other(client, namespace, singular, name) if kind and not wanted else None


async def _find_other(client: ClusterClient, namespace: str, word: str, name: str) -> Tree | None:
    from multikueue.kube.relatives import collection, kind_called

    for api_version in _BUILT_IN:
        found = await kind_called(client, api_version, word)
        if found is None:
            continue
        kind, plural = found
        head: Tree = {"apiVersion": api_version, "kind": kind}
        try:
            return head | await _read(client, f"{collection(api_version, namespace, plural)}/{quote(name, safe='')}")
        except Forbidden:
            return head | {"metadata": {"name": name, "namespace": namespace}}
        except NotFound:
            return None
    return None


async def _get(client: ClusterClient, path: str) -> Tree | None:
    """None if it is not there or may not be read. Raises InvalidObject if it is nested too deeply."""
    try:
        return await _read(client, path)
    except (NotFound, Forbidden):
        return None


async def _read(client: ClusterClient, path: str) -> Tree:
    try:
        found: Tree = json.loads(await client.request("GET", path))
    except RecursionError as error:
        raise InvalidObject(path, "$", "an object that is not nested too deeply") from error
    return found


async def look_without_workload(client: ClusterClient, namespace: str, name: str, mine: list[Pair]) -> Seen | None:
    """The job of that name, if none of the workloads `mine` of its namespace is meant, and it exists."""
    from multikueue.answers.seen import Seen
    from multikueue.api.kinds import WORKLOAD_PRIORITY_CLASSES

    tree = None if named(mine, name) else await _find_job(client, namespace, name)
    if tree is None:
        return None
    job, not_seen = seen_job(tree), list[str]()
    if not job.is_of_known_kind:
        return Seen(name=f"{job.kind.lower()}/{job.meta.name}", namespace=namespace, job=job)
    classes = None
    if job.workload_class:
        try:
            classes = frozenset(each.metadata.name for each in (await client.list(WORKLOAD_PRIORITY_CLASSES)).items)
        except Forbidden:
            not_seen.append("WorkloadPriorityClasses")
    told = await _events(client, namespace, job.meta.uid, not_seen)
    return Seen(
        name=f"{job.kind.lower()}/{job.meta.name}",
        namespace=namespace,
        job=job,
        queues=await _queues(client, namespace, not_seen),
        classes=classes,
        told=told,
        not_seen=tuple(not_seen),
    )


async def _fetch_job(client: ClusterClient, workload: Workload) -> SeenJob | None:
    """The job of a Workload; None without one, or if it may not or cannot be read."""
    from multikueue.kube.relatives import collection, plural_of

    owner = any_owner_of(workload)
    if owner is None:
        return None
    try:
        plural = await plural_of(client, owner.api_version, owner.kind)
    except ApiError:
        return None
    path = f"{collection(owner.api_version, workload.metadata.namespace, plural)}/{quote(owner.name, safe='')}"
    try:
        found = await _get(client, path) if plural else None
    except InvalidObject:
        return None
    return seen_job({**found, "apiVersion": owner.api_version, "kind": owner.kind}) if found else None


def seen_job(tree: Tree) -> SeenJob:
    """The object, of any kind, as an answer needs it."""
    from multikueue.answers.seen import SeenJob, of_job
    from multikueue.api.meta import Object, decoder, encode
    from multikueue.jobs.integrations.frameworks import known_kind

    adapter = known_kind(tree["apiVersion"], tree["kind"])
    if adapter is None:
        return SeenJob(kind=tree["kind"], meta=decoder(Object)(encode(tree)).metadata, is_of_known_kind=False)
    return of_job(decoder(adapter.kind.type)(encode(tree)), adapter)


async def _events(client: ClusterClient, namespace: str, uid: str, not_seen: list[str]) -> tuple[PrintedEvent, ...]:
    from multikueue.api.kubernetes.printed import PRINTED_EVENTS

    try:
        selector = {"fieldSelector": f"involvedObject.uid={uid}"}
        pairs = await fetch_pairs(client, PRINTED_EVENTS, namespace=namespace, params=selector)
    except ApiError:
        not_seen.append("its events")
        return ()
    return tuple(event for _, event in pairs if event.involved_object.uid == uid)


async def _queues(client: ClusterClient, namespace: str, not_seen: list[str]) -> frozenset[str] | None:
    from multikueue.api.kinds import LOCAL_QUEUES

    try:
        return frozenset(each.metadata.name for each in (await client.list(LOCAL_QUEUES, namespace=namespace)).items)
    except Forbidden:
        not_seen.append(f"LocalQueues of {namespace}")
        return None


# --- a job with one --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Looking:
    client: WatchingClient
    reach: WorkerAccess
    workload: Workload
    mine: list[Pair]
    settings: Settings | None
    foreseen: SeenJob | None = None
    not_seen: list[str] = field(default_factory=list)
    told: ManagerExplanation | None = None

    async def all(self) -> Inspection:
        from multikueue.answers.seen import LOST_AFTER, Seen, typed_name

        workload, namespace = self.workload, self.workload.metadata.namespace
        if workload.has(FINISHED):
            return Inspection(Seen(name=typed_name(workload), namespace=namespace, workload=workload))
        waits = waits_for_quota(workload)
        self.told = await self._manager_says()
        quota, jobs = await self._quota() if waits else (None, job_names(self.mine))
        queues = await _queues(self.client, namespace, self.not_seen) if waits else None
        inquiry = await self._ask_workers(self.told.workers if self.told is not None else None)
        runs = workload.has(ADMITTED) and not workload.has(EVICTED)
        pods = await self._pods(inquiry) if runs and not inquiry.is_away(workload.status.cluster_name or "") else None
        seen = Seen(
            name=typed_name(workload),
            namespace=namespace,
            job=self.foreseen or await _fetch_job(self.client, workload),
            workload=workload,
            queues=queues,
            quota=quota,
            workers=tuple(inquiry.found),
            pods=pods,
            jobs=jobs,
            own_check=inquiry.own_check,
            lost_after=self.settings.dispatch.worker_lost_timeout if self.settings else LOST_AFTER,
            is_foreseen=self.foreseen is not None,
            not_seen=(*self.not_seen, *inquiry.unseen),
        )
        told = (self.told.answer, self.told.choice) if self.told is not None else (None, None)
        return Inspection(seen, *told, *await self._compare(inquiry.policies))

    async def _quota(self) -> tuple[Explanation | None, dict[str, str]]:
        """Why it has no quota, by the manager, else computed here of what may be read; and the names of jobs."""
        from multikueue.cli.workload.explanation import explained, fetch_objects

        if self.told is not None:
            return self.told.quota, job_names(self.mine)
        objects, forbidden = await fetch_objects(self.client, self.workload.metadata.namespace, self.settings)
        names = job_names(objects["workloads"])
        if self.foreseen is not None:
            objects["workloads"].append(({}, self.workload))
        if forbidden:
            self.not_seen.append(f"its quota, since you may not list {', '.join(forbidden)}")
            return None, names
        return explained(objects, self.workload, self.settings), names

    async def _manager_says(self) -> ManagerExplanation | None:
        """Needs a right to that API only; None without an answer."""
        from multikueue.cli.workload.explanation import fetch_explanation

        if self.foreseen is not None:
            return None
        try:
            return await fetch_explanation(self.client, self.workload.key)
        except ApiError:  # no such API, no right to it, or no server behind it
            return None

    async def _ask_workers(self, told: Iterable[Prospect] | None) -> Inquiry:
        from multikueue.cli.workload.prospects import Inquiry, ask_workers

        if not workload_spec(self.workload).active:
            return Inquiry(self.client, self.reach, self.workload, {})
        return await ask_workers(self.client, self.reach, self.workload, self.settings, told)

    async def _pods(self, inquiry: Inquiry) -> tuple[PrintedPod, ...] | None:
        """Its pods on its worker; None if they cannot be seen."""
        from contextlib import AsyncExitStack

        from multikueue.cli.workload.view import WorkloadView

        if not self.workload.status.cluster_name:
            return None
        try:
            async with AsyncExitStack() as stack:
                view = WorkloadView(self.client, self.reach, self.workload, stack)
                pods = tuple(pod for _, pod in await view.pods())
        except ClusterUnreachable as error:
            if error.cluster == self.workload.status.cluster_name:
                inquiry.has_lost(error.cluster, error.why)
            return None
        except (CommandFailed, MultiKueueError) as error:
            self.not_seen.append(f"its pods: {error}")
            return None
        self.not_seen += [f"some of its pods: {text}" for text in view.unseen]
        return None if view.unseen and not pods else pods

    async def _compare(self, theirs: dict[str, PodPolicies]) -> tuple[list[Elsewhere], list[str]]:
        """What workers make of its pods, if they are other ones there."""
        if not theirs:
            return [], []
        from multikueue.cli.workload.pod_policies import elsewhere, not_compared, read_policies

        ours = await read_policies(self.client, (self.workload.metadata.namespace,))
        return list(elsewhere(self.workload, ours, theirs, self.settings)), list(not_compared(ours, theirs))


def job_names(pairs: Iterable[Pair]) -> dict[str, str]:
    """The names of jobs by the keys and UIDs of their Workloads, and by their own UIDs."""
    from multikueue.answers.seen import typed_name

    found: dict[str, str] = {}
    for _, workload in pairs:
        owner, name = any_owner_of(workload), typed_name(workload)
        uids = (workload.metadata.uid, owner.uid if owner else "")
        found |= dict.fromkeys((str(workload.key), *filter(None, uids)), name)
    return found
