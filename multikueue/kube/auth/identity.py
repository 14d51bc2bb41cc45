"""The credentials in use with one cluster: cached until they are due, renewed by one task at a time."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import Grant

__all__ = ["Identity", "Proof", "loop_time", "shared_tls_context", "tls_context"]

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


_shared: WeakValueDictionary[bytes, ssl.SSLContext] = WeakValueDictionary()
"""The contexts in use, by the digest of what they were made of."""


def shared_tls_context(
    *, authority: bytes, certificate: bytes, key: bytes, should_verify: bool, is_strict: bool
) -> ssl.SSLContext:
    """As `tls_context`, but one for all clusters with the same certificates: each takes its trust store in memory, and
    milliseconds. May be called from several threads: at worst one context too many is made."""
    parts = (authority, certificate, key, b"%d%d" % (should_verify, is_strict))
    digest = sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).digest()
    found = _shared.get(digest)
    if found is None:
        found = _shared[digest] = tls_context(
            authority=authority, certificate=certificate, key=key, should_verify=should_verify, is_strict=is_strict
        )
    return found


def tls_context(
    *,
    authority: bytes = b"",
    certificate: bytes = b"",
    key: bytes = b"",
    should_verify: bool = True,
    is_strict: bool = True,
) -> ssl.SSLContext:
    """A client context. `authority`, `certificate` and `key` are PEM; without `authority`: the system's trust store.

    With `strict=False` the context accepts certificates that break RFC 5280 (no key identifiers, for example), which
    Python 3.13 and newer refuse otherwise. Blocks for some milliseconds (the trust store). Raises ConfigurationError
    that names the unusable field.
    """
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"certificate-authority: expected certificates in PEM: {error}") from error
    if not should_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if not is_strict:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate or key:
        _load_certificate(context, certificate, key)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    if not (certificate and key):
        missing = "client-key" if certificate else "client-certificate"
        raise ConfigurationError(f"{missing} is missing: a client certificate needs both")
    try:
        with _as_file(certificate + b"\n" + key) as path:
            # Without a password OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"client-certificate and client-key: expected a pair in PEM: {error}") from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to the content for the duration of the block, in memory where the system can: keys stay off disks."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("client-certificate")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
