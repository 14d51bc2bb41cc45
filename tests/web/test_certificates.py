from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from fakekube.front_end.authority import Authority
from multikueue.errors import ConfigurationError
from multikueue.web.certificates import LIFETIME, renewed
from multikueue.web.serving import authority, serving
from tests.web.builders import NOW

NAMES = ("webhook.team.svc", "127.0.0.1")
FRESH = renewed(NOW, {}, names=NAMES)
HOUR = timedelta(hours=1)
DUE = NOW + LIFETIME - (LIFETIME + HOUR) / 3


def certificates(data: dict[str, str], name: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(b64decode(data[name]))


def is_trusted(server: dict[str, str], client: dict[str, str], *, at: datetime, name: str = NAMES[0]) -> bool:
    """Whether a client with the bundle in `client` accepts the certificate in `server`."""
    policy = PolicyBuilder().store(Store(certificates(client, "ca.crt"))).time(at)
    try:
        policy.build_server_verifier(x509.DNSName(name)).verify(certificates(server, "tls.crt")[0], [])
    except VerificationError:
        return False
    return True


def test_a_new_certificate_is_trusted_for_its_names_and_its_year() -> None:
    assert is_trusted(FRESH, FRESH, at=NOW)
    assert is_trusted(FRESH, FRESH, at=NOW - HOUR + timedelta(seconds=1)), "the API server's clock is behind"
    assert is_trusted(FRESH, FRESH, at=NOW + LIFETIME - HOUR)
    assert not is_trusted(FRESH, FRESH, at=NOW + LIFETIME + HOUR)
    assert not is_trusted(FRESH, FRESH, at=NOW, name="other.team.svc")


def test_it_can_serve_and_cannot_sign() -> None:
    (certificate,) = certificates(FRESH, "tls.crt")
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == set(NAMES)


def test_the_key_of_the_authority_is_stored_nowhere() -> None:
    assert FRESH.keys() == {"ca.crt", "tls.crt", "tls.key"}
    assert b64decode(FRESH["tls.key"]).count(b"PRIVATE KEY") == 2  # one key: its first and its last line


@pytest.mark.parametrize("at", [NOW, NOW + timedelta(days=100), DUE - HOUR], ids=["new", "later", "just before"])
def test_a_good_certificate_stays_the_very_same(at: datetime) -> None:
    assert renewed(at, FRESH, names=NAMES) == FRESH


def test_it_is_renewed_when_less_than_a_third_of_its_life_is_left() -> None:
    later = DUE + HOUR
    newer = renewed(later, FRESH, names=NAMES)
    assert newer["tls.crt"] != FRESH["tls.crt"]
    assert newer["tls.key"] != FRESH["tls.key"]
    assert is_trusted(newer, newer, at=later)


def test_during_a_rotation_old_servers_stay_trusted() -> None:
    later = DUE + HOUR
    newer = renewed(later, FRESH, names=NAMES)
    assert is_trusted(FRESH, newer, at=later), "a replica that has not seen the new Secret yet"
    assert not is_trusted(newer, FRESH, at=later), "so the registration must go before the server"


def test_an_authority_that_is_over_leaves_the_bundle() -> None:
    data, at = FRESH, NOW
    for _ in range(6):
        at += timedelta(days=300)
        data = renewed(at, data, names=NAMES)
        assert is_trusted(data, data, at=at)
    assert len(certificates(data, "ca.crt")) == 2


def _with(name: str, pem: bytes | str) -> dict[str, str]:
    return FRESH | {name: pem if isinstance(pem, str) else b64encode(pem).decode()}


OTHER = renewed(NOW, {}, names=NAMES)


def _weak() -> dict[str, str]:
    """A certificate in good order, with a key that no TLS server takes any more."""
    authority = ec.generate_private_key(ec.SECP256R1())
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    issuer, subject = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("ca", "weak"))
    common = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + LIFETIME)
    )
    ca = common.subject_name(issuer).public_key(authority.public_key())
    names = x509.SubjectAlternativeName([x509.DNSName(NAMES[0]), x509.IPAddress(ip_address(NAMES[1]))])
    certificate = common.subject_name(subject).public_key(key.public_key()).add_extension(names, critical=False)
    parts = {
        "ca.crt": ca.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM),
        "tls.crt": certificate.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM),
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }
    return {name: b64encode(pem).decode() for name, pem in parts.items()}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"tls.crt": "", "tls.key": "", "ca.crt": ""}, id="an empty Secret made by a chart"),
        pytest.param(_with("tls.crt", b"garbage"), id="no certificate"),
        pytest.param(_with("tls.key", "%%%"), id="no base64"),
        pytest.param(_with("tls.key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), id="no key"),
        pytest.param(_with("tls.key", OTHER["tls.key"]), id="another key"),
        pytest.param(_with("tls.key", ""), id="no key of its own"),
        pytest.param(_with("tls.crt", b64decode(FRESH["tls.crt"]).rstrip()), id="no line's end before the key"),
        pytest.param(_weak(), id="a key that is too weak for TLS"),
        pytest.param(_with("ca.crt", OTHER["ca.crt"]), id="another authority"),
        pytest.param(_with("ca.crt", ""), id="no authority"),
        pytest.param(renewed(NOW - LIFETIME * 2, {}, names=NAMES), id="long over"),
        pytest.param(renewed(NOW + LIFETIME, {}, names=NAMES), id="not valid yet"),
        pytest.param(renewed(NOW, {}, names=NAMES[:1]), id="a name is missing"),
    ],
)
def test_what_cannot_serve_is_replaced(data: dict[str, str]) -> None:
    newer = renewed(NOW, data, names=NAMES)
    assert newer["tls.crt"] != data.get("tls.crt")
    assert is_trusted(newer, newer, at=NOW)
    assert renewed(NOW, newer, names=NAMES) == newer


def test_other_data_in_the_secret_stays() -> None:
    assert renewed(NOW, {"note": "bXk="}, names=NAMES)["note"] == "bXk="


def test_fewer_names_than_it_has_are_no_reason_to_renew() -> None:
    assert renewed(NOW, FRESH, names=NAMES[:1]) == FRESH


def test_serving_takes_the_parts_out() -> None:
    parts = serving(FRESH)
    assert (parts.certificate, parts.key, parts.bundle) == tuple(
        b64decode(FRESH[name]) for name in ("tls.crt", "tls.key", "ca.crt")
    )
    with pytest.raises(ValueError, match=r"no usable ca\.crt, tls\.key"):
        serving({"tls.crt": FRESH["tls.crt"], "tls.key": "%"})


def test_an_authority_for_callers_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(Authority().pem)
    assert authority(path) == path.read_text()
    assert authority(None) == ""


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff", None], ids=["empty", "garbage", "no text", "no file"])
def test_a_file_without_certificates_is_never_taken_for_no_authority_at_all(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"{path}: expected certificates in PEM"):
        authority(path)
