"""The webhook's certificates: a CA of our own and a serving certificate signed by it, kept as the data of one Secret.

ECDSA P-256 throughout. Both live a year and are renewed together when less than a third of that is left. The bundle
that clients trust then holds the new CA, and the old one while it is valid: so a client with the new bundle still
accepts replicas that serve the old certificate.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

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

from multikueue.web.serving import BUNDLE, CERTIFICATE, KEY, load_chain, read, serving

LIFETIME = timedelta(days=365)

# Clocks of API servers may be behind ours.
_BACKDATED = timedelta(hours=1)


def renewed(now: datetime, data: Mapping[str, str], *, names: Sequence[str]) -> dict[str, str]:
    """The Secret's data (base64 values) as it must be at `now` for a server of these DNS names and IP addresses.

    The same data while it is good: complete, valid, for these names, and with a third of its life left. Otherwise a new
    CA and certificate; the bundle keeps the old CAs that are still valid. Other keys of the data are kept.
    """
    if _is_good(now, data, names):
        return dict(data)
    old = [ca for ca in _certificates(read(data, BUNDLE)) if _is_valid(ca, now)]
    return {**data, **{name: b64encode(pem).decode() for name, pem in _issue(now, names, old).items()}}


def _is_good(now: datetime, data: Mapping[str, str], names: Sequence[str]) -> bool:
    certificates, trusted = _certificates(read(data, CERTIFICATE)), _certificates(read(data, BUNDLE))
    if not certificates or not _can_be_served(data):
        return False
    certificate = certificates[0]
    if not _is_valid(certificate, now) or now > _due(certificate):
        return False
    return _names_of(certificate) >= {str(_general_name(name).value) for name in names} and any(
        _is_valid(ca, now) and _is_issued_by(certificate, ca) for ca in trusted
    )


def _due(certificate: x509.Certificate) -> datetime:
    """The time of renewal, with a third of its own life left: a certificate from elsewhere may be shorter."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - life / 3


def _issue(now: datetime, names: Sequence[str], old: Sequence[x509.Certificate]) -> dict[str, bytes]:
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # Each CA has its own name, so that clients can tell the CAs of one bundle apart.
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


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found}


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
    """Whether OpenSSL accepts certificate and key: they belong together, and neither is of a kind that it refuses."""
    try:
        load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), serving(data))
    except (ssl.SSLError, ValueError):
        return False
    return True
