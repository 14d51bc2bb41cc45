"""The steps of joining and leaving a worker, in one file: in an order in which a second run finishes what the first left."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime, timedelta
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from multikueue.answers.findings import Finding
from multikueue.api.kind import Kind
from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM
from multikueue.api.kueue.workload import FINISHED, Workload, logs_until
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, KUBECONFIG_KEY, MultiKueueCluster, other_than
from multikueue.errors import ConfigurationError, Forbidden, Invalid, MultiKueueError, NotFound, Unauthorized
from multikueue.kube.auth.expiry import kubeconfig_facts
from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig, parse
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import definitions
from multikueue.kube.nonce import Unproven, common_place, is_same_cluster, proof_key
from multikueue.kube.renewal import request_token
from multikueue.registration.accounts import hub_objects
from multikueue.registration.choices import DEFAULT_VALIDITY, CredentialKind
from multikueue.registration.credentials import (
    Credential,
    Endpoint,
    build_kubeconfig,
    request_certificate,
)
from multikueue.registration.ownership import Side
from multikueue.registration.plan import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LABELS,
    MANAGER_UID_ANNOTATION,
    ROLE_BINDINGS,
    ROLES,
    Registration,
    Wanted,
    is_name,
    manager_objects,
    worker_objects,
)
from multikueue.registration.preflight import missing_rights, preflight, routes
from multikueue.store.workers.watch_scope import namespaces_of

__all__ = ["Joined", "Request", "adopt", "busy", "grant", "join", "leave"]

SHORTEST_VALIDITY = timedelta(minutes=10)
"""The API server's minimum for tokens and certificates."""

SETTLE_ROUNDS = 10
SETTLE_PAUSE = timedelta(milliseconds=500)

Connect = Callable[[bytes], AbstractAsyncContextManager[ClusterClient]]
"""A connection to the cluster of a kubeconfig."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's request. `endpoint` is the worker's address for the manager, `here` the one for this command. `moment`:
    the time now, at which a credential that the manager has is kept if it does not end soon; None: it gets a new one."""

    registration: Registration
    endpoint: Endpoint
    here: Endpoint
    credential: CredentialKind = CredentialKind.AUTO
    validity: timedelta = DEFAULT_VALIDITY
    config: str = ""
    moment: datetime | None = None

    def __post_init__(self) -> None:
        if self.config and not is_name(self.config):
            raise ConfigurationError(f"config name {self.config!r}: expected lower case letters, digits, '-' and '.'")
        if self.validity < SHORTEST_VALIDITY:
            raise ConfigurationError(f"validity {self.validity}: expected at least 10 minutes, no server grants less")


class Joined(msgspec.Struct, frozen=True):
    """The credential the manager now has, and the findings of a preflight with it."""

    credential: Credential
    findings: tuple[Finding, ...]


async def join(
    request: Request, *, worker: Side, manager: Side, connect: Connect, say: Callable[[str], None]
) -> Joined | None:
    """Prepare the worker, get a credential, try it, and only then store it on the manager.

    Returns None after a dry run. Raises, before the first write, InvalidObject if an object of a wanted name is not ours
    on either side, ConfigurationError if both sides are one cluster or another name leads to the worker; and the errors
    of the servers.
    """
    registration = request.registration
    _check_endpoint(request)
    manager_uid = await _refuse_one_cluster(worker.client, manager.client)
    await _refuse_missing_namespaces(registration, worker)
    account = worker_objects(
        registration, has_user=request.credential is CredentialKind.CERTIFICATE, manager_uid=manager_uid
    )
    await worker.refuse_foreign(account)
    await manager.refuse_foreign(manager_objects(registration))
    await _refuse_other_manager(registration, worker, manager_uid)
    await _refuse_second_name(request, worker, manager.client, connect, say)
    await _ensure_all(worker, account)
    await _remove_all(worker, await _roles_elsewhere(registration, worker))
    if worker.dry_run:
        await _register_on_manager(manager, request, b"each run brings a new one")
        return None
    kept = await _kept(request, manager.client)
    try:
        if kept is not None:
            return await _conclude(request, kept, worker, manager, connect, say)
    except Unauthorized:
        say(f"{worker.where} refuses the credential that the manager has")
    say(f"asking {worker.where} for a credential")
    return await _conclude(request, await _issue(request, worker, say), worker, manager, connect, say)


async def adopt(registration: Registration, config: str, manager: Side) -> None:
    """Join a worker that the manager reaches by a ClusterProfile. Raises InvalidObject for a MultiKueueCluster that is not
    ours."""
    objects = manager_objects(registration)
    await manager.refuse_foreign(objects)
    await _ensure_all(manager, objects)
    if config:
        await manager.add_to_config(config, registration.cluster)


