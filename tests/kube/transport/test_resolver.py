"""Names of servers: one whose DNS is silent delays nobody else, and what was known once is used again."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from itertools import count

import anyio
import pytest
from aiohttp.abc import ResolveResult

from multikueue.kube.transport import resolver
from multikueue.kube.transport.resolver import Resolver

pytestmark = pytest.mark.anyio

_numbers = count()


class Dns:
    """A name server: answers with `address`, says nothing while `silent`, or knows no name."""

    def __init__(self) -> None:
        self.address: str | None = "192.0.2.1"
        self.asked: list[str] = []
        self.silent = threading.Event()
        self.goes_on = threading.Event()

    def getaddrinfo(self, host: str, port: int, **_options: int) -> list[tuple[object, ...]]:
        self.asked.append(host)
        if "silent" in host or self.silent.is_set():
            self.goes_on.wait(60)
        if self.address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.address, port))]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    made = Dns()
    monkeypatch.setattr("multikueue.kube.transport.resolver.socket.getaddrinfo", made.getaddrinfo)
    yield made
    made.goes_on.set()


def a_name(text: str = "worker") -> str:
    """A name that no other test has: what is known is shared."""
    return f"{text}-{next(_numbers)}.example"


def hosts(found: list[ResolveResult]) -> list[str]:
    return [each["host"] for each in found]


async def test_silent_names_delay_nobody_else(dns: Dns) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(40):
            tasks.start_soon(Resolver().resolve, a_name("silent"), 443)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(10):
            assert hosts(await Resolver().resolve(a_name(), 443)) == ["192.0.2.1"]
        tasks.cancel_scope.cancel()


async def test_one_name_has_one_look_up_at_a_time_whoever_gave_up_on_it(dns: Dns) -> None:
    name = a_name("silent")
    for _ in range(5):
        with anyio.move_on_after(0.01):
            await Resolver().resolve(name, 443)
    assert dns.asked == [name]
    dns.goes_on.set()
    with anyio.fail_after(10):
        assert hosts(await Resolver().resolve(name, 443)) == ["192.0.2.1"]


@pytest.mark.parametrize("trouble", ["silence", "no such name"])
async def test_the_last_known_addresses_outlive_a_look_up_without_an_answer(
    dns: Dns, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(resolver, "PATIENCE", 0.01)
    name = a_name()
    await Resolver().resolve(name, 443)
    if trouble == "silence":
        dns.silent.set()
    else:
        dns.address = None
    with anyio.fail_after(10):
        assert hosts(await Resolver().resolve(name, 443)) == ["192.0.2.1"]


async def test_a_new_address_replaces_what_was_known(dns: Dns) -> None:
    name = a_name()
    await Resolver().resolve(name, 443)
    dns.address = "192.0.2.2"
    assert hosts(await Resolver().resolve(name, 443)) == ["192.0.2.2"]


async def test_a_name_that_was_never_known_is_an_error(dns: Dns) -> None:
    dns.address = None
    with pytest.raises(socket.gaierror, match="not known"):
        await Resolver().resolve(a_name(), 443)


async def test_an_error_that_nobody_waits_for_is_not_reported(dns: Dns, caplog: pytest.LogCaptureFixture) -> None:
    dns.address = None
    with anyio.move_on_after(0.01):
        await Resolver().resolve(a_name("silent"), 443)
    dns.goes_on.set()
    await asyncio.sleep(0.05)
    assert not caplog.records


async def test_the_addresses_of_this_machine_are_found_as_the_system_finds_them() -> None:
    found = await Resolver().resolve("localhost", 6443, socket.AF_UNSPEC)
    assert {each["host"] for each in found} <= {"127.0.0.1", "::1"}
    assert {each["port"] for each in found} == {6443}
