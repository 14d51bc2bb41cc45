"""Checks of workers with the manager's credentials, before they get work and before they are removed, in one file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from multikueue.answers.findings import Finding, Level, Report, diagnoses, of_object
from multikueue.api.kind import Kind
from multikueue.api.kinds import (
    CLUSTER_QUEUES,
    DEFINITIONS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
)
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import ORIGIN_LABEL, any_owner_of
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, other_than
from multikueue.cli.access.connection import now
from multikueue.cli.access.worker_clusters import NO_END, RESOURCE, WorkerCluster, ends, gather
from multikueue.cli.commands.clusters import soundness
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import Column, PrintedList
from multikueue.cli.terminal.progress import each
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, MultiKueueError, Unauthorized
from multikueue.kube.auth.kubeconfig import InsecureKubeconfig, check_worker_kubeconfig
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import Definitions, definitions
from multikueue.registration.join import busy, staying
from multikueue.registration.ownership import Side
from multikueue.registration.plan import Registration
from multikueue.registration.preflight import Routes, preflight, routes
from multikueue.store.workers.watch_scope import EVERYWHERE, namespaces_of

if TYPE_CHECKING:
    from multikueue.cli.access.server_facts import ServerFacts
    from multikueue.quota.requests.devices import DeviceRules
    from multikueue.quota.visibility.differences import PodPolicies
    from multikueue.settings import DeclaredKind, Settings

__all__ = [
    "check_all",
    "check_manager",
    "declared",
    "findings_listing",
    "item_of",
    "refuse_narrowing",
    "refuse_removal",
    "summary",
]

MANAGER = "(manager)"

_FORCED = "with --force (what is there then stays there)"

Connect = Callable[[str, bytes], AbstractAsyncContextManager[ClusterClient]]
"""A connection to the worker of that name by that kubeconfig."""


def findings_listing(reports: Sequence[Report]) -> PrintedList:
    """One row for each finding; with `-o json` an item is a finding, not a Kubernetes object."""
    found = [(report.cluster, finding) for report in reports for finding in report.findings]
    return PrintedList(
        columns=(Column("CLUSTER"), Column("RESULT"), Column("CHECK"), Column("DETAIL")),
        rows=[(cluster, finding.level, finding.subject, str(finding)) for cluster, finding in found],
        items=[{"metadata": {"name": cluster}, **item_of(finding)} for cluster, finding in found],
        resource=RESOURCE,
        nothing="No clusters found.",
    )


def item_of(finding: Finding) -> dict[str, Any]:
    """For programs: the detail is the whole text, as in a table. Without what it has nothing to say of."""
    return {name: value for name, value in {**asdict(finding), "detail": str(finding)}.items() if value}


def declared(own: Sequence[DeclaredKind]) -> tuple[Kind[Any], ...]:
    """The kinds of jobs that the settings declare."""
    from multikueue.controllers.job_kinds.declarations import declaration_of
    from multikueue.jobs.kinds.declared.adapter import DeclaredJob

    return tuple(DeclaredJob(declaration_of(each)).kind for each in own)


def summary(reports: Sequence[Report]) -> str:
    """How many of the workers can take jobs, and how many causes keep the others from it, in one sentence."""
    workers = [report for report in reports if report.cluster != MANAGER]
    ready = sum(all(finding.level in ("ok", "warning") for finding in report.findings) for report in workers)
    problems = sum(each.finding.level != "warning" for each in diagnoses(reports))
    return f"{ready} of {len(workers)} workers are ready; {problems} problem{'' if problems == 1 else 's'}."


async def check_all(
    manager: ClusterClient,
    members: Sequence[WorkerCluster],
    *,
    connect: Connect,
    moment: datetime,
    kinds: Sequence[Kind[Any]] = (),
    devices: DeviceRules | None = None,
    flavors: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    facts: Mapping[str, ServerFacts] | None = None,
) -> list[Report]:
    """Check the clusters concurrently; one that hangs delays only the end. `kinds`: the declared kinds of jobs; `devices`:
    what devices count as; `flavors`: the manager's flavors by those of workers, as `flavor` or `cluster/flavor`; `facts`: of
    the clusters by name, those of the manager under an empty one, as they are known after the calls."""
    from multikueue.cli.workload.explanation import demand_by
    from multikueue.cli.workload.pod_policies import read_policies
    from multikueue.workload.nomination.foresight import requested

    policies = await read_policies(manager, EVERYWHERE)
    ours = _Ours(
        way=await routes(manager),
        kinds=kinds,
        definitions=await definitions(manager),
        policies=policies,
        jobs=await soundness.ManagerJobs.read(
            manager, lambda workload: requested(demand_by(policies, workload, settings), workload)
        ),
        facts=facts or {},
        devices=devices,
        flavors=flavors or {},
    )
    reports, failures = await each(
        "checking", members, lambda member: _check(member, ours, connect=connect, moment=moment)
    )
    if failures:
        raise failures[0]
    return _told_apart(reports, members, await _identity_of(manager))


def _told_apart(reports: Sequence[Report], members: Sequence[WorkerCluster], manager: str) -> list[Report]:
    """The reports, with a failure for each name of a cluster that another one stands for: the one that was recorded for it, of
    several that of the oldest object. Names that a manager has proven to lead to different clusters do."""
    clusters = {member.name: member.cluster for member in members}

    def place(report: Report) -> tuple[bool, str]:
        meta = clusters[report.cluster].metadata
        return meta.annotations.get(CLUSTER_UID_ANNOTATION) != report.identity, str(meta.creation_timestamp)

    oldest = sorted(reports, key=place)
    found = list[Report]()
    for report in reports:
        before = oldest[: oldest.index(report)]
        proven = set(other_than(clusters[report.cluster]))
        same = [
            each.cluster
            for each in before
            if report.identity == each.identity != ""
            and each.cluster not in proven
            and report.cluster not in other_than(clusters[each.cluster])
        ]
        if report.identity and report.identity == manager:
            same = ["the manager cluster"]
        if same:
            repair = f"remove one of the names: multikueue clusters remove {report.cluster}"
            twice = Finding("failed", "identity", f"it is the same cluster as {same[0]}", repair=repair)
            report = replace(report, findings=(twice, *report.findings))
        found.append(report)
    return found


async def _identity_of(client: ClusterClient) -> str:
    try:
        return (await client.get(NAMESPACES, KUBE_SYSTEM)).metadata.uid
    except ApiError:
        return ""


async def check_manager(manager: ClusterClient, moment: datetime, roles: Collection[str] | None = None) -> list[Report]:
    """What is wrong with the manager cluster: a Kueue of its own, versions of Kueue's API without conversion, what is lost by
    that. Nothing where all is well. `roles`: those of the settings, if they are known."""
    found = [*await soundness.own_kueue(manager, moment, roles), *await soundness.release(manager)]
    found += await _old_versions(manager)
    return [Report(MANAGER, tuple(found))] if found else []


async def _old_versions(manager: ClusterClient) -> list[Finding]:
    """A warning of each version of Kueue's API that the manager cluster serves without conversion, and a failure for each
    object that lost fields by that. Nothing where Kueue converts, or where this user may not see whether it does."""
    from multikueue.api.kueue.conversion import GROUP, VERSION
    from multikueue.controllers.quota.old_versions import ADVICE, objects_with_losses

    try:
        known = [each for each in (await manager.list(DEFINITIONS)).items if each.spec.group == GROUP]
        old = {
            version.name
            for each in known
            if not each.spec.is_converted
            for version in each.spec.versions
            if version.served
        }
        losses = await objects_with_losses(manager) if old - {VERSION} else []
    except Forbidden:
        return []
    served = [
        Finding(
            "warning",
            f"{GROUP}/{version}",
            f"it is served, and nobody converts it: fields that {VERSION} has not are lost",
        )
        for version in sorted(old - {VERSION})
    ]
    lost = [
        Finding("failed", f"{kind.kind} {key.name}", f"{', '.join(fields)} is lost: {ADVICE}")
        for kind, key, fields in losses
    ]
    return [*lost, *served]


class _Ours(msgspec.Struct, frozen=True, kw_only=True):
    """What the manager has, with which the workers are compared."""

    way: Routes
    kinds: Sequence[Kind[Any]]
    definitions: Definitions | None
    policies: PodPolicies
    devices: DeviceRules | None
    flavors: Mapping[str, str]
    jobs: soundness.ManagerJobs
    facts: Mapping[str, ServerFacts]

    def ahead(self, cluster: str) -> timedelta | None:
        """By how much its clock is ahead of the manager cluster's."""
        there, here = (known.ahead if (known := self.facts.get(name)) else None for name in (cluster, ""))
        return there - here if there is not None and here is not None else None


