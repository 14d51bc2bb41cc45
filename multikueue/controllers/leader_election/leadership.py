"""Leadership: which of several replicas acts.

    await leadership.gain()        # a standby waits here, with its caches filled
    ... act; every write asks leadership.mandate ...
    await leadership.keep()        # returns when the mandate is over: all that acts must be cancelled then
    await leadership.resign()      # on a wanted stop: the next leader need not wait

`election` decides; this module makes the calls, over a client of its own: their writes need no mandate, and no amount
of other work holds them up.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, Protocol
from uuid import uuid4

import anyio
import anyio.lowlevel

from multikueue.api.kinds import LEASES
from multikueue.api.kubernetes.builtins import Lease, record_of
from multikueue.api.meta import ObjectKey
from multikueue.controllers.leader_election.election import (
    Candidate,
    Claim,
    Lost,
    Observation,
    Wait,
    claimed,
    observe,
    released,
    step,
)
from multikueue.errors import AlreadyExists, Conflict, MultiKueueError, NotFound
from multikueue.kube.cluster_client import WatchingClient
from multikueue.runtime import Clock, Mandate, SystemClock
from multikueue.runtime.clock import boot_time
from multikueue.settings import LeaderElection
from multikueue.telemetry import get_logger

__all__ = ["LeaderElector", "Leadership", "NoElection", "Role", "candidate", "new_identity"]

log = get_logger()

Role = Literal["leader", "follower", "standalone"]
"""The role of a replica, in the words of Kueue's metrics label `replica_role`."""

RESIGNING_TIMEOUT = timedelta(seconds=2)
"""The release of the lease may take so long; without it the next leader only has to wait."""

_RETRY_AFTER_CONFLICT = timedelta(milliseconds=100)
"""Until the next attempt when another replica was faster."""

_CLOCK_GRAIN = timedelta(milliseconds=10)
"""Added to a wait until an instant, so that it ends after it, not at it."""

_WATCH_SECONDS = 240
_SILENT_WATCH_TIMEOUT = timedelta(minutes=5)


class Leadership(Protocol):
    mandate: Mandate

    @property
    def role(self) -> Role: ...

    @property
    def identity(self) -> str:
        """Distinguishes this process from the other replicas; empty if there are none."""

    async def gain(self) -> None:
        """Returns once this process may act."""

    async def keep(self) -> None:
        """Returns once this process may no longer act."""

    async def resign(self) -> None:
        """Ends the mandate and releases the lease, if held; may be called at any time."""


