from __future__ import annotations

import os
import ssl
import sys
import weakref

import anyio
import pytest

from fakekube.front_end.authority import Authority
from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.identity import Identity, shared_tls_context, tls_context
from multikueue.kube.auth.tokens import Grant

pytestmark = pytest.mark.anyio


class Source:
    """A token source that gives what it is told, and a clock beside it."""

    def __init__(self, *gives: Grant | ConfigurationError) -> None:
        self._gives = list(gives)
        self.asked = 0
        self.now = 100.0

    async def __call__(self) -> Grant:
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        given = self._gives.pop(0) if len(self._gives) > 1 else self._gives[0]
        if isinstance(given, ConfigurationError):
            raise given
        return given


def identity(source: Source, server: str = "http://h") -> Identity:
    return Identity(Credentials(server=server, token=source), True, cluster="w1", clock=lambda: source.now)


OLD, NEW = Grant("Bearer old", lifetime=60), Grant("Bearer new", lifetime=60)
BROKEN = ConfigurationError("plugin is broken")


async def test_a_grant_is_fetched_once_for_many_calls() -> None:
    source = Source(OLD)
    ours = identity(source)
    assert ours.ready() is None
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ours.current)
    assert source.asked == 1
    proof = ours.ready()
    assert proof is not None
    assert proof.headers == {"Authorization": "Bearer old"}


async def test_a_grant_is_fetched_again_when_its_time_is_over() -> None:
    source = Source(OLD, NEW)
    ours = identity(source)
    await ours.current()
    source.now += 60
    assert ours.ready() is None
    assert (await ours.current()).grant == NEW


async def test_an_old_grant_serves_on_while_the_source_is_broken() -> None:
    source = Source(OLD, BROKEN, NEW)
    ours = identity(source)
    await ours.current()
    source.now += 61
    assert (await ours.current()).grant == OLD
    assert (await ours.current()).grant == OLD
    assert (source.asked, ours.trouble) == (2, "plugin is broken")
    source.now += 5
    assert (await ours.current()).grant == NEW
    assert ours.trouble == ""


async def test_without_any_grant_the_cluster_is_unreachable_and_the_source_is_left_in_peace() -> None:
    source = Source(BROKEN)
    ours = identity(source)
    for _ in range(3):
        with pytest.raises(ClusterUnreachable, match="no credentials: plugin is broken"):
            await ours.current()
    assert source.asked == 1


async def test_a_refused_grant_is_renewed_once_for_all_who_used_it() -> None:
    source = Source(OLD, NEW)
    ours = identity(source)
    refused = await ours.current()
    others = [await ours.other_than(refused) for _ in range(3)]
    assert [other and other.grant for other in others] == [NEW, NEW, NEW]
    assert source.asked == 2


async def test_the_same_grant_again_is_no_other_one() -> None:
    source = Source(OLD)
    ours = identity(source)
    refused = await ours.current()
    assert await ours.other_than(refused) is None
    assert await ours.other_than(refused) is None
    assert source.asked == 2
    source.now += 5
    assert await ours.other_than(refused) is None
    assert source.asked == 3


async def test_certificates_of_a_plugin_make_a_context_of_their_own() -> None:
    authority = Authority()
    certificates = [authority.issue(f"{name}@example.com") for name in "ab"]
    grants = [Grant("", c.certificate, c.key, lifetime=60) for c in certificates]
    source = Source(grants[0], grants[0], grants[1])
    ours = identity(source, "https://h")
    contexts = []
    for _ in range(3):
        contexts.append((await ours.current()).tls)
        source.now += 61
    assert contexts[0] is contexts[1]
    assert contexts[1] is not contexts[2]
    assert True not in contexts


async def test_unusable_certificates_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match="certificate-authority"):
        await Identity.of(Credentials(server="https://h", authority=b"rubbish"), cluster="w1")


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
