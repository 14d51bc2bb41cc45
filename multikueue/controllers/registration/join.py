"""The order of things when a worker joins or leaves: nothing is half done that a second run would not finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta

import anyio

from multikueue.api.kinds import (
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    SECRETS,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.workload import FINISHED, Workload
from multikueue.controllers.registration.credentials import (
    Credential,
    Endpoint,
    build_kubeconfig,
    request_certificate,
    request_token,
)
from multikueue.controllers.registration.ownership import Client, Side, ask
from multikueue.controllers.registration.plan import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEFAULT_VALIDITY,
    SERVICE_ACCOUNTS,
    CredentialKind,
    Registration,
    Wanted,
    is_name,
    manager_objects,
    worker_objects,
)
from multikueue.controllers.registration.preflight import Finding, missing_rights, preflight, routes
from multikueue.errors import ConfigurationError, Forbidden, Invalid, NotFound, Unauthorized
from multikueue.kube.kubeconfig import check_worker_kubeconfig

__all__ = ["Joined", "Request", "busy", "join", "leave"]

SHORTEST_VALIDITY = timedelta(minutes=10)
"""What the API server demands of a token and of a certificate alike."""

SETTLE_ROUNDS = 10
SETTLE_PAUSE_SECONDS = 0.5

Connect = Callable[[bytes], AbstractAsyncContextManager[Client]]
"""A connection to the cluster of a kubeconfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the operator asked for. `endpoint` is how the manager reaches the worker, `here` how we do."""

    registration: Registration
    endpoint: Endpoint
    here: Endpoint
    credential: CredentialKind = CredentialKind.AUTO
    validity: timedelta = DEFAULT_VALIDITY
    config: str = ""

    def __post_init__(self) -> None:
        if self.config and not is_name(self.config):
            raise ConfigurationError(f"config name {self.config!r}: expected lower case letters, digits, '-' and '.'")
        if self.validity < SHORTEST_VALIDITY:
            raise ConfigurationError(f"validity {self.validity}: expected at least 10 minutes, no server grants less")


@dataclass(frozen=True, slots=True)
class Joined:
    """The credential the manager now has, and what it found on the worker with it."""

    credential: Credential
    findings: tuple[Finding, ...]


async def join(
    request: Request, *, worker: Side, manager: Side, connect: Connect, say: Callable[[str], None]
) -> Joined | None:
    """Make the worker ready, get a credential, try it, and only then hand it to the manager.

    None after a dry run. Raises InvalidObject before the first write if a name is taken by somebody else on either
    side, ConfigurationError if both sides are one cluster, and what the servers answer.
    """
    registration = request.registration
    _check_endpoint(request)
    await _refuse_one_cluster(worker.client, manager.client)
    await worker.refuse_foreign(worker_objects(registration))
    await manager.refuse_foreign(manager_objects(registration))
    await _ensure_all(worker, worker_objects(registration, with_user=request.credential is CredentialKind.CERTIFICATE))
    if worker.dry_run:
        await _tell_manager(manager, request, b"each run brings a new one")
        return None
    say(f"asking {worker.where} for a credential")
    credential = await _issue(request, worker, say)
    async with connect(build_kubeconfig(registration.cluster, request.here, credential)) as client:
        await _settle(client)
        await _tell_manager(manager, request, build_kubeconfig(registration.cluster, request.endpoint, credential))
        say(f"looking at {worker.where} with the new credential")
        findings = await preflight(client, (await routes(manager.client)).queues_to(registration.cluster))
    return Joined(credential, findings)


async def leave(registration: Registration, *, manager: Side, worker: Side | None = None) -> None:
    """Take the worker out: first from the manager, so that nobody uses the credential, then its rights on the worker.

    Raises InvalidObject if the MultiKueueCluster is not ours; other objects that are not ours stay, and are reported.
    """
    await manager.refuse_foreign(manager_objects(registration)[-1:])
    for config in (await manager.client.list(MULTIKUEUE_CONFIGS)).items:
        await manager.remove_from_config(config.metadata.name, registration.cluster)
    await manager.remove(MULTIKUEUE_CLUSTERS, ObjectKey("", registration.cluster))
    await manager.remove(SECRETS, registration.secret)
    if worker is None:
        return
    everywhere = ObjectKey("", registration.account.name)
    await worker.remove(CLUSTER_ROLE_BINDINGS, everywhere)
    await worker.remove(CLUSTER_ROLES, everywhere)
    await worker.remove(SERVICE_ACCOUNTS, registration.account)


def busy(cluster: str, workloads: Iterable[Workload]) -> tuple[ObjectKey, ...]:
    """The workloads that hold something on the cluster: they run there, or have a copy that waits there."""
    return tuple(
        sorted(
            workload.key
            for workload in workloads
            if not workload.has(FINISHED)
            and (workload.status.cluster_name == cluster or cluster in workload.status.nominated_cluster_names)
        )
    )


def _check_endpoint(request: Request) -> None:
    """Contract 2.2, before anything is written: what can break it is the endpoint, the rest is ours."""
    example = Credential(kind="token", user={"token": "example"}, expires=None)
    check_worker_kubeconfig(build_kubeconfig(request.registration.cluster, request.endpoint, example))


async def _refuse_one_cluster(worker: Client, manager: Client) -> None:
    """The UID of kube-system is what tells clusters apart; who may not read it is not checked."""
    ids = [await _cluster_id(client) for client in (worker, manager)]
    if ids[0] and ids[0] == ids[1]:
        raise ConfigurationError(
            "the worker and the manager are the same cluster: give the worker with --context or --kubeconfig,"
            " the manager with --manager-context or --manager-kubeconfig"
        )


async def _ensure_all(side: Side, wanted: Iterable[Wanted]) -> None:
    for one in wanted:
        await side.ensure(one)


async def _tell_manager(manager: Side, request: Request, kubeconfig: bytes) -> None:
    await _ensure_all(manager, manager_objects(request.registration, kubeconfig))
    if request.config:
        await manager.add_to_config(request.config, request.registration.cluster)


async def _issue(request: Request, worker: Side, say: Callable[[str], None]) -> Credential:
    registration = request.registration
    if request.credential is not CredentialKind.CERTIFICATE:
        try:
            return await request_token(worker.client, registration.account, request.validity)
        except (NotFound, Forbidden, Invalid) as refusal:
            if request.credential is CredentialKind.TOKEN:
                raise
            say(f"{worker.where} gives no token ({refusal}); asking for a client certificate instead")
            await worker.ensure(worker_objects(registration, with_user=True)[-1])
    return await request_certificate(worker.client, registration.user, request.validity)


async def _settle(client: Client) -> None:
    """Wait until the server knows of the new account and binding, which takes it a moment after it has stored them.

    Raises Unauthorized if it never takes the credential; rights that stay away are the preflight's to report.
    """
    refusal: Unauthorized | None = None
    for _ in range(SETTLE_ROUNDS):
        try:
            refusal = None
            if not any((await missing_rights(client)).values()):
                return
        except Unauthorized as error:
            refusal = error
        await anyio.sleep(SETTLE_PAUSE_SECONDS)
    if refusal is not None:
        raise refusal


async def _cluster_id(client: Client) -> str:
    try:
        found = await ask(client, "GET", NAMESPACES.path(ObjectKey("", "kube-system")))
    except (NotFound, Forbidden):
        return ""
    return str(found["metadata"]["uid"])
