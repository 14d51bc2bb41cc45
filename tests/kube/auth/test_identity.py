from __future__ import annotations

import anyio
import pytest

from fakekube.front_end.authority import Authority
from multikueue.errors import ClusterUnreachable, ConfigurationError
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.identity import Identity
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