async def grant(registration: Registration, hub: Side) -> None:
    """Have the agents of an OCM hub make the account on a worker, with its rights. Its token comes to the hub, where a fleet
    takes it (`registration.members`).

    Raises InvalidObject for rights that are not ours, ConfigurationError where the hub has no such kinds, or no namespace for
    the cluster.
    """
    objects = hub_objects(registration, manager_uid=await _cluster_id(hub.client))
    await hub.refuse_foreign(objects)
    await _ensure_all(hub, objects)


async def _kept(request: Request, manager: ClusterClient) -> Credential | None:
    """The credential that the manager has, if it is for the same address, of a kind that is asked for, and not about to end."""
    registration, moment = request.registration, request.moment
    try:
        secret = await manager.get(SECRETS, registration.secret)
        kubeconfig = b64decode(secret.data.get(KUBECONFIG_KEY, ""))
        (_, user), *others = parse(kubeconfig).each_user()
    except (NotFound, Forbidden, ConfigurationError, ValueError):
        return None
    validity = kubeconfig_facts(kubeconfig).validity
    if moment is None or others or validity is None or validity.warn_at <= moment:
        return None
    proof = {
        "client-certificate-data": user.client_certificate_data or "",
        "client-key-data": user.client_key_data or "",
    }
    credential = (
        Credential(kind="token", user={"token": user.token}, expires=validity.end)
        if user.token
        else Credential(kind="certificate", user=proof, expires=validity.end)
    )
    is_same = build_kubeconfig(registration.cluster, request.endpoint, credential) == kubeconfig
    return credential if is_same and request.credential in (CredentialKind.AUTO, credential.kind) else None


async def _conclude(
    request: Request,
    credential: Credential,
    worker: Side,
    manager: Side,
    connect: Connect,
    say: Callable[[str], None],
) -> Joined:
    """Try the credential, store it, and look at the worker with it. Raises Unauthorized if the worker refuses it."""
    registration = request.registration
    async with connect(build_kubeconfig(registration.cluster, request.here, credential)) as client:
        await _settle(client, registration.namespaces)
        await _register_on_manager(
            manager, request, build_kubeconfig(registration.cluster, request.endpoint, credential)
        )
        say(f"looking at {worker.where} with {'its' if request.moment else 'the new'} credential")
        queues = (await routes(manager.client)).queues_to(registration.cluster)
        ours = await definitions(manager.client)
        findings = await preflight(client, queues, namespaces=registration.namespaces, ours=ours)
    return Joined(credential, findings)


async def leave(registration: Registration, *, manager: Side, worker: Side | None = None) -> None:
    """Remove the worker: first from the manager, so that the credential is no longer used, with what `grant` made, then its
    rights on the worker.

    Raises InvalidObject if the MultiKueueCluster is not ours; other objects that are not ours stay, and are reported.
    """
    await manager.refuse_foreign(manager_objects(registration)[-1:])
    needing = await _needing(registration, worker, manager.client) if worker is not None else ""
    for config in (await manager.client.list(MULTIKUEUE_CONFIGS)).items:
        await manager.remove_from_config(config.metadata.name, registration.cluster)
    await manager.remove(MULTIKUEUE_CLUSTERS, ObjectKey("", registration.cluster))
    await manager.remove(SECRETS, registration.secret)
    for one in reversed(hub_objects(registration)):
        with suppress(Forbidden):
            if await manager.find(one.kind, one.key) is not None:
                await manager.remove(one.kind, one.key)
    if worker is None:
        return
    granted = await _roles_elsewhere(replace(registration, run_in=()), worker)
    everywhere = ObjectKey("", registration.account.name)
    renewal = (ROLE_BINDINGS, registration.renewal), (ROLES, registration.renewal)
    account = (CLUSTER_ROLE_BINDINGS, everywhere), (CLUSTER_ROLES, everywhere), (SERVICE_ACCOUNTS, registration.account)
    for kind, key in (*granted, *renewal, *account):
        if needing:
            await worker.leave(kind, key, needing)
        else:
            await worker.remove(kind, key)


async def _roles_elsewhere(registration: Registration, worker: Side) -> tuple[tuple[Kind[Any], ObjectKey], ...]:
    """Roles and bindings of an earlier registration in namespaces that are not in this one."""
    found = [(kind, item) for kind in (ROLE_BINDINGS, ROLES) for item in (await worker.client.list(kind)).items]
    return tuple(
        (kind, item.key)
        for kind, item in found
        if item.key.name == registration.account.name
        and item.metadata.labels.items() >= LABELS.items()
        and item.key.namespace not in registration.run_in
    )