async def _check(member: WorkerCluster, ours: _Ours, *, connect: Connect, moment: datetime) -> Report:
    from multikueue.cli.workload.pod_policies import read_policies

    known = [*of_object(member.cluster, member.configs), _credential(member, moment)]
    if known[-1].level in ("failed", "unchecked"):
        return Report(member.name, tuple(known))
    known += soundness.authority(member.kubeconfig, moment)
    try:
        async with connect(member.name, member.kubeconfig) as worker:
            offered, queues = namespaces_of(member.cluster), ours.way.queues_to(member.name)
            found = await preflight(worker, queues, ours.kinds, namespaces=offered, ours=ours.definitions)
            others = _compared(ours, await read_policies(worker, offered), _places(queues, offered))
            others += await _of_queues(member.name, worker, ours, offered)
            others += [*await soundness.release(worker), *await soundness.needed(worker, ours.jobs, queues)]
            others += await _clashes(worker, ours.jobs, offered)
            identity = await _identity_of(worker)
            if (facts := ours.facts.get(member.name)) is not None:
                await facts.look_at_certificate()
                others += soundness.certificate(facts.ends, moment)
    except ClusterUnreachable as error:
        repair = "see whether it runs, and whether its URL leads there from here"
        return Report(member.name, (*known, Finding("unreachable", "API server", error.why, repair=repair)))
    except Unauthorized:
        refused = Finding("failed", "credential", "the worker refuses it", repair="register the cluster again")
        return Report(member.name, (*known, refused))
    except MultiKueueError as error:
        return Report(member.name, (*known, Finding("failed", "API server", str(error))))
    known += soundness.clock(ours.ahead(member.name))
    return Report(member.name, (*known, *found, *others), identity)


