from __future__ import annotations

import os
import ssl
import sys
import weakref

import pytest

from fakekube.front_end.authority import Authority
from multikueue.errors import ConfigurationError
from multikueue.kube.auth.tls import shared_tls_context, tls_context

AUTHORITY = Authority()
PEM = AUTHORITY.pem
OURS = AUTHORITY.issue("us@example.com")
CERTIFICATE, KEY = OURS.certificate, OURS.key


def test_only_the_given_authority_is_trusted() -> None:
    context = tls_context(authority=PEM)
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_verification_can_be_given_up_only_on_demand() -> None:
    context = tls_context(authority=PEM, should_verify=False)
    assert context.verify_mode is ssl.CERT_NONE


def test_strictness_can_be_given_up() -> None:
    assert not tls_context(authority=PEM, is_strict=False).verify_flags & ssl.VERIFY_X509_STRICT


def test_no_key_stays_on_a_disk_or_in_an_open_file() -> None:
    if sys.platform != "linux":
        pytest.skip("the list of open files is Linux's")
    before = os.listdir("/proc/self/fd")
    tls_context(authority=PEM, certificate=CERTIFICATE, key=KEY)
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize("hidden", [False, True], ids=["in memory", "in a file where there is no memory file"])
def test_a_certificate_with_its_key_is_loaded(hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if hidden:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    tls_context(authority=PEM, certificate=CERTIFICATE, key=KEY)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        pytest.param({"authority": b"rubbish"}, "certificate-authority: expected", id="an authority that is none"),
        pytest.param({"authority": b"\xff"}, "certificate-authority: expected", id="an authority in DER"),
        pytest.param({"certificate": CERTIFICATE}, "client-key is missing", id="a certificate without key"),
        pytest.param({"key": KEY}, "client-certificate is missing", id="a key without certificate"),
        pytest.param({"certificate": CERTIFICATE, "key": b"x"}, "client-certificate and client-key", id="no key"),
        pytest.param(
            {"certificate": CERTIFICATE, "key": AUTHORITY.issue("b@example.com").key},
            "client-certificate and client-key",
            id="the key of another certificate",
        ),
    ],
)
def test_what_is_unusable_is_named(parts: dict[str, bytes], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        tls_context(**{"authority": PEM, **parts})  # type: ignore[arg-type]


def test_clusters_with_the_same_certificates_share_a_context_for_as_long_as_one_uses_it() -> None:
    def shared(**other: bytes | bool) -> ssl.SSLContext:
        ours = {"authority": PEM, "certificate": CERTIFICATE, "key": KEY, "should_verify": True, "is_strict": True}
        return shared_tls_context(**(ours | other))  # type: ignore[arg-type]

    first = shared()
    assert shared() is first
    others = [
        shared(should_verify=False),
        shared(is_strict=False),
        shared(certificate=b"", key=b""),
        shared(authority=b""),
    ]
    assert len({id(each) for each in (first, *others)}) == 5
    gone = weakref.ref(first)
    del first
    assert gone() is None
