"""Processes without election see each other by the Lease, which nobody renews at rest. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.api.kinds import LEASES
from multikueue.controllers.leader_election.election import Candidate
from multikueue.controllers.leader_election.leadership import LeaderElector
from multikueue.controllers.leader_election.presence import ANSWER_TIMEOUT, Presence
from multikueue.errors import ConfigurationError
from multikueue.runtime import Mandate
from multikueue_simulator.time import VirtualClock, VirtualLoop
from tests.controllers.leader_election.lease_server import KEY, LeaseServer, Line

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@dataclass
class Process:
    """One without election. `ended` is what it says when it ends by itself."""

    server: LeaseServer
    name: str
    line: Line = field(init=False)
    presence: Presence = field(init=False)
    ended: str = ""

    def __post_init__(self) -> None:
        self.line = Line(self.server)
        self.presence = Presence(client=self.line, key=KEY, clock=VirtualClock(), identity=self.name)

    async def enter(self) -> float:
        """The seconds until it acts."""
        began = anyio.current_time()
        await self.presence.enter()
        return anyio.current_time() - began

    async def stay(self) -> None:
        try:
            await self.presence.stay()
        except ConfigurationError as error:
            self.ended = str(error)


@asynccontextmanager
async def acting(process: Process) -> AsyncIterator[Process]:
    """As long as the block lasts; then it is gone without a word, as with SIGKILL."""
    await process.enter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.stay)
        await anyio.sleep(1)
        yield process
        tasks.cancel_scope.cancel()


async def test_the_first_starts_at_once_and_writes_nothing_more() -> None:
    server = LeaseServer()
    async with acting(Process(server, "a")):
        await anyio.sleep(24 * 3600)
    assert len(server.specs) == 1
    assert server.holder == "a"


@pytest.mark.parametrize("hours", [0, 24], ids=["at once", "a day later"])
async def test_a_second_one_is_refused_and_says_by_whom_and_what_to_do(hours: int) -> None:
    server = LeaseServer()
    async with acting(Process(server, "a")) as first:
        await anyio.sleep(hours * 3600)
        with pytest.raises(ConfigurationError, match=r"a renews Lease kueue-system/multikueue-manager\..*--force"):
            await Process(server, "b").enter()
        with pytest.raises(ConfigurationError, match="a renews"):
            await Process(server, "c").enter()
        assert first.ended == ""
    assert server.holder == "a"


async def test_after_one_that_stopped_the_next_starts_at_once_and_after_one_that_died_soon() -> None:
    server = LeaseServer()
    async with acting(Process(server, "a")) as first:
        await first.presence.leave()
    assert await Process(server, "b").enter() == 0
    waited = await Process(server, "c").enter()
    assert 0 < waited <= ANSWER_TIMEOUT.total_seconds() + 1
    assert server.holder == "c"


async def test_of_two_that_start_at_once_one_acts() -> None:
    server, said = LeaseServer(), list[str]()

    async def start(name: str) -> None:
        process = Process(server, name)
        process.line.delays = lambda: (0.1, 0.1)
        try:
            await process.enter()
        except ConfigurationError as error:
            said.append(str(error))
            return
        await process.stay()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start, "a")
        tasks.start_soon(start, "b")
        await anyio.sleep(30)
        tasks.cancel_scope.cancel()
    assert len(said) == 1
    assert server.holder in {"a", "b"}


async def test_beside_a_leader_it_is_refused_and_the_leader_goes_on_leading() -> None:
    server = LeaseServer()
    leader = LeaderElector(
        client=Line(server),
        key=KEY,
        candidate=Candidate(identity="leader", lease_duration=15.0, renew_deadline=10.0, retry_period=2.0),
        mandate=Mandate(clock=anyio.current_time),
        clock=VirtualClock(),
        boot=anyio.current_time,
    )
    async with anyio.create_task_group() as tasks:
        await leader.gain()
        tasks.start_soon(leader.keep)
        with pytest.raises(ConfigurationError, match="leader renews Lease"):
            await Process(server, "b").enter()
        await anyio.sleep(60)
        assert leader.role == "leader"
        tasks.cancel_scope.cancel()


async def test_it_ends_once_a_leader_has_taken_the_lease() -> None:
    """As where a Deployment with election is applied beside one that was started by hand."""
    server = LeaseServer()
    async with acting(Process(server, "a")) as process:
        server.write({"holderIdentity": "leader", "leaseDurationSeconds": 15})
        await anyio.sleep(1)
    assert "another manager, leader, has taken Lease" in process.ended


@pytest.mark.parametrize("how", ["deleted", "emptied"])
async def test_a_lease_that_somebody_spoils_is_taken_again(how: str) -> None:
    server = LeaseServer()
    async with acting(Process(server, "a")) as process:
        if how == "deleted":
            server.drop(LEASES, KEY)
        else:
            server.write({})
        await anyio.sleep(10)
        assert process.ended == ""
    assert server.holder == "a"


async def test_it_answers_as_soon_as_a_broken_watch_is_whole_again() -> None:
    server = LeaseServer()
    process = Process(server, "a")
    process.line.watches = False
    async with acting(process):
        await anyio.sleep(60)
        process.line.watches = True
        await anyio.sleep(10)
        with pytest.raises(ConfigurationError, match="a renews"):
            await Process(server, "b").enter()


async def test_one_that_cannot_use_the_lease_starts_and_says_that_others_do_not_see_it() -> None:
    process = Process(LeaseServer(), "a")
    process.line.cut = True
    with capture_logs() as logs:
        await process.enter()
    assert [entry["event"] for entry in logs] == ["manager.not_seen"]