def _places(queues: Iterable[ObjectKey], offered: Sequence[str]) -> list[str]:
    """The namespaces whose jobs may go there."""
    return sorted({key.namespace for key in queues if "" in offered or key.namespace in offered})


async def _of_queues(name: str, worker: ClusterClient, ours: _Ours, offered: Sequence[str]) -> list[Finding]:
    """What its queues have, beside the manager's, the requests that wait, and its nodes."""
    try:
        shared = {each.metadata.name: each for each in (await worker.list(CLUSTER_QUEUES)).items}
        pages = [await worker.list(LOCAL_QUEUES, namespace=namespace) for namespace in offered]
    except ApiError:
        return []  # reported already, as a kind not served or a right missing
    leading = ours.way.queues_to(name)
    local = {each.key: each for page in pages for each in page.items}
    return [
        *_flavors(name, ours, [each for key, each in local.items() if key in leading], shared),
        *soundness.unfit(ours.jobs, leading, local, shared, ours.way.behind),
        *soundness.oversold(shared.values(), await soundness.read_nodes(worker)),
    ]


def _flavors(name: str, ours: _Ours, queues: Sequence[LocalQueue], shared: Mapping[str, ClusterQueue]) -> list[Finding]:
    """A warning of each pair of ClusterQueues where the worker's has no flavor that is known as one of the manager's: jobs that
    have that flavor here are shown, priced and counted there under a name that they do not have."""
    from multikueue.quota.cache.status import flavor_names

    told = dict[str, str]()
    for queue in queues:
        own, theirs = ours.way.behind(queue.key), shared.get(queue.spec.cluster_queue)
        if own is None or theirs is None:
            continue
        there = flavor_names(theirs)
        known = {ours.flavors.get(f"{name}/{each}", ours.flavors.get(each, each)) for each in there}
        if lacking := sorted(flavor_names(own) - known):
            has = f"ClusterQueue {theirs.metadata.name} there has {', '.join(sorted(there)) or 'none'}"
            advice = "Name them alike, label their nodes alike, or say in capacity_follow.flavors which is which"
            told[f"flavors of {own.metadata.name}"] = f"{', '.join(lacking)}: {has}. {advice}"
    return [Finding("warning", subject, detail) for subject, detail in told.items()]


async def _clashes(worker: ClusterClient, jobs: soundness.ManagerJobs, offered: Sequence[str]) -> list[Finding]:
    """Nothing is read there while the manager has no jobs."""
    if not jobs.workloads:
        return []
    try:
        pages = [await worker.list(WORKLOADS, namespace=namespace) for namespace in offered]
    except ApiError:
        return []
    return soundness.clashes(jobs, (each for page in pages for each in page.items))


