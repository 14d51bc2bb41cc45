"""The manager's worker clusters as the CLI sees them: read together, shown as rows and facts."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec.structs import replace

import multikueue.cli.access.without_trust_store  # noqa: F401
from multikueue.answers.findings import cordon_of
from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, SECRETS
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import Condition, ObjectKey, decoder, encode, find_condition
from multikueue.api.multikueue.clusters import (
    DRAINED,
    IN_FLEET,
    KUBECONFIG_KEY,
    MultiKueueCluster,
    MultiKueueConfig,
    clusters_of,
)
from multikueue.cli.access.connection import fetch_pairs
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.nearest import there_are
from multikueue.cli.terminal.output import Column, PrintedList, age, since
from multikueue.cli.terminal.progress import each
from multikueue.errors import ApiError, Forbidden, MultiKueueError, NotFound
from multikueue.kube.auth.expiry import KubeconfigFacts, kubeconfig_facts
from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig
from multikueue.store.workers.watch_scope import EVERYWHERE, namespaces_of

if TYPE_CHECKING:
    from multikueue.kube.client import Client
    from multikueue.kube.cluster_client import ClusterClient

__all__ = [
    "COLUMNS",
    "NO_END",
    "RESOURCE",
    "WorkerCluster",
    "ends",
    "facts",
    "find",
    "gather",
    "listing",
    "looked_at",
    "row",
    "unknown",
]

RESOURCE = "multikueuecluster.kueue.x-k8s.io"

NO_END = "no expiry found"
"""Shown for a credential of unknown expiry."""

PATIENCE = timedelta(seconds=5)
"""Time for a worker's answer in a list."""

COLUMNS = (
    Column("NAME"),
    Column("CONNECTED"),
    Column("REASON"),
    Column("CORDONED"),
    Column("AGE"),
    Column("SINCE", is_wide=True),
    Column("JOBS", is_wide=True),
    Column("VERSION", is_wide=True),
    Column("LATENCY", is_wide=True),
    Column("SERVER", is_wide=True),
    Column("CREDENTIAL", is_wide=True),
    Column("EXPIRES", is_wide=True),
    Column("CONFIGS", is_wide=True),
    Column("MESSAGE", is_wide=True),
)


class WorkerCluster(msgspec.Struct, frozen=True, kw_only=True):
    """One MultiKueueCluster with what belongs to it.

    `item` is the object as the server has it, `source` the place of its kubeconfig, in words; `problem` says why
    `kubeconfig` is empty. `is_unreadable`: because the user may not read it, which is no defect of the cluster. `jobs`: how
    many run there; `version` and `latency`: of the API server, as it answered just now. They are empty if not asked for.
    """

    item: dict[str, Any]
    cluster: MultiKueueCluster
    configs: tuple[str, ...] = ()
    source: str = ""
    kubeconfig: bytes = b""
    problem: str = ""
    is_unreadable: bool = False
    jobs: str = ""
    version: str = ""
    latency: str = ""

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    @property
    def active(self) -> Condition | None:
        return find_condition(self.cluster.status.conditions, ACTIVE)

    @property
    def is_connected(self) -> bool:
        return self.active is not None and self.active.status == "True"

    @property
    def known(self) -> KubeconfigFacts:
        return kubeconfig_facts(self.kubeconfig) if self.kubeconfig else KubeconfigFacts(problem=self.problem)


# --- reading ---------------------------------------------------------------------------------------------------------