@dataclass(slots=True)
class NoElection:
    """A process without replicas: it always acts."""

    mandate: Mandate = field(default_factory=Mandate.standing)
    role: Role = "standalone"
    identity: str = ""

    async def gain(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def keep(self) -> None:
        await anyio.sleep_forever()

    async def resign(self) -> None:
        await anyio.lowlevel.checkpoint()


@dataclass(slots=True, kw_only=True)
class LeaderElector:
    """Acts while it holds the lease `key`. One task at a time calls it."""

    client: WatchingClient
    key: ObjectKey
    candidate: Candidate
    mandate: Mandate = field(default_factory=Mandate)
    clock: Clock = field(default_factory=SystemClock)
    boot: Callable[[], float] = boot_time
    _seen: Observation | None = None
    _news: anyio.Event = field(default_factory=anyio.Event)

    @property
    def role(self) -> Role:
        return "leader" if self.mandate.is_valid() else "follower"

    @property
    def identity(self) -> str:
        return self.candidate.identity

    async def gain(self) -> None:
        log.info("leadership.awaited", lease=str(self.key), identity=self.candidate.identity)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            while not self.mandate.is_valid():
                await self._rest(await self._try_to_gain())
            tasks.cancel_scope.cancel()
        log.info("leadership.gained", lease=str(self.key), identity=self.candidate.identity)

    async def keep(self) -> None:
        while self.mandate.is_valid():
            with anyio.move_on_after(self.mandate.left()):
                await anyio.sleep(self.candidate.retry_period)
                await self._renew()
        self.mandate.end()
        log.warning("leadership.lost", lease=str(self.key), identity=self.candidate.identity)

    async def resign(self) -> None:
        held = self.mandate.is_valid()
        self.mandate.end()
        if not held:
            return
        with anyio.move_on_after(RESIGNING_TIMEOUT.total_seconds(), shield=True):
            await self._release()

    async def _try_to_gain(self) -> float:
        """Takes the lease if it is free. Returns the seconds until the next attempt; 0 if it was taken."""
        try:
            await self._look()
            await self._claim()
        except (Conflict, AlreadyExists, NotFound):
            return _RETRY_AFTER_CONFLICT.total_seconds()
        except MultiKueueError as error:
            log.warning("leadership.unknown", lease=str(self.key), error=str(error))
            return self.candidate.retry_period
        wait = self._step()
        return (
            min(wait.seconds + _CLOCK_GRAIN.total_seconds(), self.candidate.retry_period)
            if isinstance(wait, Wait)
            else 0.0
        )

    async def _renew(self) -> None:
        """Prolongs the mandate if possible; ends it if another process has the lease."""
        try:
            try:
                await self._claim()
            except (Conflict, AlreadyExists, NotFound):  # another writer: see which, and what is left of our claim
                await self._look()
                await self._claim()
        except MultiKueueError as error:
            log.warning("leadership.not_renewed", left=round(self.mandate.left(), 1), error=str(error))
            return
        now = self._step()
        if isinstance(now, Lost):
            log.warning("leadership.taken", by=now.to)
            self.mandate.end()

    def _step(self) -> Claim | Wait | Lost:
        assert self._seen is not None
        return step(self._seen, self.candidate, is_leading=self.mandate.is_valid(), now=self.boot())

    async def _look(self) -> None:
        try:
            lease: Lease | None = await self.client.get(LEASES, self.key)
        except NotFound:
            lease = None
        self._seen = observe(self._seen, lease, self.boot())

    async def _claim(self) -> None:
        """Writes the claim, if one is due. The mandate counts from before the call, when no other process had one."""
        wanted = self._step()
        if not isinstance(wanted, Claim):
            return
        asked = self.boot()
        spec = claimed(wanted.over, self.candidate, self.clock.now())
        lease = await (self._create(spec) if wanted.over is None else self._write(wanted.over, spec))
        self._seen = observe(self._seen, lease, self.boot())
        self.mandate.extend(asked + self.candidate.renew_deadline)

    async def _create(self, spec: dict[str, Any]) -> Lease:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.key.name, "namespace": self.key.namespace},
            "spec": spec,
        }
        return await self.client.create(LEASES, self.key.namespace, body)

    async def _write(self, over: Lease, spec: dict[str, Any]) -> Lease:
        metadata = {"uid": over.metadata.uid, "resourceVersion": over.metadata.resource_version}
        return await self.client.merge_patch(LEASES, self.key, {"metadata": metadata, "spec": spec})

    async def _release(self) -> None:
        """Writes the release, unless another process has the lease. A second try reads the lease first: a cancelled
        renewal may have changed it."""
        try:
            if not await self._has_released():
                await self._look()
                await self._has_released()
        except MultiKueueError as error:
            log.warning("leadership.not_released", error=str(error))

    async def _has_released(self) -> bool:
        """One attempt. Returns whether this process no longer has the lease."""
        lease = self._seen.lease if self._seen else None
        if lease is None or record_of(lease).holder_identity != self.candidate.identity:
            return True
        with suppress(Conflict):
            await self._write(lease, released(self.clock.now()))
            log.info("leadership.released", lease=str(self.key))
            return True
        return False

    async def _rest(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._news.wait()
        self._news = anyio.Event()

    async def _listen(self) -> None:
        """Wakes `_rest` at each change of the lease, so that a renewal is seen when it happens, and a release at once.
        Nothing depends on it: without it we read the lease every `retry_period`."""
        query = {"fieldSelector": f"metadata.name={self.key.name}", "timeoutSeconds": str(_WATCH_SECONDS), "watch": "1"}
        while True:
            with suppress(MultiKueueError):
                async with self.client.stream(
                    LEASES.collection(self.key.namespace), query, idle=_SILENT_WATCH_TIMEOUT.total_seconds()
                ) as stream:
                    while await stream.line():
                        self._news.set()
            await anyio.sleep(self.candidate.retry_period)


def candidate(settings: LeaderElection, identity: str | None = None) -> Candidate:
    """This process as a candidate, with an identity that no other process ever has; default: a new one."""
    return Candidate(
        identity=identity or new_identity(),
        lease_duration=settings.lease_duration.total_seconds(),
        renew_deadline=settings.renew_deadline.total_seconds(),
        retry_period=settings.retry_period.total_seconds(),
    )


def new_identity() -> str:
    """Host name (in a pod: its name) for people, and a random part, since a restarted container keeps its host name."""
    return f"{socket.gethostname()}_{uuid4()}"