async def _remove_all(side: Side, objects: Iterable[tuple[Kind[Any], ObjectKey]]) -> None:
    for kind, key in objects:
        await side.remove(kind, key)


def busy(cluster: str, workloads: Iterable[Workload]) -> tuple[ObjectKey, ...]:
    """The workloads that run on the cluster, or have a copy that waits there."""
    return tuple(
        sorted(
            workload.key
            for workload in workloads
            if not workload.has(FINISHED)
            and (workload.status.cluster_name == cluster or cluster in workload.status.nominated_cluster_names)
        )
    )


def staying(cluster: str, workloads: Sequence[Workload], now: datetime) -> list[Workload]:
    """Those whose copies and jobs nobody removes once the cluster is taken out: what runs or waits there, and what has ended
    and is kept for its logs."""
    held, found = set(busy(cluster, workloads)), list[Workload]()
    for workload in workloads:
        until = logs_until(workload)
        is_kept = until is not None and until > now and workload.status.cluster_name == cluster
        if is_kept or workload.key in held:
            found.append(workload)
    return found


def _check_endpoint(request: Request) -> None:
    """Checks contract 2.2 before the first write. Only the endpoint can violate it: we generate the rest."""
    example = Credential(kind="token", user={"token": "example"}, expires=None)
    check_worker_kubeconfig(build_kubeconfig(request.registration.cluster, request.endpoint, example))


async def _refuse_one_cluster(worker: ClusterClient, manager: ClusterClient) -> str:
    """The UID of kube-system is what tells clusters apart; who may not read it is not checked. Answers the manager's."""
    ids = [await _cluster_id(client) for client in (worker, manager)]
    if ids[0] and ids[0] == ids[1]:
        raise ConfigurationError(
            "the worker and the manager are the same cluster: give the worker with --context or --kubeconfig,"
            " the manager with --manager-context or --manager-kubeconfig"
        )
    return ids[1]


async def _refuse_other_manager(registration: Registration, worker: Side, manager_uid: str) -> None:
    """Two managers with one origin each take the other's jobs for their own, and remove them."""
    other = await _other_manager(registration, worker, manager_uid)
    if other:
        role = registration.account.name
        raise ConfigurationError(
            f"another manager cluster, whose kube-system has the UID {other}, uses {worker.where} with the origin"
            f" {registration.origin}: give this one an origin of its own, with --origin and the setting dispatch.origin; if"
            f" the other one is gone for good: kubectl annotate clusterrole {role} {MANAGER_UID_ANNOTATION}-"
        )


async def _other_manager(registration: Registration, worker: Side, manager_uid: str) -> str:
    """The UID of the manager cluster that the worker's account is for, if it is another one."""
    role = await worker.find(CLUSTER_ROLES, ObjectKey("", registration.account.name))
    marked = (role["metadata"].get("annotations") or {}).get(MANAGER_UID_ANNOTATION, "") if role else ""
    return str(marked) if manager_uid and marked != manager_uid else ""


async def _refuse_missing_namespaces(registration: Registration, worker: Side) -> None:
    for name in registration.run_in:
        if await worker.find(NAMESPACES, ObjectKey("", name)) is None:
            raise ConfigurationError(f"{worker.where} has no namespace {name}: create it first, or leave it out")


async def _refuse_second_name(
    request: Request, worker: Side, manager: ClusterClient, connect: Connect, say: Callable[[str], None]
) -> None:
    """Raises ConfigurationError if another name leads to the worker. A name that has the same identity recorded does if a
    nonce proves it: it may be of a cluster that lies, and must not keep an honest one out."""
    registration, same = request.registration, []
    for cluster in await _namesakes(registration, request.endpoint.server, worker.client, manager):
        name = cluster.metadata.name
        try:
            is_same = await _is_same(cluster, registration, worker, manager, connect)
        except Unproven as error:
            say(
                f"{name} has the same identity; if it is the same cluster, the manager will use one name only ({error})"
            )
            continue
        if is_same:
            same.append(name)
        else:
            say(
                f"{name} has the same identity, and is another cluster: one of the two lies, or was restored from a backup"
            )
    if same:
        raise ConfigurationError(f"the worker is registered already, as {', '.join(same)}: remove that name first")