async def gather(
    client: ClusterClient,
    namespace: str,
    *,
    should_read_secrets: bool = True,
    names: Collection[str] = (),
    selector: str = "",
) -> tuple[list[WorkerCluster], list[MultiKueueError]]:
    """The clusters of these names, or with these labels, or all, in the natural order of their names; and the names that no
    cluster has, as errors. Without `should_read_secrets` their kubeconfigs are not read."""
    pairs = await fetch_pairs(client, MULTIKUEUE_CLUSTERS, params={"labelSelector": selector} if selector else None)
    configs = (await client.list(MULTIKUEUE_CONFIGS)).items
    known = [_member(item, value, configs, namespace if should_read_secrets else "") for item, value in pairs]
    chosen = [member for member in known if not names or member.name in names]
    there = {member.name for member in chosen}
    failures: list[MultiKueueError] = [unknown(name, known) for name in dict.fromkeys(names) if name not in there]
    if not should_read_secrets:
        return chosen, failures
    read, unread = await each("reading credentials", chosen, lambda member: _with_kubeconfig(client, member, namespace))
    return read, [*failures, *unread]


async def looked_at(
    client: ClusterClient,
    members: Sequence[WorkerCluster],
    connect: Callable[[str, bytes], AbstractAsyncContextManager[Client]],
) -> list[WorkerCluster]:
    """The clusters with what runs there, and what their API servers answer within `PATIENCE`. What the user may not see,
    or does not answer, stays empty."""
    from multikueue.api.kinds import WORKLOADS
    from multikueue.api.kueue.workload import FINISHED

    try:
        there = Counter(
            each.status.cluster_name for each in (await client.list(WORKLOADS)).items if not each.has(FINISHED)
        )
    except Forbidden:
        there = None

    async def look(member: WorkerCluster) -> WorkerCluster:
        version = latency = ""
        with anyio.move_on_after(PATIENCE.total_seconds()), suppress(MultiKueueError):
            if member.kubeconfig:
                check_worker_kubeconfig(member.kubeconfig)
                async with connect(member.name, member.kubeconfig) as worker:
                    version = json.loads(await worker.request("GET", "/version"))["gitVersion"]
                    began = anyio.current_time()
                    await worker.request("GET", "/version")
                    latency = f"{1000 * (anyio.current_time() - began):.0f}ms"
        jobs = "" if there is None else str(there[member.name])
        return replace(member, jobs=jobs, version=version, latency=latency)

    found, _ = await each("asking", members, look)
    return found


async def find(client: ClusterClient, name: str, namespace: str) -> WorkerCluster:
    """One cluster with its kubeconfig, without the configs that name it. Raises NotFound."""
    item = json.loads(await client.request("GET", MULTIKUEUE_CLUSTERS.path(ObjectKey("", name))))
    member = _member(item, decoder(MultiKueueCluster)(encode(item)), (), namespace)
    return await _with_kubeconfig(client, member, namespace)


def unknown(name: str, members: Iterable[WorkerCluster]) -> CommandFailed:
    """That there is no cluster of that name, with the nearest ones."""
    known = there_are(name, (member.name for member in members))
    return CommandFailed(f"there is no MultiKueueCluster {name!r}; {known}")


def _member(
    item: dict[str, Any], cluster: MultiKueueCluster, configs: Sequence[MultiKueueConfig], namespace: str
) -> WorkerCluster:
    naming = tuple(config.metadata.name for config in configs if cluster.metadata.name in clusters_of(config))
    return WorkerCluster(item=item, cluster=cluster, configs=naming, source=_source(cluster, namespace))


def _source(cluster: MultiKueueCluster, namespace: str) -> str:
    from_file, profile = cluster.spec.cluster_source.kube_config, cluster.spec.cluster_source.cluster_profile_ref
    if profile is not None:
        return f"ClusterProfile {profile.name}"
    if from_file is None:
        return ""
    if from_file.location_type == "Path":
        return f"file {from_file.location}"
    return f"Secret {namespace}/{from_file.location}" if namespace else f"Secret {from_file.location}"


