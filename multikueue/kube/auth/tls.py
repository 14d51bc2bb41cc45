"""The TLS context of one cluster, from certificates in memory."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from weakref import WeakValueDictionary

from multikueue.errors import ConfigurationError

__all__ = ["shared_tls_context", "tls_context"]

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