async def _is_same(
    cluster: MultiKueueCluster, registration: Registration, worker: Side, manager: ClusterClient, connect: Connect
) -> bool:
    """Whether a name leads to the worker: by its address, or by a nonce. Raises Unproven if nothing can be told from here."""
    if CLUSTER_UID_ANNOTATION not in cluster.metadata.annotations:
        return True
    source, place = cluster.spec.cluster_source.kube_config, common_place(namespaces_of(cluster))
    if worker.dry_run:
        raise Unproven("a dry run writes nothing to prove it")
    if source is None or source.location_type != "Secret" or not place:
        raise Unproven("it cannot be looked at from here")
    try:
        secret = await manager.get(SECRETS, ObjectKey(registration.namespace, source.location))
        kubeconfig = b64decode(secret.data.get(KUBECONFIG_KEY, ""))
        check_worker_kubeconfig(kubeconfig)
        async with connect(kubeconfig) as reader:
            key = proof_key(place, registration.origin, registration.cluster)
            return await is_same_cluster(worker.client, reader, key)
    except Unproven:
        raise
    except (MultiKueueError, ValueError) as error:
        raise Unproven(f"it cannot be looked at from here: {error}") from error


async def _needing(registration: Registration, worker: Side, manager: ClusterClient) -> str:
    """Why the account on the worker is needed when this name is gone; empty if it is not."""
    found = await _namesakes(registration, "", worker.client, manager)
    if found:
        return f"{', '.join(each.metadata.name for each in found)} leads to the same cluster"
    other = await _other_manager(registration, worker, await _cluster_id(manager))
    return f"it is for another manager cluster, whose kube-system has the UID {other}" if other else ""


async def _namesakes(
    registration: Registration, server: str, worker: ClusterClient, manager: ClusterClient
) -> tuple[MultiKueueCluster, ...]:
    """The other names that may lead to a worker: by its identity, or, where that is not known, by its address, which is that
    of the name itself unless another one is given. Those that a manager has proven to lead elsewhere are none."""
    uid = await _cluster_id(worker)
    server = server or await _server(manager, registration.secret)
    try:
        clusters = (await manager.list(MULTIKUEUE_CLUSTERS)).items
    except NotFound:
        return ()
    found: list[MultiKueueCluster] = []
    proven = {each.metadata.name: other_than(each) for each in clusters}
    for cluster in clusters:
        source, known = (
            cluster.spec.cluster_source.kube_config,
            cluster.metadata.annotations.get(CLUSTER_UID_ANNOTATION),
        )
        name, own = cluster.metadata.name, registration.cluster
        if name == own or name in proven.get(own, ()) or own in proven[name]:
            continue
        if known is None and server and source is not None and source.location_type == "Secret":
            leads = await _server(manager, ObjectKey(registration.namespace, source.location)) == server
        else:
            leads = bool(uid) and known == uid
        found += [cluster] if leads else []
    return tuple(found)


async def _server(manager: ClusterClient, secret: ObjectKey) -> str:
    """Where the kubeconfig in a Secret leads; empty if it says nothing."""
    try:
        data = (await manager.get(SECRETS, secret)).data.get(KUBECONFIG_KEY, "")
        return kubeconfig_facts(b64decode(data)).server
    except (NotFound, Forbidden, ValueError):
        return ""


async def _ensure_all(side: Side, wanted: Iterable[Wanted]) -> None:
    for one in wanted:
        await side.ensure(one)


async def _register_on_manager(manager: Side, request: Request, kubeconfig: bytes) -> None:
    await _ensure_all(manager, manager_objects(request.registration, kubeconfig))
    if request.config:
        await manager.add_to_config(request.config, request.registration.cluster)


async def _issue(request: Request, worker: Side, say: Callable[[str], None]) -> Credential:
    registration = request.registration
    if request.credential is not CredentialKind.CERTIFICATE:
        try:
            token, end = await request_token(worker.client, registration.account, request.validity)
            return Credential(kind="token", user={"token": token}, expires=end)
        except (NotFound, Forbidden, Invalid) as refusal:
            if request.credential is CredentialKind.TOKEN:
                raise
            say(f"{worker.where} gives no token ({refusal}); asking for a client certificate instead")
            bindings = (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
            await _ensure_all(worker, (o for o in worker_objects(registration, has_user=True) if o.kind in bindings))
    return await request_certificate(worker.client, registration.user, request.validity)


async def _settle(client: ClusterClient, namespaces: Sequence[str]) -> None:
    """Wait until the server knows of the new account and binding, which takes it a moment after it has stored them.

    Raises Unauthorized if it never accepts the credential; rights that stay missing are reported by the preflight.
    """
    refusal: Unauthorized | None = None
    for _ in range(SETTLE_ROUNDS):
        try:
            refusal = None
            if not any((await missing_rights(client, namespaces=namespaces)).values()):
                return
        except Unauthorized as error:
            refusal = error
        await anyio.sleep(SETTLE_PAUSE.total_seconds())
    if refusal is not None:
        raise refusal


async def _cluster_id(client: ClusterClient) -> str:
    try:
        return (await client.get(NAMESPACES, KUBE_SYSTEM)).metadata.uid
    except (NotFound, Forbidden):
        return ""