async def _with_kubeconfig(client: ClusterClient, member: WorkerCluster, namespace: str) -> WorkerCluster:
    """The cluster with its kubeconfig, or with the reason why there is none."""
    source = member.cluster.spec.cluster_source.kube_config
    if source is None:
        return replace(member, problem="only the manager has the credentials of a ClusterProfile", is_unreadable=True)
    if source.location_type == "Path":
        return replace(member, problem=f"only the manager has the file {source.location}", is_unreadable=True)
    key = ObjectKey(namespace, source.location)
    try:
        return replace(member, kubeconfig=await _from_secret(client, key))
    except Forbidden:
        return replace(member, problem=f"you may not read Secret {key}", is_unreadable=True)
    except NotFound:
        return replace(member, problem=f"Secret {key} is missing: register the cluster again")
    except ApiError as error:
        return replace(member, problem=f"Secret {key} cannot be read: {error.message}")
    except KeyError:
        return replace(member, problem=f"Secret {key} has no key {KUBECONFIG_KEY!r}: register the cluster again")
    except Base64Error:
        return replace(member, problem=f"Secret {key}, key {KUBECONFIG_KEY!r} is not base64")


async def _from_secret(client: ClusterClient, key: ObjectKey) -> bytes:
    return b64decode((await client.get(SECRETS, key)).data[KUBECONFIG_KEY], validate=True)


# --- showing ---------------------------------------------------------------------------------------------------------


def listing(members: Sequence[WorkerCluster], now: datetime) -> PrintedList:
    return PrintedList(
        columns=COLUMNS,
        rows=[row(member, now) for member in members],
        items=[member.item for member in members],
        resource=RESOURCE,
        nothing="No clusters found. Register one: multikueue clusters register --help",
    )


def row(member: WorkerCluster, now: datetime) -> tuple[str, ...]:
    """One cluster as a row of `COLUMNS`."""
    active, known = member.active, member.known
    leaves = find_condition(member.cluster.status.conditions, IN_FLEET)
    return (
        member.name,
        active.status if active else "Unknown",
        ", ".join(each.reason for each in (active, leaves) if each is not None),
        cordon_of(member.cluster),
        age(member.cluster.metadata.creation_timestamp, now),
        age(active.last_transition_time, now) if active and active.last_transition_time else "",
        member.jobs,
        member.version,
        member.latency,
        known.server,
        member.source,
        ends(known.expires, now) or (NO_END if member.kubeconfig and not known.problem else ""),
        ",".join(member.configs),
        member.problem or known.problem or (active.message if active else "no manager has looked at it yet"),
    )


def facts(member: WorkerCluster, now: datetime) -> Iterator[tuple[str, str]]:
    """One cluster in titled lines."""
    active, known = member.active, member.known
    since_when = f", for {age(active.last_transition_time, now)}" if active and active.last_transition_time else ""
    yield "Connected", f"{active.status} ({active.reason}){since_when}" if active else "Unknown"
    yield "Message", active.message if active else "no manager has looked at it yet"
    yield "Cordoned", cordon_of(member.cluster)
    for title, kind in (("Fleet", IN_FLEET), ("Drained", DRAINED)):
        if (told := find_condition(member.cluster.status.conditions, kind)) is not None:
            yield title, f"{told.reason}: {told.message}"
    yield "Age", age(member.cluster.metadata.creation_timestamp, now)
    yield "Credential", member.source
    if member.problem or known.problem:
        yield "Problem", member.problem or known.problem
    else:
        yield "Server", known.server
        yield "Expires", f"{known.expires:%Y-%m-%d %H:%M} UTC, {ends(known.expires, now)}" if known.expires else NO_END
    yield "Namespaces", _namespaces(member)
    yield "Configs", ", ".join(member.configs) or "none: add it to a MultiKueueConfig, or nothing is sent to it"


def _namespaces(member: WorkerCluster) -> str:
    offered = namespaces_of(member.cluster)
    return "all" if offered == EVERYWHERE else ", ".join(offered) or "none: nothing is sent to it"


def ends(moment: datetime | None, now: datetime) -> str:
    """The time until a credential ends; empty if no end is known."""
    if moment is None:
        return ""
    return f"in {since(moment - now)}" if moment > now else f"{since(now - moment)} ago"
