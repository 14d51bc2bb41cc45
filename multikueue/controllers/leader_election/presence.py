"""A process without election among others: it holds the Lease without renewing it, and answers a process that asks.

    await presence.enter()     # asks who acts; raises ConfigurationError if another process does
    ... act ...
    await presence.stay()      # answers who asks; raises ConfigurationError once another process has taken the Lease
    await presence.leave()     # gives the Lease back: the next process need not ask

At rest nothing is written: the Lease is watched, and renewed only when another process asks, by an annotation on it. So a
process that was killed does not answer, and its successor waits for ANSWER_TIMEOUT.

What this does not see: a process that was started with `--force`, one that may not read and write the Lease, and one whose
watch is broken while it is asked or its Lease is taken, for as long as that lasts (at most `_SILENT_WATCH_TIMEOUT`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Any

import anyio

from multikueue.api.kinds import LEASES
from multikueue.api.kubernetes.builtins import Lease, record_of, render_micro_time
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import excerpt
from multikueue.controllers.leader_election.election import released
from multikueue.controllers.leader_election.leadership import RESIGNING_TIMEOUT, new_identity
from multikueue.errors import AlreadyExists, ConfigurationError, Conflict, MultiKueueError, NotFound
from multikueue.kube.cluster_client import ClusterClient, WatchingClient
from multikueue.runtime import Clock
from multikueue.telemetry import get_logger

__all__ = ["ANSWER_TIMEOUT", "ASKED", "Presence", "who_renews"]

log = get_logger()

ASKED = "multikueue.dev/asked-by"
"""The annotation of the Lease by which a process that starts asks whether the holder acts."""

ANSWER_TIMEOUT = timedelta(seconds=3)
"""Who acts answers by then: it has a watch open."""

LONG_OVER = timedelta(minutes=10)
"""A Lease that was not renewed for so long has no holder that renews it, however far the clocks are apart."""

_LOOK_AGAIN_AFTER = timedelta(seconds=5)
_WATCH_SECONDS = 240
_SILENT_WATCH_TIMEOUT = timedelta(minutes=5)
_ATTEMPTS = 5


@dataclass(slots=True, kw_only=True)
class Presence:
    """This process in the Lease `key`. One task at a time calls it."""

    client: WatchingClient
    key: ObjectKey
    clock: Clock
    identity: str = field(default_factory=new_identity)
    _answered: str = ""

    async def enter(self) -> None:
        """Take the Lease. Raises ConfigurationError if its holder renews it, by itself or asked.

        Where the Lease cannot be read or written this says so in the log, and returns.
        """
        try:
            for _ in range(_ATTEMPTS):
                if holder := await who_renews(self.client, self.clock, self.key, asking=self.identity):
                    raise ConfigurationError(_refused(holder, self.key))
                with suppress(Conflict, AlreadyExists):  # another process starts too
                    await self._claim(await self._look())
                    return
        except ConfigurationError:
            raise
        except MultiKueueError as error:
            log.warning("manager.not_seen", lease=str(self.key), error=str(error))

    async def stay(self) -> None:
        """Answer forever. Raises ConfigurationError once another process has the Lease."""
        while True:
            try:
                await self._answer()
                await self._listen()
            except ConfigurationError:
                raise
            except MultiKueueError as error:
                log.debug("manager.not_listening", lease=str(self.key), error=str(error))
            await self.clock.sleep(_LOOK_AGAIN_AFTER.total_seconds())

    async def leave(self) -> None:
        """Release the Lease, unless another process has it."""
        with anyio.move_on_after(RESIGNING_TIMEOUT.total_seconds(), shield=True), suppress(MultiKueueError):
            lease = await self._look()
            if lease is not None and record_of(lease).holder_identity == self.identity:
                await self._write(lease, released(self.clock.now()))

    async def _listen(self) -> None:
        query = {"fieldSelector": f"metadata.name={self.key.name}", "timeoutSeconds": str(_WATCH_SECONDS), "watch": "1"}
        path = LEASES.collection(self.key.namespace)
        async with self.client.stream(path, query, idle=_SILENT_WATCH_TIMEOUT.total_seconds()) as stream:
            while await stream.line():
                await self._answer()

    async def _answer(self) -> None:
        for _ in range(_ATTEMPTS):
            with suppress(Conflict, AlreadyExists):
                await self._answer_once(await self._look())
                return

    async def _answer_once(self, lease: Lease | None) -> None:
        holder = record_of(lease).holder_identity
        if lease is None or not holder:
            await self._claim(lease)
        elif holder != self.identity:
            raise ConfigurationError(
                f"another manager, {excerpt(holder)}, has taken Lease {self.key}, so this one ends: two would undo each "
                "other's work. To have several, of which one acts: leader_election.enabled on all of them"
            )
        elif (asked := lease.metadata.annotations.get(ASKED, "")) != self._answered:
            await self._write(lease, self._spec())
            self._answered = asked
            log.warning("manager.asked", lease=str(self.key), by=excerpt(asked))

    async def _look(self) -> Lease | None:
        try:
            return await self.client.get(LEASES, self.key)
        except NotFound:
            return None

    async def _claim(self, over: Lease | None) -> None:
        if over is not None:
            self._answered = over.metadata.annotations.get(ASKED, "")
            await self._write(over, self._spec())
            return
        metadata = {"name": self.key.name, "namespace": self.key.namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": self._spec()}
        await self.client.create(LEASES, self.key.namespace, body)

    def _spec(self) -> dict[str, Any]:
        seconds = ceil(ANSWER_TIMEOUT.total_seconds())
        renewed = render_micro_time(self.clock.now())
        return {"holderIdentity": self.identity, "leaseDurationSeconds": seconds, "renewTime": renewed}

    async def _write(self, over: Lease, spec: dict[str, Any]) -> None:
        metadata = {"uid": over.metadata.uid, "resourceVersion": over.metadata.resource_version}
        await self.client.merge_patch(LEASES, self.key, {"metadata": metadata, "spec": spec})


async def who_renews(client: ClusterClient, clock: Clock, key: ObjectKey, *, asking: str = "") -> str:
    """The holder of a Lease that is renewed; empty if it is not renewed. With `asking` (our identity) the holder is asked to.

    Who leads renews the Lease every two seconds, and who is gone may leave it behind. So a Lease that is not long over is
    watched until it is renewed, or should have been. One that may not be read counts as none.
    """
    first = await _get_lease(client, key)
    record = record_of(first)
    if first is None or not record.holder_identity:
        return ""
    is_asked = bool(asking) and await _ask(client, key, asking)
    seconds = float(min(max(record.lease_duration_seconds, 1), LONG_OVER.total_seconds()))
    if record.renew_time is None or clock.now() - record.renew_time > LONG_OVER:
        if not is_asked:
            return ""
        seconds = ANSWER_TIMEOUT.total_seconds()
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        await clock.sleep(1)
        now = await _get_lease(client, key)
        holder = record_of(now).holder_identity
        if now is not None and holder and now.spec != first.spec:
            return excerpt(holder)
    return ""


async def _ask(client: ClusterClient, key: ObjectKey, asking: str) -> bool:
    with suppress(MultiKueueError):
        await client.merge_patch(LEASES, key, {"metadata": {"annotations": {ASKED: asking}}})
        return True
    return False


async def _get_lease(client: ClusterClient, key: ObjectKey) -> Lease | None:
    try:
        return await client.get(LEASES, key)
    except MultiKueueError:
        return None


def _refused(holder: str, key: ObjectKey) -> str:
    return (
        f"another manager acts on this cluster: {holder} renews Lease {key}. Two would undo each other's work. Is this the "
        "cluster that was meant? If it is, stop the other one (in the cluster: kubectl scale --replicas=0 its Deployment), "
        "or start both with election, one as the other's standby: leader_election.enabled, or "
        "MULTIKUEUE_LEADER_ELECTION__ENABLED=true. To start all the same: --force"
    )
