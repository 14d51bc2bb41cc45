"""The testbed's certificate authority: it signs the certificates of API servers and webhooks; kubeconfigs have it inline.

It issues as fakekube's does. Only its own certificate is special: Kueue's certificate rotator accepts a given authority under
one name alone, which it also wants as a DNS name, and with an RSA key.
"""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fakekube.front_end.authority import Authority, Certificate

__all__ = ["new_authority", "rsa_key"]

NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
NOT_AFTER = datetime(2120, 1, 1, tzinfo=UTC)

AUTHORITY_NAME = "kueue-ca"


def new_authority() -> Authority:
    """A new authority, which lives in memory."""
    key = _new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME)])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=NOT_BEFORE,
        not_valid_after=NOT_AFTER,
    )
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(given=Certificate(certificate.public_bytes(Encoding.PEM), _pem(key)))


def rsa_key() -> bytes:
    """A new RSA key as PEM: API servers sign service account tokens with it."""
    return _pem(_new_key())


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
