"""The manager's worker clusters as the CLI sees them: read together, shown as rows and facts, checked side by side."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import anyio

from multikueue.api.kinds import DEFINITIONS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, SECRETS, WORKLOADS, Kind
from multikueue.api.meta import Condition, ObjectKey, decoder, encode, find_condition
from multikueue.api.multikueue import ACTIVE, KUBECONFIG_KEY, MultiKueueCluster, MultiKueueConfig
from multikueue.cli.connection import fetch_pairs
from multikueue.cli.exit import CommandFailed
from multikueue.cli.output import Column, Listing, age, since
from multikueue.controllers.annotated import annotated_kinds
from multikueue.controllers.declaring import declaration_of
from multikueue.controllers.registration.credentials import KubeconfigFacts, kubeconfig_facts
from multikueue.controllers.registration.join import busy
from multikueue.controllers.registration.ownership import Client, Side
from multikueue.controllers.registration.plan import Registration
from multikueue.controllers.registration.preflight import Finding, Level, Routes, preflight, routes
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, MultiKueueError, NotFound, Unauthorized
from multikueue.jobs.declared import DeclaredJob
from multikueue.kube.kubeconfig import InsecureKubeconfig, check_worker_kubeconfig
from multikueue.settings import DeclaredKind

__all__ = [
    "RESOURCE",
    "Member",
    "Report",
    "check_all",
    "declared",
    "facts",
    "find",
    "findings_listing",
    "gather",
    "listing",
    "pick",
]

RESOURCE = "multikueuecluster.kueue.x-k8s.io"
SOON = timedelta(days=3)
"""A credential that ends within this time is worth a warning."""

SHOWN = 10
"""Names in one message."""

COLUMNS = (
    Column("NAME"),
    Column("CONNECTED"),
    Column("REASON"),
    Column("AGE"),
    Column("SERVER", wide=True),
    Column("CREDENTIAL", wide=True),
    Column("EXPIRES", wide=True),
    Column("CONFIGS", wide=True),
    Column("MESSAGE", wide=True),
)

Connect = Callable[[str, bytes], AbstractAsyncContextManager[Client]]
"""A connection to the worker of that name by that kubeconfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One MultiKueueCluster with what belongs to it.

    `item` is the object as the server has it, `source` where its kubeconfig is, in words; `problem` says why
    `kubeconfig` is empty. `hidden`: not for anything wrong with it, but since it is not for us to see.
    """

    item: dict[str, Any]
    cluster: MultiKueueCluster
    configs: tuple[str, ...] = ()
    source: str = ""
    kubeconfig: bytes = b""
    problem: str = ""
    hidden: bool = False

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    @property
    def active(self) -> Condition | None:
        return find_condition(self.cluster.status.conditions, ACTIVE)

    @property
    def known(self) -> KubeconfigFacts:
        return kubeconfig_facts(self.kubeconfig) if self.kubeconfig else KubeconfigFacts(problem=self.problem)


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found on one cluster."""

    cluster: str
    findings: tuple[Finding, ...]


# --- reading ---------------------------------------------------------------------------------------------------------


async def gather(client: Client, namespace: str, *, secrets: bool = True) -> list[Member]:
    """All clusters in the order of their names; without `secrets` their kubeconfigs are not read."""
    pairs = await fetch_pairs(client, MULTIKUEUE_CLUSTERS)
    configs = (await client.list(MULTIKUEUE_CONFIGS)).items
    return [await _member(client, item, value, configs, namespace if secrets else "") for item, value in pairs]


async def find(client: Client, name: str, namespace: str) -> Member:
    """One cluster with its kubeconfig, and without what it belongs to. Raises NotFound."""
    item = json.loads(await client.request("GET", MULTIKUEUE_CLUSTERS.path(ObjectKey("", name))))
    return await _member(client, item, decoder(MultiKueueCluster)(encode(item)), (), namespace)


def pick(members: Sequence[Member], name: str) -> Member:
    """The cluster of that name; raises CommandFailed that lists the known ones."""
    for member in members:
        if member.name == name:
            return member
    known = ", ".join(member.name for member in members) or "none"
    raise CommandFailed(f"there is no MultiKueueCluster {name!r}; there are: {known}")


