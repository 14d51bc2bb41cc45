"""Whether a worker that shows the identity of another name leads to the cluster of that name: a nonce shows it.

Nothing is asked unless two names show one UID; then once, and again when either has another connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import other_than
from multikueue.api.values.foreign import excerpt
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.nonce import Unproven, common_place, is_same_cluster, proof_key
from multikueue.runtime import Backoff
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["PATIENCE_WITH_READERS", "Proofs"]

log = get_logger()

RETRIES = Backoff(first=timedelta(seconds=5), cap=timedelta(minutes=10), jitter=0)

PATIENCE_WITH_READERS = 5
"""Proofs in a row that a connected worker may fail to answer. After these it counts as another cluster, or a worker could keep
another one out by answering nothing but heartbeats."""

WRITERS = 2
"""Connections whose verdicts are kept: the one in use, and one that is tried."""

EVER = datetime.min.replace(tzinfo=UTC)


class ProofResult(msgspec.Struct, frozen=True):
    """What was found about the worker and the name `first`, by the connections that were used."""

    first: str
    writer: object
    reader: object
    is_same: bool


@dataclass(slots=True)
class FailedProofs:
    """Proofs about a name that showed nothing, by these connections; `unread`: in a row, because the name did not answer."""

    writer: object
    reader: object
    failed: int = 0
    unread: int = 0
    not_before: datetime = EVER
    why: str = ""


@dataclass(slots=True)
class Proofs:
    """Owner: the identity of the worker."""

    context: ReconcileContext
    worker: WorkerView
    _verdicts: tuple[ProofResult, ...] = ()
    _attempts: dict[str, FailedProofs] = field(default_factory=dict)

    def is_other(self, first: str, client: WatchingClient) -> bool:
        """Whether the client leads to another cluster than the name `first`: as proven by this process, or else by a former
        one. Where nothing is proven it does not."""
        verdict = self._verdict(first, client)
        if verdict is not None:
            return not verdict.is_same
        cluster = self.context.store.clusters.get(ObjectKey("", self.worker.name))
        return cluster is not None and first in other_than(cluster)

    def why_unproven(self, first: str, client: WatchingClient) -> str:
        """Why it is not known whether the client leads to the cluster of the name `first`; empty if it is."""
        if self._verdict(first, client) is not None:
            return ""
        if self._reader(first) is None:
            return f'"{first}" is not connected'
        attempts = self._attempts.get(first)
        return attempts.why if attempts is not None and attempts.why else "this process has not tried yet"

    def is_due(self, first: str, client: WatchingClient) -> bool:
        """Whether it is time to ask. Never on a standby, which may write nothing."""
        verdict, reader = self._verdict(first, client), self._reader(first)
        if reader is None or not self.context.mandate.is_valid():
            return False
        if verdict is not None and verdict.reader is reader.route:
            return False
        return self.context.now() >= self._failed(first, client, reader).not_before

    async def prove(self, first: str, client: WatchingClient) -> None:
        """Asks, if that is due. The result is in `is_other` from now on."""
        reader = self._reader(first)
        if reader is None or not self.is_due(first, client):
            return
        writer_route, reader_route = client.route, reader.route
        before = self._attempts[first] = self._failed(first, client, reader)
        before.not_before = self.context.now() + RETRIES.longest(before.failed + 1)
        try:
            is_same = await self._ask(first, client, reader)
        except Unproven as error:
            before.failed += 1
            before.unread = before.unread + 1 if error.is_by_reader else 0
            before.why = excerpt(str(error))
            log.warning("cluster.unproven", cluster=self.worker.name, first=first, why=before.why)
            if before.unread < PATIENCE_WITH_READERS or self._reader(first) is not reader:
                return
            is_same = False
        if (client.route, reader.route) == (
            writer_route,
            reader_route,
        ):  # else it was asked through others than those in use
            self._conclude(ProofResult(first, writer_route, reader_route, is_same))

    def _failed(self, first: str, client: WatchingClient, reader: WatchingClient) -> FailedProofs:
        """The proofs by these connections that showed nothing: none yet, where the last ones were by others."""
        known = self._attempts.get(first)
        is_by_these = known is not None and (known.writer, known.reader) == (client.route, reader.route)
        return known if known is not None and is_by_these else FailedProofs(client.route, reader.route)

    async def _ask(self, first: str, client: WatchingClient, reader: WatchingClient) -> bool:
        workers, origin = self.context.store.workers, self.context.origin
        namespace = common_place(*(workers[name].watch_scope.namespaces for name in (self.worker.name, first)))
        if not namespace:
            raise Unproven(f'it offers no namespace that "{first}" offers, too')
        return await is_same_cluster(client, reader, proof_key(namespace, origin, self.worker.name))

    def _conclude(self, verdict: ProofResult) -> None:
        others = [each for each in self._verdicts if (each.first, each.writer) != (verdict.first, verdict.writer)]
        writers = list(dict.fromkeys(each.writer for each in (verdict, *others)))[:WRITERS]
        self._verdicts = (verdict, *(each for each in others if each.writer in writers))
        told = "same" if verdict.is_same else "other"
        log.info("cluster.proven", cluster=self.worker.name, first=verdict.first, told=told)
        metrics = self.context.metrics
        metrics.guarded("proofs", lambda: metrics.identity_proofs(self.worker.name, told).inc())()
        self.context.queues.clusters.add(self.worker.name)

    def _verdict(self, first: str, client: WatchingClient) -> ProofResult | None:
        return next((each for each in self._verdicts if (each.first, each.writer) == (first, client.route)), None)

    def _reader(self, first: str) -> WatchingClient | None:
        """The client of the name `first`, while that is connected, and so known to lead where it should."""
        worker = self.context.store.workers.get(first)
        return self.context.clients.get(first) if worker is not None and worker.link.is_connected else None
