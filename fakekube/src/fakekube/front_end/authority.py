"""A certificate authority in memory, which issues serving certificates and client certificates."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "Certificate"]

# TLS checks validity by the system clock, whatever the time in the cluster.
_NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
_NOT_AFTER = datetime(2120, 1, 1, tzinfo=UTC)

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def load_into(self, context: ssl.SSLContext) -> None:
        """Use the certificate in a TLS context. The standard library loads keys from files only, so a temporary file
        holds the key during the call."""
        with NamedTemporaryFile() as file:
            file.write(self.certificate + self.key)
            file.flush()
            context.load_cert_chain(file.name)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write `tls.crt` and `tls.key`, the names Kubernetes programs look for."""
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """Issues certificates. `pem` is the authority's certificate; without a `given` authority a new one is generated."""

    def __init__(self, name: str = "fakekube-ca", *, given: Certificate | None = None) -> None:
        self._key: _Key = ec.generate_private_key(ec.SECP256R1()) if given is None else _key(given)
        self._name = _subject(name, ())
        self._certificate = (
            self._signed_by_itself() if given is None else x509.load_pem_x509_certificate(given.certificate)
        )
        self._name = self._certificate.subject
        self.pem = self._certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, *hosts: str, groups: tuple[str, ...] = ()) -> Certificate:
        """A certificate for the hosts (names or addresses); as a client certificate it stands for user `name` in
        `groups`."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            self._builder(_subject(name, groups), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer_key, critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(certificate.public_bytes(Encoding.PEM), _pem(key))

    @property
    def key_pem(self) -> bytes:
        return _pem(self._key)

    def _signed_by_itself(self) -> x509.Certificate:
        return (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_signs_certificates(), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
    ) -> x509.CertificateBuilder:
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=_NOT_BEFORE,
            not_valid_after=_NOT_AFTER,
        ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _pem(key: _Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _key(given: Certificate) -> _Key:
    key = load_pem_private_key(given.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError("the key of the authority is neither one of an elliptic curve nor RSA")
    return key


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str, groups: tuple[str, ...]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
