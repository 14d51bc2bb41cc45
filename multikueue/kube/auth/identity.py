"""The credentials in use with one cluster: cached until they are due, renewed by one task at a time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tls import shared_tls_context
from multikueue.kube.auth.tokens import Grant

__all__ = ["Identity", "Proof", "loop_time"]

_PAUSE = 5.0
"""Seconds between two unscheduled fetches: a plugin must not run once per refused call."""


def loop_time() -> float:
    """The time of the running event loop, in seconds. Cheaper than `anyio.current_time`, which first detects the
    library: requests ask several times."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Proof:
    """Credentials as each request carries them. `tls` is True for plain http, where aiohttp ignores it."""

    grant: Grant
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | bool
    due: float


class Identity:
    """Owns the grant of one cluster. Raises ClusterUnreachable without credentials: no request can be sent."""

    def __init__(
        self,
        credentials: Credentials,
        tls: ssl.SSLContext | bool,
        *,
        cluster: str,
        clock: Callable[[], float] = loop_time,
    ) -> None:
        self._credentials, self._own_tls, self._cluster, self._clock = credentials, tls, cluster, clock
        self._lock = asyncio.Lock()
        self._proof: Proof | None = None
        self._not_before = 0.0
        self._forced_not_before = 0.0
        self.trouble = ""

    @classmethod
    async def of(cls, credentials: Credentials, *, cluster: str) -> Identity:
        """Raises ConfigurationError if the certificates of `credentials` are unusable."""
        return cls(credentials, await anyio.to_thread.run_sync(_context, credentials, Grant()), cluster=cluster)

    def ready(self) -> Proof | None:
        """The cached proof unless it is due, without a lock: the path of nearly all requests."""
        proof = self._proof
        return proof if proof is not None and self._clock() < proof.due else None

    async def current(self) -> Proof:
        """The cached proof, or a new one if it is due."""
        async with self._lock:
            return self.ready() or await self._fetch()

    async def other_than(self, refused: Proof) -> Proof | None:
        """Another proof, after the server refused this one; None if there is no other now."""
        async with self._lock:
            known = self._proof
            if known is not None and known.grant != refused.grant:
                return known
            if self._clock() < self._forced_not_before:
                return None
            self._forced_not_before = self._clock() + _PAUSE
            self._not_before = 0.0
            fresh = await self._fetch()
            return fresh if fresh.grant != refused.grant else None

    async def _fetch(self) -> Proof:
        old = self._proof
        if self._clock() >= self._not_before:
            try:
                grant = await self._credentials.token()
                self._proof = await self._proven(grant, old)
            except ConfigurationError as error:
                self.trouble, self._not_before = str(error), self._clock() + _PAUSE
            else:
                self.trouble = ""
                return self._proof
        if old is None:
            raise ClusterUnreachable(self._cluster, f"no credentials: {self.trouble}")
        # Renewal is due well before the expiry, so the old proof may still be valid. If not, the server answers 401.
        return old

    async def _proven(self, grant: Grant, old: Proof | None) -> Proof:
        headers = {"Authorization": grant.authorization} if grant.authorization else {}
        return Proof(grant, headers, await self._tls(grant, old), self._clock() + grant.lifetime)

    async def _tls(self, grant: Grant, old: Proof | None) -> ssl.SSLContext | bool:
        if not grant.certificate:
            return self._own_tls
        if old is not None and (old.grant.certificate, old.grant.key) == (grant.certificate, grant.key):
            return old.tls
        return await anyio.to_thread.run_sync(_context, self._credentials, grant)


def _context(credentials: Credentials, grant: Grant) -> ssl.SSLContext | bool:
    if not credentials.server.startswith("https://"):
        return True
    own = (grant.certificate, grant.key) if grant.certificate else (credentials.certificate, credentials.key)
    return shared_tls_context(
        authority=credentials.authority,
        certificate=own[0],
        key=own[1],
        should_verify=credentials.should_verify,
        is_strict=credentials.is_strict,
    )
