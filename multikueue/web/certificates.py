"""The webhook's certificates: a CA of our own and a serving certificate signed by it, kept as the data of one Secret.

ECDSA P-256 throughout. Both live a year and are renewed together when less than a third of that is left. The bundle
that clients trust then holds the new CA and the old one, as long as that is valid: replicas that still serve the old
certificate, and API servers that still trust the old bundle, meet.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from multikueue.errors import ConfigurationError

LIFETIME = timedelta(days=365)

BUNDLE, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
"""Keys of the Secret's data, as Secrets of type kubernetes.io/tls have them. The CA's own key is never stored."""

# Clocks of API servers may be behind ours.
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Serving:
    """What a server needs to serve, and what its clients need to trust it: PEM each."""

    certificate: bytes
    key: bytes
    bundle: bytes


def renewed(now: datetime, data: Mapping[str, str], *, names: Sequence[str]) -> dict[str, str]:
    """The Secret's data (base64 values) as it must be at `now` for a server of these DNS names and IP addresses.

    The very same data while it is good: complete, valid, for these names, and with a third of its life left.
    Otherwise a new CA and certificate, with the CAs still valid kept in the bundle. Other keys of the data are kept.
    """
    if _is_good(now, data, names):
        return dict(data)
    old = [ca for ca in _certificates(_read(data, BUNDLE)) if _is_valid(ca, now)]
    return {**data, **{name: b64encode(pem).decode() for name, pem in _issue(now, names, old).items()}}


def serving(data: Mapping[str, str]) -> Serving:
    """The three parts out of the Secret's data. ValueError if one is missing or no base64."""
    parts = {name: _read(data, name) for name in (CERTIFICATE, KEY, BUNDLE)}
    missing = sorted(name for name, pem in parts.items() if not pem)
    if missing:
        raise ValueError(f"no usable {', '.join(missing)} in the certificate Secret")
    return Serving(parts[CERTIFICATE], parts[KEY], parts[BUNDLE])


def authority(path: Path | None) -> str:
    """The certificates in that file, in PEM; nothing for no file. Raises ConfigurationError if there are none in it."""
    if path is None:
        return ""
    try:
        found = path.read_text("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=found)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(f"{path}: expected certificates in PEM: {error}") from error
    return found


def load_chain(context: ssl.SSLContext, certificate: Serving) -> None:
    """Takes certificate and key into the context. Raises ssl.SSLError if OpenSSL cannot serve with them."""
    with _as_file(certificate.certificate + certificate.key) as path:
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(path, password="")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to the content, since the standard library loads keys from files only; in memory where the system can."""
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


def _is_good(now: datetime, data: Mapping[str, str], names: Sequence[str]) -> bool:
    certificates, trusted = _certificates(_read(data, CERTIFICATE)), _certificates(_read(data, BUNDLE))
    if not certificates or not _can_be_served(data):
        return False
    certificate = certificates[0]
    if not _is_valid(certificate, now) or now > _due(certificate):
        return False
    return _names_of(certificate) >= _rendered(names) and any(
        _is_valid(ca, now) and _is_issued_by(certificate, ca) for ca in trusted
    )


def _due(certificate: x509.Certificate) -> datetime:
    """When less than a third of its own life is left: a certificate that somebody else put there may be shorter."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - life / 3


def _issue(now: datetime, names: Sequence[str], old: Sequence[x509.Certificate]) -> dict[str, bytes]:
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # A name of its own for each CA lets clients tell several in one bundle apart.
    ca_name = _name(f"multikueue-webhook-ca-{int(now.timestamp())}")
    authority = (
        _started(now, subject=ca_name, issuer=ca_name, key=ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _started(now, subject=_name("multikueue-webhook"), issuer=ca_name, key=key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return {
        CERTIFICATE: certificate.public_bytes(Encoding.PEM),
        KEY: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        BUNDLE: b"".join(ca.public_bytes(Encoding.PEM) for ca in (authority, *old)),
    }


def _started(
    now: datetime, *, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _rendered(names: Sequence[str]) -> set[str]:
    return {str(_general_name(name).value) for name in names}


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found}


def _read(data: Mapping[str, str], name: str) -> bytes:
    """The decoded value; empty when absent or no base64."""
    try:
        return b64decode(data.get(name, ""), validate=True)
    except Base64Error:
        return b""


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a bundle; none if it cannot be read, so that it is replaced."""
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _is_issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _can_be_served(data: Mapping[str, str]) -> bool:
    """Whether OpenSSL takes certificate and key: they belong together, and neither is of a kind that it refuses."""
    try:
        load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), serving(data))
    except (ssl.SSLError, ValueError):
        return False
    return True
