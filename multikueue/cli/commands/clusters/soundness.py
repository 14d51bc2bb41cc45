"""What keeps the manager's jobs from running on a worker that answers, and what is wrong with the manager cluster."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from multikueue.answers.findings import Finding
from multikueue.api.kinds import LEASES, WORKLOADS
from multikueue.api.kubernetes.builtins import record_of
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import FINISHED, ORIGIN_LABEL, Workload, any_owner_of, queue_of, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import answer_or
from multikueue.errors import ApiError, ConfigurationError, Forbidden, MultiKueueError, NotFound
from multikueue.kube.auth.expiry import of_certificate
from multikueue.kube.auth.kubeconfig import parse
from multikueue.kube.definitions import kueue_release

if TYPE_CHECKING:
    from multikueue.cli.workload.needs import Need
    from multikueue.kube.cluster_client import ClusterClient

__all__ = [
    "BROKEN_CONVERSION",
    "ManagerJobs",
    "authority",
    "certificate",
    "clashes",
    "clock",
    "needed",
    "oversold",
    "own_kueue",
    "read_nodes",
    "release",
    "unfit",
]

SKEW = timedelta(seconds=5)
"""Clusters that keep time differ by less than a second; the header Date has whole ones."""

ENDS_SOON = timedelta(days=30)

RENEWED_WITHIN = timedelta(minutes=1)
"""A Lease that is not renewed for so long has no holder."""

BROKEN_CONVERSION = range(6)
"""The patches of Kueue 0.20 whose conversion webhook keeps API servers from filling their watch caches after the upgrade
(kubernetes-sigs/kueue#18411)."""

MOST_COUNTED = 50
"""Maximum workloads that wait whose requests are counted."""

MOST_NEEDS = 50
"""Maximum objects that are looked for on a worker: each is a call."""


class NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: Mapping[str, str | int | float] = msgspec.field(default_factory=dict)


class ClusterNode(msgspec.Struct, frozen=True):
    """A Node: what pods may have of it."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeList(msgspec.Struct, frozen=True):
    items: tuple[ClusterNode, ...] = ()


class ManagerJobs(msgspec.Struct, frozen=True):
    """The workloads of the manager that are not over; and for those that wait for a worker, what each pod set requests."""

    workloads: Sequence[Workload] = ()
    requests: Mapping[ObjectKey, Sequence[Mapping[str, int]]] = {}

    @classmethod
    async def read(
        cls, manager: ClusterClient, count: Callable[[Workload], Sequence[Mapping[str, int]]]
    ) -> ManagerJobs:
        """None where the caller may not list them."""
        try:
            found = [each for each in (await manager.list(WORKLOADS)).items if not each.has(FINISHED)]
        except (Forbidden, NotFound):
            return cls()
        waiting = [each for each in found if not each.status.cluster_name and _is_active(each)]
        return cls(found, {each.key: answer_or(partial(count, each), ()) for each in waiting[:MOST_COUNTED]})


def _is_active(workload: Workload) -> bool:
    """False too for one whose spec cannot be read."""
    return answer_or(lambda: workload_spec(workload).active, otherwise=False)


def clock(ahead: timedelta | None) -> list[Finding]:
    """`ahead`: of the manager cluster's clock."""
    if ahead is None or abs(ahead) < SKEW:
        return []
    side = "ahead of" if ahead > timedelta() else "behind"
    detail = f"{abs(ahead).total_seconds():.0f}s {side} the manager cluster's"
    return [Finding("warning", "clock", detail, repair="have both keep time (NTP)")]


def authority(kubeconfig: bytes, moment: datetime) -> list[Finding]:
    """Whether the certificates of authority in a kubeconfig end."""
    ends = list[datetime]()
    try:
        for _, cluster in parse(kubeconfig).each_cluster():
            if cluster.certificate_authority_data:
                ends.append(of_certificate(b64decode(cluster.certificate_authority_data)).end)
    except (ValueError, ConfigurationError):
        return []  # the connection says what is wrong with it
    repair = "put the present authority into its kubeconfig: register the cluster again"
    if not ends or min(ends) > moment + ENDS_SOON:
        return []
    if min(ends) > moment:
        return [Finding("warning", "TLS authority", f"ends on {min(ends):%Y-%m-%d}", repair=repair)]
    return [Finding("failed", "TLS authority", f"ended on {min(ends):%Y-%m-%d}", repair=repair)]


def certificate(ends: datetime | None, moment: datetime) -> list[Finding]:
    """Whether the certificate of its API server ends soon. One that has ended is no connection."""
    if ends is None or ends > moment + ENDS_SOON:
        return []
    return [
        Finding("warning", "TLS certificate", f"ends on {ends:%Y-%m-%d}", repair="renew that of the API server there")
    ]


def clashes(jobs: ManagerJobs, there: Iterable[Workload]) -> list[Finding]:
    """Jobs there that belong to others, and have the name of one of the manager's."""
    mine = {_job(each): each for each in jobs.workloads if any_owner_of(each) is not None}
    foreign = (_job(each) for each in there if ORIGIN_LABEL not in each.metadata.labels)
    taken = sorted({job for job in foreign if job[1] and job in mine})
    if not taken:
        return []
    named = ", ".join(f"{kind} {space}/{name}" for space, kind, name in taken[:5])
    detail = f"{named} there {'is' if len(taken) == 1 else 'are'} somebody else's: the job of that name goes elsewhere"
    return [Finding("warning", "names of jobs", detail, repair="rename one of the two")]


def _job(workload: Workload) -> tuple[str, str, str]:
    owner = any_owner_of(workload)
    return (workload.metadata.namespace, owner.kind, owner.name) if owner else (workload.metadata.namespace, "", "")


def unfit(
    jobs: ManagerJobs,
    leading: Collection[ObjectKey],
    queues: Mapping[ObjectKey, LocalQueue],
    shared: Mapping[str, ClusterQueue],
    own: Callable[[ObjectKey], ClusterQueue | None],
) -> list[Finding]:
    """Resources of the manager's ClusterQueues of which those there have no quota, and workloads that wait and request more
    than theirs could ever use. `own`: the manager's ClusterQueue by LocalQueue."""
    from multikueue.workload.nomination.foresight import excess

    told = dict[str, Finding]()
    for key in leading:
        ours, theirs = own(key), shared.get(queues[key].spec.cluster_queue) if key in queues else None
        if ours is None or theirs is None:
            continue
        if lacking := sorted(_resources(ours) - _resources(theirs)):
            detail = f"ClusterQueue {theirs.metadata.name} there has no quota of {', '.join(lacking)}"
            subject = f"resources of {ours.metadata.name}"
            repair = f"give it some, or jobs that ask for {lacking[0]} never start there"
            told.setdefault(subject, Finding("warning", subject, detail, repair=repair))
    counts, first = Counter[str](), dict[str, str]()
    for workload in jobs.workloads:
        key = queue_of(workload)
        requests, there = jobs.requests.get(workload.key, ()), queues.get(key)
        queue = shared.get(there.spec.cluster_queue) if there is not None and key in leading else None
        if queue is not None and (most := excess(requests, queue)):
            counts[queue.metadata.name] += 1
            first.setdefault(queue.metadata.name, f"{workload.key} needs {most}")
    for name, number in counts.items():
        subject = f"room of ClusterQueue {name}"
        detail = f"{number} that wait can never start there, such as {first[name]}"
        told[subject] = Finding("warning", subject, detail, repair="give it more quota, or leave them to other workers")
    return list(told.values())


def _resources(queue: ClusterQueue) -> set[str]:
    """Those of which it has quota, its own or its cohort's."""
    from multikueue.quota.cache.tree import quotas

    cells = quotas(queue.resource_groups_in_force)
    return {name for (_, name), cell in cells.items() if cell.nominal or queue.spec.cohort_name}


def oversold(shared: Iterable[ClusterQueue], nodes: Sequence[ClusterNode] | None) -> list[Finding]:
    """Resources of which the ClusterQueues give out more than the nodes have. Nothing is said without nodes: they may come
    when they are needed."""
    from multikueue.api.values.quantity import counted, render
    from multikueue.quota.cache.tree import quotas

    if not nodes:
        return []
    has, given = Counter[str](), Counter[str]()
    for node in nodes:
        if not node.spec.unschedulable:
            has.update({name: counted(name, amount) for name, amount in node.status.allocatable.items()})
    for queue in shared:
        for (_, name), cell in quotas(queue.resource_groups_in_force).items():
            given[name] += cell.nominal
    over = [
        f"{name} is {render(name, amount)}, the nodes have {render(name, has[name])}"
        for name, amount in sorted(given.items())
        if amount > has[name]
    ]
    if not over:
        return []
    detail = f"the quota of {'; of '.join(over)}"
    return [
        Finding(
            "warning", "capacity", detail, repair="lower it: jobs are admitted there, and their pods wait for nodes"
        )
    ]


async def read_nodes(worker: ClusterClient) -> Sequence[ClusterNode] | None:
    """None where they may not be listed."""
    try:
        return msgspec.json.decode(await worker.request("GET", "/api/v1/nodes"), type=NodeList).items
    except (ApiError, msgspec.DecodeError):
        return None


async def release(client: ClusterClient) -> list[Finding]:
    """A warning of a Kueue whose conversion is broken, where its Deployment may be read."""
    try:
        version = await kueue_release(client, is_exact=True)
    except MultiKueueError:
        return []
    minor, _, patch = version.rpartition(".")
    if minor != "0.20" or int(patch) not in BROKEN_CONVERSION:
        return []
    detail = f"{version}: its conversion webhook keeps the API server from filling its watch caches"
    return [Finding("warning", "Kueue's release", detail, repair="install 0.20.6 or newer there")]


async def needed(worker: ClusterClient, jobs: ManagerJobs, leading: Collection[ObjectKey]) -> list[Finding]:
    """What pods of workloads that wait name, and the worker lacks, where it may be looked for."""
    from multikueue.cli.workload.needs import has

    wanted: dict[tuple[str, Need], None] = {}
    for workload in jobs.workloads:
        if workload.key in jobs.requests and queue_of(workload) in leading:
            nothing: tuple[Need, ...] = ()
            found = answer_or(partial(_needs, workload), nothing)
            wanted |= dict.fromkeys((workload.metadata.namespace, need) for need in found)
    lacking = [one for one in [*wanted][:MOST_NEEDS] if not await has(worker, *one)]
    return [
        Finding(
            "warning",
            f"{need.kind} {namespace}/{need.name}",
            "missing: pods of jobs that wait name it, and do not start there",
            repair="create it there",
        )
        for namespace, need in lacking
    ]


def _needs(workload: Workload) -> tuple[Need, ...]:
    from multikueue.cli.workload.needs import needs

    return needs(msgspec.json.decode(each.template) for each in workload_spec(workload).pod_sets)


async def own_kueue(manager: ClusterClient, moment: datetime, roles: Collection[str] | None) -> list[Finding]:
    """Whether a Kueue decides on the manager cluster too, which only a manager beside it stands. `roles`: those of the
    settings, None if they are not known."""
    from multikueue.manager.process import KUEUES_LEASE

    try:
        record = record_of(await manager.get(LEASES, KUEUES_LEASE))
    except ApiError:
        return []
    if not record.holder_identity or record.renew_time is None or moment - record.renew_time > RENEWED_WITHIN:
        return []
    if roles is not None and "quota" not in roles:
        return []
    repair = "stop one of the two, or set `roles` for a manager beside Kueue"
    detail = "a Kueue runs on the manager cluster, and decides about the same workloads"
    return [Finding("warning" if roles is None else "failed", "Kueue here", detail, repair=repair)]
