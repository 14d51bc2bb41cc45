"""The credentials of a worker: new ones are tried first; the end of those in use is announced in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product

import anyio
import msgspec

from multikueue.api.meta import render_time
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.connection.identities import ClusterIdentity, OtherCluster, SameCluster
from multikueue.controllers.workers.connection.kubeconfigs import NOT_LOADED, Access
from multikueue.controllers.workers.connection.watches import selector, watched
from multikueue.errors import ClusterUnreachable, Forbidden, MultiKueueError, NotFound
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.expiry import Validity, of_credentials
from multikueue.kube.client import Client
from multikueue.store.workers.watch_scope import is_needed
from multikueue.store.workers.worker import WorkerView

__all__ = [
    "CONNECTION_FAILED",
    "CREDENTIAL_EXPIRING",
    "CredentialExpiry",
    "CredentialsTrial",
    "TrialProblem",
    "may_lead_elsewhere",
    "problem_of",
    "prove",
    "reason_of",
]

CONNECTION_FAILED = "ClientConnectionFailed"

REASONS: dict[type[MultiKueueError], str] = {SameCluster: "SameCluster", OtherCluster: "BadKubeConfig"}
"""Condition reasons for a cluster that answers, and is not the one that the name stands for."""


class TrialProblem(msgspec.Struct, frozen=True):
    """Why new credentials are not in use: reason and message of the condition, and the type of the error."""

    reason: str
    message: str
    kind: type[MultiKueueError]


@dataclass(slots=True)
class CredentialsTrial:
    """The `candidate` to replace the credentials in use, if any, and why it does not yet. Another candidate cancels
    `trial`; cancelling `pause` retries this one at once."""

    candidate: Access | None = None
    problem: TrialProblem | None = None
    trial: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    pause: anyio.CancelScope = field(default_factory=anyio.CancelScope)


async def prove(
    trial: Client,
    new: Access,
    old: Access,
    context: ReconcileContext,
    identity: ClusterIdentity,
    *,
    namespaces: tuple[str, ...],
    timeout: float,
) -> str:
    """Proves that the cluster answers, lists what we watch, and is the same as before. Returns its UID; "" if
    unreadable.

    Without a UID our own objects decide: a cluster with none of the objects that we know of is another cluster. It gets
    the name once nothing of ours is left on the cluster before, or that one is lost. The heartbeat may take `timeout`
    seconds. Raises MultiKueueError if any proof fails.
    """
    worker = identity.worker
    await trial.probe(timeout)
    seen: set[str] = set()
    for (kind, _), namespace in product(watched(worker), namespaces):
        try:
            page = await trial.list(kind, namespace=namespace, label_selector=selector(context))
        except (NotFound, Forbidden):
            if is_needed(kind) and worker.watch_scope.namespace_failure(namespace) is None:
                raise
            continue
        seen.update(item.metadata.uid for item in page.items)
    uid, before = await identity.read(trial), identity.before
    if not (uid and before) and may_lead_elsewhere(old, new) and not worker.is_lost(context.now(), context.lost_after):
        _check_same(worker, seen)
    if uid:
        await identity.claim(uid, trial)
    return uid


def may_lead_elsewhere(old: Access, new: Access) -> bool:
    """Whether the new credentials may be for another cluster: the address or the authority differs."""
    return (old.credentials.server, old.credentials.authority) != (new.credentials.server, new.credentials.authority)


def reason_of(error: MultiKueueError | None) -> str:
    """The condition's reason for an error. None: the credentials are good, so any trouble is one of the connection."""
    return CONNECTION_FAILED if error is None else REASONS.get(type(error), CONNECTION_FAILED)


def problem_of(error: MultiKueueError) -> TrialProblem:
    why = error.why if isinstance(error, ClusterUnreachable) else str(error)
    message, reason = f"the new kubeconfig is not in use: {why}", reason_of(error)
    return TrialProblem(reason, message if reason == CONNECTION_FAILED else NOT_LOADED + message, type(error))


def _check_same(worker: WorkerView, seen: set[str]) -> None:
    """Raises OtherCluster if we know of objects on a worker, and none of their UIDs is in `seen`."""
    held = {item.metadata.uid for _, cache in watched(worker) for item in cache}
    if (held or worker.expectations) and held.isdisjoint(seen):
        raise OtherCluster(
            f"it leads to another cluster, that has none of our {len(held)} objects; "
            "it is used once they are gone from the cluster before, or that one is lost"
        )


CREDENTIAL_EXPIRING = "CredentialExpiring"
"""Reason of an event."""

RENEW_AGAIN_AFTER = timedelta(minutes=10)
"""Time until a credential that was not renewed is tried again: for a month's token there are ten days before its end."""


@dataclass(slots=True)
class CredentialExpiry:
    """Owner: the worker's connection. `validity` is that of the credential in use, None if it has no end; `renew_at` is when it
    is to be renewed next, `not_renewed` why the last attempt failed.

    Once the worker refuses the credential, its source is read again.
    """

    context: ReconcileContext
    worker: WorkerView
    offered: CredentialsTrial
    validity: Validity | None = None
    renew_at: datetime | None = None
    not_renewed: str = ""

    def look_at(self, credentials: Credentials) -> None:
        """Takes note of the credentials that are in use from now on."""
        self.validity = of_credentials(credentials)
        self.renew_at, self.not_renewed = (self.validity.renew_at if self.validity else None), ""
        self.worker.uses_credential(self.validity.end if self.validity else None)

    def notes(self) -> tuple[str, ...]:
        """That the credential in use ends soon, or has ended; with the time itself, so that it stays the same text."""
        validity, now = self.validity, self.context.now()
        if validity is None or now < validity.warn_at:
            return ()
        verb = "ended" if validity.end <= now else "ends"
        why = f", since it was not renewed: {self.not_renewed}" if self.not_renewed else ""
        return (f"its credential {verb} at {render_time(validity.end)}: register the cluster again{why}",)

    def until_news(self) -> timedelta | None:
        """The time until `notes` says something else, or the credential is to be renewed; None if it never does."""
        validity, now = self.validity, self.context.now()
        known = (self.renew_at, validity.warn_at, validity.end) if validity else ()
        return min((moment - now for moment in known if moment is not None and moment > now), default=None)

    def is_due(self) -> bool:
        """Whether to renew the credential now. Then it is not due again before `RENEW_AGAIN_AFTER`."""
        now = self.context.now()
        if self.renew_at is None or now < self.renew_at:
            return False
        self.renew_at = now + RENEW_AGAIN_AFTER
        return True

    def refused(self) -> None:
        """The worker answers 401, whatever the credential says of its end: reads their source again, and retries the
        offered ones at once."""
        self.context.queues.clusters.add(self.worker.name)
        self.offered.pause.cancel()