async def _member(
    client: Client,
    item: dict[str, Any],
    cluster: MultiKueueCluster,
    configs: Sequence[MultiKueueConfig],
    namespace: str,
) -> Member:
    naming = tuple(config.metadata.name for config in configs if cluster.metadata.name in config.spec.clusters)
    member = Member(item=item, cluster=cluster, configs=naming, source=_source(cluster, namespace))
    return await _with_kubeconfig(client, member, namespace) if namespace else member


def _source(cluster: MultiKueueCluster, namespace: str) -> str:
    from_file, profile = cluster.spec.cluster_source.kube_config, cluster.spec.cluster_source.cluster_profile_ref
    if profile is not None:
        return f"ClusterProfile {profile.name}"
    if from_file is None:
        return ""
    if from_file.location_type == "Path":
        return f"file {from_file.location}"
    return f"Secret {namespace}/{from_file.location}" if namespace else f"Secret {from_file.location}"


async def _with_kubeconfig(client: Client, member: Member, namespace: str) -> Member:
    """With its kubeconfig, or why there is none to be had."""
    source = member.cluster.spec.cluster_source.kube_config
    if source is None:
        return replace(member, problem="only the manager has the credentials of a ClusterProfile", hidden=True)
    if source.location_type == "Path":
        return replace(member, problem=f"only the manager has the file {source.location}", hidden=True)
    key = ObjectKey(namespace, source.location)
    try:
        return replace(member, kubeconfig=await _from_secret(client, key))
    except Forbidden:
        return replace(member, problem=f"you may not read Secret {key}", hidden=True)
    except NotFound:
        return replace(member, problem=f"Secret {key} is missing: register the cluster again")
    except ApiError as error:
        return replace(member, problem=f"Secret {key} cannot be read: {error.message}")
    except KeyError:
        return replace(member, problem=f"Secret {key} has no key {KUBECONFIG_KEY!r}: register the cluster again")
    except Base64Error:
        return replace(member, problem=f"Secret {key}, key {KUBECONFIG_KEY!r} is not base64")


async def _from_secret(client: Client, key: ObjectKey) -> bytes:
    return b64decode((await client.get(SECRETS, key)).data[KUBECONFIG_KEY], validate=True)


# --- showing ---------------------------------------------------------------------------------------------------------


def listing(members: Sequence[Member], now: datetime) -> Listing:
    return Listing(
        columns=COLUMNS,
        rows=[_row(member, now) for member in members],
        items=[member.item for member in members],
        resource=RESOURCE,
        nothing="No clusters found. Register one: multikueue clusters register --help",
    )


def _row(member: Member, now: datetime) -> tuple[str, ...]:
    active, known = member.active, member.known
    return (
        member.name,
        active.status if active else "Unknown",
        active.reason if active else "",
        age(member.cluster.metadata.creation_timestamp, now),
        known.server,
        member.source,
        ends(known.expires, now),
        ",".join(member.configs),
        member.problem or known.problem or (active.message if active else "no manager has looked at it yet"),
    )


def facts(member: Member, now: datetime) -> Iterator[tuple[str, str]]:
    """One cluster in titled lines."""
    active, known = member.active, member.known
    since_when = f", for {age(active.last_transition_time, now)}" if active and active.last_transition_time else ""
    yield "Connected", f"{active.status} ({active.reason}){since_when}" if active else "Unknown"
    yield "Message", active.message if active else "no manager has looked at it yet"
    yield "Age", age(member.cluster.metadata.creation_timestamp, now)
    yield "Credential", member.source
    if member.problem or known.problem:
        yield "Problem", member.problem or known.problem
    else:
        yield "Server", known.server
        yield "Expires", f"{known.expires:%Y-%m-%d %H:%M} UTC, {ends(known.expires, now)}" if known.expires else "never"
    yield "Configs", ", ".join(member.configs) or "none: add it to a MultiKueueConfig, or nothing is sent to it"


def ends(moment: datetime | None, now: datetime) -> str:
    """How far away the end of a credential is; empty if it has none that is known."""
    if moment is None:
        return ""
    return f"in {since(moment - now)}" if moment > now else f"{since(now - moment)} ago"


