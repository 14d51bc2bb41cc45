"""Candidates for one lease, in virtual time: never two mandates at a time; one file, as all share one election."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from multikueue.api.kinds import LEASES
from multikueue.controllers.leader_election.election import Candidate
from multikueue.controllers.leader_election.leadership import LeaderElector, NoElection, candidate, new_identity
from multikueue.runtime import Mandate
from multikueue.settings import LeaderElection
from multikueue_simulator.time import VirtualClock, VirtualLoop
from tests.controllers.leader_election.lease_server import KEY, LeaseServer, Line

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Replica:
    """A process that stands for election for as long as it lives. Its clock runs as it likes: `offset` and `rate`."""

    server: LeaseServer
    name: str
    line: Line = field(init=False)
    offset: float = 0.0
    rate: float = 1.0
    terms: tuple[float, float, float] = (15.0, 10.0, 2.0)
    patience: float = 5.0
    led: list[tuple[float, float]] = field(default_factory=list)
    leadership: LeaderElector = field(init=False)

    def __post_init__(self) -> None:
        lease_duration, renew_deadline, retry_period = self.terms
        self.line = Line(self.server, timeout=self.patience)
        self.leadership = LeaderElector(
            client=self.line,
            key=KEY,
            candidate=Candidate(
                identity=self.name,
                lease_duration=lease_duration,
                renew_deadline=renew_deadline,
                retry_period=retry_period,
            ),
            mandate=Mandate(clock=self.boot),
            clock=VirtualClock(),
            boot=self.boot,
        )

    def boot(self) -> float:
        return self.offset + self.rate * now()

    @property
    def leads(self) -> bool:
        return self.leadership.mandate.is_valid()

    async def live(self) -> None:
        """Lead again and again; in the end give the lease back."""
        try:
            while True:
                await self.leadership.gain()
                since = now()
                await self.leadership.keep()
                self.led.append((since, now()))
        finally:
            with anyio.CancelScope(shield=True):
                await self.leadership.resign()


@asynccontextmanager
async def alive(*replicas: Replica) -> AsyncIterator[list[anyio.CancelScope]]:
    """Replicas at work; each scope ends one as SIGTERM does. At the end they are gone without a word."""
    async with anyio.create_task_group() as tasks:
        scopes = [anyio.CancelScope() for _ in replicas]

        async def live(replica: Replica, scope: anyio.CancelScope) -> None:
            with scope:
                await replica.live()

        for replica, scope in zip(replicas, scopes, strict=True):
            tasks.start_soon(live, replica, scope)
        yield scopes
        for replica in replicas:
            replica.line.cut = True
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool], *, within: float) -> float:
    """The seconds it took until the condition held."""
    began = now()
    while not condition():
        assert now() - began <= within, f"not within {within} s"
        await anyio.sleep(0.01)
    return now() - began


def pair(server: LeaseServer | None = None) -> tuple[Replica, Replica]:
    server = server or LeaseServer()
    return Replica(server, "a", offset=1e6), Replica(server, "b", offset=-5.0)


async def test_the_first_ever_waits_for_as_long_as_anybody_might_still_act() -> None:
    (one, _) = pair()
    async with alive(one):
        took = await until(lambda: one.leads, within=20)

    assert took == pytest.approx(15, abs=0.1)


async def test_a_leader_leads_on_and_on_and_the_other_does_not() -> None:
    one, two = pair()
    async with alive(one, two):
        await until(lambda: one.leads or two.leads, within=20)
        leader, other = (one, two) if one.leads else (two, one)
        for _ in range(600):
            await anyio.sleep(1)
            assert leader.leads
            assert not other.leads

    assert not leader.led
    assert {spec["holderIdentity"] for _, spec in leader.server.specs} == {leader.name}


async def test_a_leader_renews_once_per_period() -> None:
    server = LeaseServer()
    one = Replica(server, "a")
    async with alive(one):
        await until(lambda: one.leads, within=20)
        before = len(server.specs)
        await anyio.sleep(100)

    assert len(server.specs) - before == 50


@asynccontextmanager
async def a_leads() -> AsyncIterator[tuple[Replica, Replica, list[anyio.CancelScope]]]:
    """Two replicas, of which `a` leads and `b` has seen it."""
    one, two = pair()
    one.server.write({"holderIdentity": "", "leaseDurationSeconds": 1})
    async with alive(one, two) as scopes:
        await until(lambda: one.leads, within=1)
        await anyio.sleep(3)
        assert one.leads
        assert not two.leads
        yield one, two, scopes


async def test_after_a_death_the_other_leads_when_the_lease_is_over() -> None:
    async with a_leads() as (one, two, scopes):
        one.line.cut = True
        last = one.server.specs[-1][0]
        scopes[0].cancel()
        await until(lambda: two.leads, within=20)
        assert now() - last == pytest.approx(15, abs=0.1)


async def test_after_a_death_it_also_does_without_a_watch() -> None:
    async with a_leads() as (one, two, scopes):
        two.line.watches = False
        one.line.cut = True
        last = one.server.specs[-1][0]
        scopes[0].cancel()
        await until(lambda: two.leads, within=20)
        assert 15 <= now() - last <= 17.1


async def test_a_lease_given_back_is_taken_at_once() -> None:
    async with a_leads() as (one, two, scopes):
        scopes[0].cancel()
        assert await until(lambda: two.leads, within=1) < 0.2
        assert not one.leads
        assert one.server.body is not None
        assert one.server.body["spec"]["leaseTransitions"] == 2


async def test_a_lease_is_given_back_although_the_answer_to_the_last_renewal_was_lost() -> None:
    async with a_leads() as (one, two, scopes):
        one.line.delays = lambda: (0.0, 60.0)
        writes = len(one.server.specs)
        await until(lambda: len(one.server.specs) > writes, within=3)
        one.line.delays = lambda: (0.0, 0.0)
        scopes[0].cancel()
        assert await until(lambda: two.leads, within=1) < 0.2


async def test_a_leader_that_is_cut_off_stops_before_the_other_begins() -> None:
    async with a_leads() as (one, two, _):
        one.line.cut = True
        await until(lambda: not one.leads, within=10)
        stopped = now()
        await until(lambda: two.leads, within=10)
        assert now() - stopped >= 3

    assert len(one.led) == 1


async def test_a_short_trouble_costs_no_leadership() -> None:
    async with a_leads() as (one, two, _):
        one.line.cut = True
        await anyio.sleep(7)
        one.line.cut = False
        for _ in range(60):
            await anyio.sleep(0.5)
            assert one.leads
            assert not two.leads


async def test_answers_that_come_late_prolong_only_from_when_they_were_asked_for() -> None:
    async with a_leads() as (one, _, _):
        one.line.delays = lambda: (0.0, 4.5)
        asked = now()
        writes = len(one.server.specs)
        await until(lambda: len(one.server.specs) > writes, within=3)
        written = one.server.specs[-1][0]
        await anyio.sleep(4.6)
        assert one.leadership.mandate.left() == pytest.approx(10 - (now() - written), abs=0.1)
        assert written >= asked


async def test_an_answer_that_comes_when_the_lease_is_over_makes_no_leader() -> None:
    """The claim was written, its answer was on its way for too long, and another has the lease by now."""
    server = LeaseServer()
    one, two = Replica(server, "a", patience=30), Replica(server, "b")
    server.write({"holderIdentity": "", "leaseDurationSeconds": 1})
    delays = iter([(0.0, 0.0), (0.0, 17.0)])
    one.line.delays = lambda: next(delays, (0.0, 0.0))
    async with alive(one, two):
        await until(lambda: server.holder == "a", within=1)
        await until(lambda: two.leads, within=16)
        for _ in range(100):
            await anyio.sleep(0.1)
            assert two.leads
            assert not one.leads


async def test_a_lease_that_was_deleted_is_put_back_by_its_leader() -> None:
    async with a_leads() as (one, two, _):
        one.server.drop(LEASES, KEY)
        await until(lambda: one.server.holder == "a", within=3)
        await anyio.sleep(30)
        assert one.leads
        assert not two.leads


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="emptied"),
        pytest.param({"holderIdentity": "", "leaseDurationSeconds": 15}, id="without a holder"),
        pytest.param({"holderIdentity": 7, "renewTime": "soon"}, id="without a sense"),
    ],
)
async def test_a_lease_that_says_nothing_is_put_right_by_its_leader(spec: dict[str, Any]) -> None:
    async with a_leads() as (one, two, _):
        one.server.write(spec)
        await until(lambda: one.server.holder == "a", within=3)
        await anyio.sleep(30)
        assert one.leads
        assert not two.leads


async def test_to_a_name_nobody_knows_all_give_way_until_its_time_is_over() -> None:
    async with a_leads() as (one, two, _):
        one.server.write({"holderIdentity": "who?", "leaseDurationSeconds": 1})
        await until(lambda: not one.leads, within=3)
        written = one.server.specs[-1][0]
        await until(lambda: one.leads or two.leads, within=20)
        assert now() - written == pytest.approx(15, abs=0.1)


async def test_what_others_wrote_beside_the_record_stays() -> None:
    async with a_leads() as (one, _, _):
        assert one.server.body is not None
        said = {"metadata": {"annotations": {"by": "somebody"}}, "spec": {"strategy": "OldestEmulationVersion"}}
        one.server.change(LEASES, KEY, said)
        await anyio.sleep(10)
        assert one.server.body["metadata"]["annotations"] == {"by": "somebody"}
        assert one.server.body["spec"]["strategy"] == "OldestEmulationVersion"


async def test_trouble_is_told_once_per_look_and_what_it_is() -> None:
    one, _ = pair()
    one.line.cut = True
    with capture_logs() as logs:
        async with alive(one):
            await anyio.sleep(30)

    told = [entry for entry in logs if entry["event"] == "leadership.unknown"]
    assert 3 <= len(told) <= 6
    assert "no answer in time" in told[0]["error"]


async def test_alone_one_may_act_from_the_beginning_and_for_ever() -> None:
    alone = NoElection()
    await alone.gain()
    assert alone.mandate.is_valid()
    with anyio.move_on_after(1e6) as scope:
        await alone.keep()
    assert scope.cancelled_caught
    await alone.resign()
    assert alone.role == "standalone"


async def test_roles_have_kueues_names() -> None:
    async with a_leads() as (one, two, _):
        assert (one.leadership.role, two.leadership.role) == ("leader", "follower")


def test_a_candidate_has_the_settings_in_seconds_and_a_name_of_its_own() -> None:
    me = candidate(LeaderElection())

    assert (me.lease_duration, me.renew_deadline, me.retry_period) == (15.0, 10.0, 2.0)
    assert new_identity() != new_identity()


# Whatever happens.

MISHAPS = ("cut", "heal", "slow", "quick", "delete", "empty", "garbage", "stranger", "term")


@dataclass
class Weather:
    """Mishaps at random, and who leads meanwhile."""

    chance: random.Random
    replicas: list[Replica]
    server: LeaseServer
    overlaps: list[str] = field(default_factory=list)

    async def watch(self) -> None:
        while True:
            leaders = [replica.name for replica in self.replicas if replica.leads]
            if len(leaders) > 1:
                self.overlaps.append(f"{now():.2f}: {leaders}")
            await anyio.sleep(0.1)

    def strike(self, mishap: str, replica: Replica, scope: anyio.CancelScope) -> None:
        chance = self.chance
        match mishap:
            case "cut":
                replica.line.cut = True
            case "heal":
                replica.line.cut = False
            case "slow":  # a call may arrive, and its answer come back, when nobody waits for it any more
                replica.line.delays = lambda: (chance.expovariate(0.3), chance.expovariate(0.15))
            case "quick":
                replica.line.delays = lambda: (chance.random() / 10, chance.random() / 10)
            case "delete":
                if self.server.body is not None:
                    self.server.drop(LEASES, KEY)
            case "empty":
                self.server.write({"holderIdentity": "", "leaseDurationSeconds": 15})
            case "garbage":
                self.server.write({"holderIdentity": [], "leaseDurationSeconds": "long"})
            case "stranger":
                self.server.write(
                    {"holderIdentity": "stranger", "leaseDurationSeconds": chance.choice([1, 1, 15, 10**6])}
                )
            case "term":
                scope.cancel()


async def storm(seed: int, mishaps: list[tuple[float, str, int]]) -> Weather:
    chance, server = random.Random(seed), LeaseServer()
    replicas = [
        Replica(server, f"r{n}", chance.uniform(-1e6, 1e6), chance.uniform(0.97, 1.03), patience=chance.uniform(2, 20))
        for n in range(3)
    ]
    weather = Weather(chance, replicas, server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(weather.watch)
        async with alive(*replicas) as scopes:
            server.write({"holderIdentity": "", "leaseDurationSeconds": 1})
            for wait, mishap, number in mishaps:
                await anyio.sleep(wait)
                weather.strike(mishap, replicas[number], scopes[number])
            for replica in replicas:
                weather.strike("heal", replica, scopes[0])
                weather.strike("quick", replica, scopes[0])
            if not all(scope.cancel_called for scope in scopes):
                await until(lambda: any(replica.leads for replica in replicas), within=90)
        tasks.cancel_scope.cancel()
    return weather


mishaps = st.lists(
    st.tuples(
        st.floats(0, 8),
        st.sampled_from(MISHAPS),
        st.integers(0, 2),
    ),
    max_size=20,
)


@given(seed=st.integers(0, 2**16), plan=mishaps)
@settings(max_examples=100)
def test_never_two_lead_whatever_happens_and_soon_one_does(seed: int, plan: list[tuple[float, str, int]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, capture_logs():
        weather = runner.run(storm(seed, plan))

    assert weather.overlaps == []
