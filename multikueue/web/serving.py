"""Certificate and key of a server of ours, and the CA that its clients trust: PEM, from a Secret or a file.

Separate from `certificates`, which makes them: that needs `cryptography`, which only a process with such a server
loads.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec

from multikueue.errors import ConfigurationError

__all__ = ["BUNDLE", "CERTIFICATE", "KEY", "Serving", "authority", "load_chain", "read", "serving"]

BUNDLE, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
"""Keys of the Secret's data, as Secrets of type kubernetes.io/tls have them. The CA's own key is never stored."""


class Serving(msgspec.Struct, frozen=True):
    """Certificate and key of a server, and the CA bundle that its clients trust: PEM each."""

    certificate: bytes
    key: bytes
    bundle: bytes


def serving(data: Mapping[str, str]) -> Serving:
    """The three parts from the Secret's data. Raises ValueError if one is missing or no base64."""
    parts = {name: read(data, name) for name in (CERTIFICATE, KEY, BUNDLE)}
    missing = sorted(name for name, pem in parts.items() if not pem)
    if missing:
        raise ValueError(f"no usable {', '.join(missing)} in the certificate Secret")
    return Serving(parts[CERTIFICATE], parts[KEY], parts[BUNDLE])


def authority(path: Path | None) -> str:
    """The certificates in a file, in PEM; empty without a file. Raises ConfigurationError if the file has none."""
    if path is None:
        return ""
    try:
        found = path.read_text("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=found)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(f"{path}: expected certificates in PEM: {error}") from error
    return found


def load_chain(context: ssl.SSLContext, certificate: Serving) -> None:
    """Loads certificate and key into the context. Raises ssl.SSLError if OpenSSL cannot serve with them."""
    with _as_file(certificate.certificate + certificate.key) as path:
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(path, password="")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to the content, as the standard library loads keys from files only; in memory where the system can."""
    if not hasattr(os, "memfd_create"):
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("webhook-certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def read(data: Mapping[str, str], name: str) -> bytes:
    """The decoded value; empty when absent or no base64."""
    try:
        return b64decode(data.get(name, ""), validate=True)
    except Base64Error:
        return b""