def findings_listing(reports: Sequence[Report]) -> Listing:
    """One row for each finding; programs get them as objects in place of Kubernetes objects."""
    found = [(report.cluster, finding) for report in reports for finding in report.findings]
    return Listing(
        columns=(Column("CLUSTER"), Column("RESULT"), Column("CHECK"), Column("DETAIL")),
        rows=[(cluster, finding.level, finding.subject, finding.detail) for cluster, finding in found],
        items=[{"metadata": {"name": cluster}, **asdict(finding)} for cluster, finding in found],
        resource=RESOURCE,
        nothing="No clusters found.",
    )


# --- checking --------------------------------------------------------------------------------------------------------


async def declared(manager: Client, own: Sequence[DeclaredKind]) -> tuple[Kind[Any], ...]:
    """The kinds of jobs that are declared, by the settings or by definitions on the manager cluster, if we may see those."""
    kinds = tuple(DeclaredJob(declaration_of(each)).kind for each in own)
    try:
        definitions = (await manager.list(DEFINITIONS)).items
    except Forbidden:
        return kinds
    return (*kinds, *annotated_kinds(definitions, [kind.name for kind in kinds]))


async def check_all(
    manager: Client,
    members: Sequence[Member],
    *,
    connect: Connect,
    moment: datetime,
    kinds: Sequence[Kind[Any]] = (),
) -> list[Report]:
    """Check the clusters side by side; one that hangs delays only the end. `kinds` are those that are declared."""
    way = await routes(manager)
    reports: dict[str, Report] = {}

    async def check(member: Member) -> None:
        reports[member.name] = await _check(member, way, kinds, connect=connect, moment=moment)

    async with anyio.create_task_group() as tasks:
        for member in members:
            tasks.start_soon(check, member)
    return [reports[member.name] for member in members]


async def _check(
    member: Member, way: Routes, kinds: Sequence[Kind[Any]], *, connect: Connect, moment: datetime
) -> Report:
    known = [_connection(member), _membership(member), _credential(member, moment)]
    if known[-1].level in ("failed", "unchecked"):
        return Report(member.name, tuple(known))
    try:
        async with connect(member.name, member.kubeconfig) as worker:
            found = await preflight(worker, way.queues_to(member.name), kinds)
    except ClusterUnreachable as error:
        return Report(member.name, (*known, Finding("unreachable", "API server", error.why)))
    except Unauthorized:
        refused = Finding("failed", "credential", "the worker refuses it: register the cluster again")
        return Report(member.name, (*known, refused))
    except MultiKueueError as error:
        return Report(member.name, (*known, Finding("failed", "API server", str(error))))
    return Report(member.name, (*known, *found))


def _connection(member: Member) -> Finding:
    active = member.active
    if active is None:
        return Finding("warning", "manager's connection", "no manager has looked at the cluster yet: does it run?")
    level: Level = "ok" if active.status == "True" else "warning"
    return Finding(level, "manager's connection", f"{active.reason}: {active.message}")


def _membership(member: Member) -> Finding:
    if member.configs:
        return Finding("ok", "configs", ", ".join(member.configs))
    return Finding("warning", "configs", "no MultiKueueConfig names it, so nothing is sent to it")


def _credential(member: Member, moment: datetime) -> Finding:
    if member.hidden:
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
        return Finding("ok", "credential", "has no end that could be read")
    if known.expires <= moment:
        return Finding("failed", "credential", f"ended {ends(known.expires, moment)}: register the cluster again")
    level: Level = "warning" if known.expires - moment < SOON else "ok"
    return Finding(level, "credential", f"ends {ends(known.expires, moment)}")


# --- removing --------------------------------------------------------------------------------------------------------


async def refuse_removal(manager: Side, registration: Registration, *, force: bool) -> None:
    """Raise CommandFailed if there is nothing to remove, or if workloads are still there and `force` is off."""
    members = await gather(manager.client, registration.namespace, secrets=False)
    if await manager.find(SECRETS, registration.secret) is None:
        pick(members, registration.cluster)
    held = busy(registration.cluster, (await manager.client.list(WORKLOADS)).items)
    if not held or force:
        return
    names = ", ".join(map(str, held[:SHOWN])) + (f" and {len(held) - SHOWN} more" if len(held) > SHOWN else "")
    raise CommandFailed(
        f"{len(held)} workloads run on {registration.cluster} or wait there: {names};"
        " wait for them, or remove it all the same with --force (what is there then stays there)"
    )
