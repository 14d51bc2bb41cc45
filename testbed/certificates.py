"""The testbed's certificate authority: it signs the certificates of API servers and webhooks; kubeconfigs have it inline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificate", "CertificateAuthority", "rsa_key"]

NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
NOT_AFTER = datetime(2120, 1, 1, tzinfo=UTC)

# Kueue's certificate rotator accepts a given authority only under this name, and only with an RSA key.
AUTHORITY_NAME = "kueue-ca"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write `tls.crt` and `tls.key`, the names Kubernetes programs look for."""
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        return certificate, key


class CertificateAuthority:
    """One authority for one testbed; it lives in memory."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._certificate = self._sign_itself()
        self.pem = self._certificate.public_bytes(Encoding.PEM)
        self.key_pem = _pem(self._key)

    def issue(self, name: str, *hosts: str, groups: tuple[str, ...] = ()) -> Certificate:
        """Issue a certificate for the hosts; as a client certificate it means user `name` in `groups`."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name, groups), self._certificate.subject, key.public_key(), is_authority=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return Certificate(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM), _pem(key))

    def _sign_itself(self) -> x509.Certificate:
        name = _subject(AUTHORITY_NAME, ())
        builder = _builder(name, name, self._key.public_key(), is_authority=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def rsa_key() -> bytes:
    """A new RSA key as PEM: API servers sign service account tokens with it."""
    return _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(
            issuer_name=issuer,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=NOT_BEFORE,
            not_valid_after=NOT_AFTER,
        )
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str, groups: tuple[str, ...]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