def _compared(ours: _Ours, theirs: PodPolicies, namespaces: Sequence[str]) -> list[Finding]:
    """Warnings of all that changes what pods ask for, or what becomes of them, and of what could not be compared."""
    from multikueue.cli.workload.pod_policies import unread
    from multikueue.quota.visibility.differences import differences

    told = [
        Finding("warning", each.subject, str(each), asdict(each))
        for each in differences(ours.policies, theirs, namespaces, ours.devices)
    ]
    forbidden, unseen = unread(ours.policies), unread(theirs)
    if forbidden:
        told.append(Finding("warning", "not compared", f"{', '.join(forbidden)}: you may not list them on the manager"))
    if unseen:
        why = "because the account may not list them there; register the cluster again"
        told.append(Finding("warning", "not compared", f"{', '.join(unseen)}, {why}"))
    return told


def _credential(member: WorkerCluster, moment: datetime) -> Finding:
    if member.is_unreadable:
        return Finding("unchecked", "credential", f"not checkable from here: {member.problem}")
    if member.problem:
        return Finding("failed", "credential", member.problem)
    try:
        check_worker_kubeconfig(member.kubeconfig)
    except InsecureKubeconfig as error:
        return Finding("failed", "credential", f"{member.source}: {error}")
    known = member.known
    if known.problem:
        return Finding("failed", "credential", f"{member.source}: {known.problem}")
    if known.expires is None:
        return Finding("ok", "credential", NO_END)
    if known.expires <= moment:
        ended = f"ended {ends(known.expires, moment)}"
        return Finding("failed", "credential", ended, repair="register the cluster again")
    level: Level = "warning" if known.validity is not None and known.validity.warn_at <= moment else "ok"
    return Finding(level, "credential", f"ends {ends(known.expires, moment)}")


async def refuse_removal(manager: Side, registration: Registration, *, is_forced: bool) -> None:
    """Raise CommandFailed if there is nothing to remove, or if workloads are still there and `is_forced` is off."""
    name = registration.cluster
    _, missing = await gather(manager.client, registration.namespace, should_read_secrets=False, names=[name])
    if missing and await manager.find(SECRETS, registration.secret) is None:
        raise missing[0]
    held = busy(registration.cluster, (await manager.client.list(WORKLOADS)).items)
    if held and not is_forced:
        raise CommandFailed(f"{_held(held, registration)}; wait for them, or remove it all the same {_FORCED}")


async def what_stays(manager: Side, registration: Registration, context: str) -> str:
    """What stays on the worker once it is taken out, and the command that removes it; empty if nothing does."""
    from multikueue.jobs.integrations.frameworks import known_kind

    name = registration.cluster
    left = staying(name, (await manager.client.list(WORKLOADS)).items, now())
    owners = {(owner.api_version, owner.kind) for each in left if (owner := any_owner_of(each))}
    if not left:
        return ""
    kinds = [adapter.kind for owner in sorted(owners) if (adapter := known_kind(*owner))]
    resources = ",".join(f"{each.plural}.{each.group}".rstrip(".") for each in (*kinds, WORKLOADS))
    where = f" --context {context or name.upper()}"
    label = f"{ORIGIN_LABEL}={registration.origin}"
    jobs = "The job of 1 workload stays" if len(left) == 1 else f"The jobs of {len(left)} workloads stay"
    removes = f"`kubectl{where} delete {resources} -A -l {label}`"
    return f"{jobs} on {name}, and no manager removes what is there: {removes}. {_some(sorted(each.key for each in left))}."


async def refuse_narrowing(manager: Side, registration: Registration, *, is_forced: bool) -> None:
    """Raise CommandFailed if workloads are in namespaces that a registered worker no longer offers, unless `is_forced`."""
    known = await manager.find(MULTIKUEUE_CLUSTERS, ObjectKey("", registration.cluster))
    if known is None or is_forced or registration.namespaces == EVERYWHERE:
        return
    held = busy(registration.cluster, (await manager.client.list(WORKLOADS)).items)
    outside = [key for key in held if key.namespace not in registration.namespaces]
    if outside:
        what = _held(outside, registration)
        raise CommandFailed(f"{what}; wait for them, name their namespaces, or go on all the same {_FORCED}")


def _held(held: Sequence[ObjectKey], registration: Registration) -> str:
    return f"{len(held)} workloads run on {registration.cluster} or wait there: {_some(held)}"


def _some(keys: Sequence[ObjectKey]) -> str:
    from multikueue.answers.obstacle import names

    return names([str(key) for key in keys])
