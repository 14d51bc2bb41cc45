"""Two manager processes and one lease, one file: one acts, one is hot, never two act.

Both run as the service account of `deploy/`, each through a link of its own; the audit logs tell them apart by the
identity in their user agents.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp
import anyio
import pytest

from fakekube.front_end.audit import Event
from testbed.audit import Mark
from testbed.bed import Testbed
from testbed.client import Client, Kind, eventually
from testbed.objects import CLUSTER_QUEUE, LOCAL_QUEUE, Object
from testbed.ports import free_port
from testbed.proxy import Link
from tests.real.chronicle import chronicle
from tests.real.deployment import NAMESPACE, granted
from tests.real.harness import Manager, Team, played, team

pytestmark = [pytest.mark.real, pytest.mark.anyio, pytest.mark.timeout(180)]

LEASE, NAME = Kind("coordination.k8s.io/v1", "Lease"), "multikueue-manager"
QUICK_LEASE = {
    "LEADER_ELECTION__LEASE_DURATION": "5s",
    "LEADER_ELECTION__RENEW_DEADLINE": "3.5s",
    "LEADER_ELECTION__RETRY_PERIOD": "0.5s",
}
LATE_GAIN = QUICK_LEASE | {"LEADER_ELECTION__LEASE_DURATION": "10s"}
"""Long after the loss: a process that has no processor for seconds says late that it has lost."""
FIRM_LEASE = {"LEADER_ELECTION__RETRY_PERIOD": "0.5s"}
"""One that a slow machine does not lose: renewals may be late by ten seconds."""
SLOW_TO_DOUBT = {"TIMINGS__HEARTBEAT_TIMEOUT": "10s"}
"""A worker that answers nothing still gets calls for so long."""
PATIENCE = 30
TOLD = ("events", "clusterqueues/status", "localqueues/status")
"""What only tells: nothing is decided by it."""


class Replica(Manager):
    """One of the two processes. `link` is its way to the manager cluster's API server.

    `told` begins with `mark`, so that a test need not know what happened to the process before.
    """

    def __init__(self, bed: Testbed, token: str) -> None:
        self.link, self.port = bed.link(bed.manager), free_port()
        access = bed.manager.kubeconfig(server=self.link.url, token=token)
        super().__init__(bed, access=access, LEADER_ELECTION__ENABLED="true", PROBES__PORT=str(self.port))
        self._entries: list[Object] = []
        self._read = self._mark = 0

    def mark(self) -> None:
        self._mark = len(self._all())

    def told(self, event: str) -> list[Object]:
        """What it logged under that name."""
        return [entry for entry in self._all()[self._mark :] if entry["event"] == event]

    def complaints(self) -> list[Object]:
        return [entry for entry in self._all()[self._mark :] if entry["level"] in ("error", "critical")]

    @property
    def state(self) -> str:
        """Whether it leads or waits to lead, by the last it said of that; empty if it does neither."""
        if not self.alive:
            return ""
        states = {"manager.acting": "leads", "leadership.awaited": "waits", "leadership.lost": ""}
        said = [states[entry["event"]] for entry in self._all() if entry["event"] in states]
        return said[-1] if said else ""

    @property
    def identities(self) -> set[str]:
        """All it ever had: each life has its own."""
        return {entry["identity"] for entry in self._all() if entry["event"] == "leadership.awaited"}

    async def hears(self, event: str, *, timeout: float = PATIENCE) -> Object:
        """The entry, once it was logged."""

        async def heard() -> Object | None:
            return next(iter(self.told(event)), None)

        return await eventually(heard, timeout=timeout, interval=0.02)

    async def probe(self, path: str) -> int:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status

    def _all(self) -> list[Object]:
        """What it logged in all its lives, read once."""
        text = self.log.read_bytes()[self._read :] if self.log.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        self._entries += [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]
        return self._entries


@dataclass(slots=True)
class Couple:
    """The two processes of the module. They live from test to test; what a test ended is started again."""

    bed: Testbed
    replicas: tuple[Replica, Replica]
    settings: Mapping[str, str] | None = None

    async def ready(self, settings: Mapping[str, str]) -> tuple[Replica, Replica]:
        """The one that leads and the one that is hot, with these settings."""
        if settings != self.settings:
            self.kill()
            self.settings = settings
        if not any(replica.alive for replica in self.replicas):
            await leave_lease_free(self.bed)
        for replica in self.replicas:
            replica.link.ok()
            if not replica.alive:
                replica.start(**{f"MULTIKUEUE_{name}": value for name, value in settings.items()})

        async def settled() -> tuple[Replica, Replica] | None:
            found = {replica.state: replica for replica in self.replicas}
            return (found["leads"], found["waits"]) if {"leads", "waits"} <= set(found) else None

        return await eventually(settled, timeout=PATIENCE)

    def kill(self) -> None:
        for replica in self.replicas:
            replica.kill()


@dataclass(slots=True)
class Pair:
    """The two processes of a test, of which `first` leads to begin with, and their team."""

    bed: Testbed
    team: Team
    first: Replica
    second: Replica
    marks: dict[str, Mark] = field(default_factory=dict)

    async def holder(self) -> str:
        async with self.bed.manager.client() as client:
            lease = await client.find(LEASE, NAME, NAMESPACE)
        return str((lease or {}).get("spec", {}).get("holderIdentity", ""))

    async def lease(self) -> Object:
        async with self.bed.manager.client() as client:
            return await client.get(LEASE, NAME, NAMESPACE)

    async def settle(self) -> None:
        """From here on `calls` counts: what was answered before is not in there."""
        for name, plane in self.bed.planes.items():
            self.marks[name] = await plane.audit.settled()

    async def calls(self, replica: Replica) -> list[tuple[str, Event]]:
        """What a process asked of all clusters since `settle`, besides the lease; with the cluster's name."""
        found: list[tuple[str, Event]] = []
        for name, plane in self.bed.planes.items():
            await plane.audit.settled()
            events = plane.audit.events(self.marks[name])
            found += [(name, e) for e in events if _is_by(replica, e) and e.resource != "leases"]
        return found

    async def writes(self, replica: Replica) -> list[str]:
        return [_text(*call) for call in await self.calls(replica) if call[1].call.is_write]

    async def effects(self, replica: Replica) -> list[str]:
        """Writes that changed something: with a refused one, others were faster, and nothing came of it.

        Events are none: they tell what had happened when they were sent, also if they arrive late. Nor are the counts of
        a queue: if the next leader had nothing to write there, a late one applies, until that leader puts it right.
        """
        return [
            _text(*call)
            for call in await self.calls(replica)
            if call[1].call.is_write and call[1].code < 300 and call[1].resource not in TOLD
        ]

    async def job_runs(self, name: str) -> str:
        """Submit a job and see it through; the worker it ran on."""
        await self.team.submit(name)
        worker = await self.team.runs_on(name, timeout=PATIENCE)
        await self.team.complete(worker, name)
        await self.team.finished(name, timeout=PATIENCE)
        return worker


def _text(cluster: str, event: Event) -> str:
    return f"{cluster}: {event.verb} {event.resource} {event.name} {event.code}"


def _is_by(replica: Replica, event: Event) -> bool:
    return any(identity in event.user_agent for identity in replica.identities)


@pytest.fixture(scope="module")
def token(bed: Testbed) -> str:
    return anyio.run(granted, bed, "standalone")


@pytest.fixture(scope="module")
def couple(bed: Testbed, token: str) -> Iterator[Couple]:
    couple = Couple(bed, (Replica(bed, token), Replica(bed, token)))
    yield couple
    couple.kill()
    anyio.run(forget_lease, bed)


async def forget_lease(bed: Testbed) -> None:
    async with bed.manager.client() as client:
        await client.delete(LEASE, NAME, NAMESPACE)


@pytest.fixture
async def pair(bed: Testbed, couple: Couple, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    """The first leads, the second is hot, all workers are connected. A test may have its own settings, indirectly."""
    try:
        await couple.ready(settings := getattr(request, "param", QUICK_LEASE))
        for replica in couple.replicas:
            replica.mark()
        async with team(bed) as members:
            await members.all_active()
            first, second = await couple.ready(settings)
            await hot(second, members)
            for replica in couple.replicas:
                replica.mark()
            pair = Pair(bed, members, first, second)
            await pair.settle()
            yield pair
            for replica in couple.replicas:
                assert replica.complaints() == []
    except BaseException as error:
        for replica in couple.replicas:
            error.add_note(f"the log of {sorted(replica.identities)} ends with:\n{replica.tail(40)}")
        raise


async def leave_lease_free(bed: Testbed) -> None:
    """As a leader does that was stopped: nobody has to wait for it."""
    async with bed.manager.client() as client:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": NAME, "namespace": NAMESPACE}}
        await client.apply(body | {"spec": spec})


async def hot(standby: Replica, members: Team) -> None:
    """Waits until it has seen all workers of the team."""

    async def connected() -> bool:
        met = {entry["cluster"] for entry in standby.told("cluster.connected")}
        assert {members.cluster(worker) for worker in members.links} <= met
        return True

    await eventually(connected, timeout=PATIENCE)


async def takes_over(standby: Replica) -> datetime:
    """When it began to act, as soon as it has."""
    return datetime.fromisoformat((await standby.hears("manager.acting"))["timestamp"])


def leased(settings: Mapping[str, str], id_: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", [pytest.param(settings, id=id_)], indirect=True)


shipped_lease = leased({}, "the shipped lease")
firm_lease = leased(FIRM_LEASE, "a firm lease")
late_gain = leased(LATE_GAIN, "a late gain")


@firm_lease
async def test_a_standby_is_hot_and_ready_and_writes_nothing(pair: Pair) -> None:
    for number in range(3):
        await pair.job_runs(f"job-{number}")

    assert await pair.writes(pair.first)
    assert await pair.writes(pair.second) == []
    verbs = {event.verb for _, event in await pair.calls(pair.second)}
    assert verbs <= {"get", "list", "watch"}
    assert (await pair.second.probe("/readyz"), await pair.second.probe("/healthz")) == (200, 200)
    assert (await pair.holder()) in pair.first.identities


@shipped_lease
async def test_after_a_sudden_death_the_standby_acts_as_soon_as_the_lease_is_over(pair: Pair) -> None:
    transitions = (await pair.lease())["spec"]["leaseTransitions"]
    pair.first.kill()
    await pair.team.submit("orphan")
    await pair.settle()
    left = (await pair.lease())["spec"]
    end = datetime.fromisoformat(left["renewTime"]) + timedelta(seconds=left["leaseDurationSeconds"])

    began = await takes_over(pair.second)
    worker = await pair.team.winner("orphan", timeout=PATIENCE)

    assert left["leaseDurationSeconds"] == 15
    assert timedelta() <= began - end < timedelta(seconds=10), "it has waited for another lease"
    assert worker in pair.team.links
    lists = {event.resource for _, event in await pair.calls(pair.second) if event.verb == "list"}
    # Whoever leads looks at these for fields lost in an older version, while one is served, as it is here.
    assert lists <= {"clusterqueues", "multikueueclusters"}, "it was not hot"
    assert (await pair.lease())["spec"]["leaseTransitions"] == transitions + 1


@shipped_lease
async def test_a_stopped_leader_hands_over_long_before_the_lease_is_over(pair: Pair) -> None:
    asked = datetime.now(UTC)
    code = pair.first.stop()
    began = await takes_over(pair.second)

    assert code == 0
    assert began - asked < timedelta(seconds=10), "it has waited: a renewal is two seconds old at most"
    await pair.job_runs("after")
    assert pair.first.told("leadership.released")


@firm_lease
async def test_a_stopped_standby_leaves_the_leader_alone(pair: Pair) -> None:
    transitions = (await pair.lease())["spec"]["leaseTransitions"]

    assert pair.second.stop() == 0
    await pair.job_runs("after")

    assert (await pair.lease())["spec"]["leaseTransitions"] == transitions
    assert not pair.first.told("leadership.lost")


async def test_a_leader_that_was_frozen_writes_nothing_when_it_wakes_up(pair: Pair) -> None:
    names = [f"job-{number}" for number in range(40)]
    async with played(pair.team, after=0.2) as record:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pair.team.submit_all, names)
            await record.first(names[0])
            pair.first.freeze()
        await takes_over(pair.second)
        await pair.settle()
        pair.first.thaw()
        with anyio.fail_after(PATIENCE):
            await pair.first.ended()
        ends = await pair.team.all_over(timeout=60)
        await record.settled()

    assert await pair.writes(pair.first) == []
    assert set(ends.values()) == {"Complete"}
    assert len(ends) == len(names)
    assert record.twice() == {}


@firm_lease
async def test_a_leader_that_was_frozen_for_a_moment_leads_on(pair: Pair) -> None:
    pair.first.freeze()
    await anyio.sleep(1.0)
    pair.first.thaw()
    await pair.job_runs("after")

    assert not pair.first.told("leadership.lost")
    assert not pair.second.told("leadership.gained")


@late_gain
@pytest.mark.parametrize("trouble", [Link.hang, Link.blackhole, Link.mute], ids=["hang", "blackhole", "mute"])
async def test_a_leader_that_is_cut_off_steps_down_before_the_other_acts(
    pair: Pair, trouble: Callable[[Link], None]
) -> None:
    names = [f"job-{number}" for number in range(20)]
    async with played(pair.team, after=0.2) as record:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pair.team.submit_all, names)
            await record.first(names[0])
            trouble(pair.first.link)
        await takes_over(pair.second)
        await pair.settle()
        lost, gained = await pair.first.hears("leadership.lost"), await pair.second.hears("leadership.gained")
        assert lost["timestamp"] < gained["timestamp"]
        ends = await pair.team.all_over(timeout=60)
        pair.first.link.ok()  # what was held back arrives now
        await pair.first.hears("leadership.awaited")
        await record.settled()

    assert await pair.effects(pair.first) == [], "what the link had received in time came too late to change anything"
    assert set(ends.values()) == {"Complete"}
    assert len(ends) == len(names)
    assert record.twice() == {}
    for kind, queue in ((CLUSTER_QUEUE, pair.team.namespace), (LOCAL_QUEUE, "main")):
        await eventually(
            partial(pair.team.counts, kind, queue, pendingWorkloads=0, reservingWorkloads=0, admittedWorkloads=0)
        )

    pair.second.stop()  # the one that stepped down is the next one's standby by now
    await pair.first.hears("manager.acting")
    await pair.job_runs("after")


@pytest.mark.parametrize("end", [Replica.kill, Replica.stop], ids=["killed", "stopped"])
async def test_a_burst_goes_through_a_change_of_leaders_whole(pair: Pair, end: Callable[[Replica], object]) -> None:
    names = [f"job-{number}" for number in range(30)]
    async with chronicle(pair.team) as history, played(pair.team, after=0.2) as record:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pair.team.submit_all, names)
            await record.first(names[5])
            await anyio.to_thread.run_sync(end, pair.first)
        ends = await pair.team.all_over(timeout=60)
        await record.settled()
        await history.judge()

    assert set(ends.values()) == {"Complete"}
    assert len(ends) == len(names)
    assert record.twice() == {}


async def _delete(client: Client) -> None:
    await client.delete(LEASE, NAME, NAMESPACE)


async def _empty(client: Client) -> None:
    await client.patch(LEASE, NAME, {"spec": {"holderIdentity": ""}}, NAMESPACE)


async def _blank(client: Client) -> None:
    await client.patch(LEASE, NAME, {"spec": None}, NAMESPACE)


@firm_lease
async def test_a_lease_spoilt_by_hand_changes_no_leader(pair: Pair) -> None:
    async def repaired() -> bool:
        return await pair.holder() in pair.first.identities

    async with pair.bed.manager.client() as client:
        for spoil in (_empty, _blank, _delete):
            await spoil(client)
            await eventually(repaired, timeout=10)
    await anyio.sleep(16)  # longer than the lease: now the other would have it
    await pair.job_runs("after")
    assert not pair.first.told("leadership.lost")
    assert await pair.writes(pair.second) == []


@late_gain
async def test_a_lease_in_a_strangers_name_stops_all_for_a_while_and_not_for_ever(pair: Pair) -> None:
    async with pair.bed.manager.client() as client:
        await client.patch(LEASE, NAME, {"spec": {"holderIdentity": "stranger"}}, NAMESPACE)

    lost = await pair.first.hears("leadership.lost")
    gained = await _next_leader(pair)

    assert lost["timestamp"] < gained["timestamp"]
    await pair.job_runs("after")


async def _next_leader(pair: Pair) -> Object:
    async def found() -> Object | None:
        again = [*pair.first.told("leadership.gained"), *pair.second.told("leadership.gained")]
        return again[0] if again else None

    return await eventually(found, timeout=PATIENCE)


@leased(QUICK_LEASE | SLOW_TO_DOUBT | {"SHUTDOWN__GRACE_PERIOD": "1500ms"}, "1500ms")
async def test_calls_that_do_not_end_hold_up_a_stop_for_the_grace_period_and_no_longer(pair: Pair) -> None:
    for link in pair.team.links.values():
        link.hang()
    await pair.team.submit()
    await pair.first.hears("remote.action")

    asked = time.monotonic()
    code = await anyio.to_thread.run_sync(pair.first.stop)
    took = time.monotonic() - asked

    assert code == 0
    assert 1.5 <= took < 10, "so long a call may take"
    assert pair.first.told("leadership.released")
    await pair.second.hears("manager.acting")


@leased(QUICK_LEASE | SLOW_TO_DOUBT, "slow to doubt")
async def test_a_second_signal_ends_at_once(pair: Pair) -> None:
    for link in pair.team.links.values():
        link.hang()  # calls under way that will not end
    await pair.team.submit()
    await pair.first.hears("remote.action")
    assert pair.first._process is not None
    pair.first._process.send_signal(signal.SIGTERM)
    await pair.first.hears("manager.stopping")
    asked = time.monotonic()
    pair.first._process.send_signal(signal.SIGTERM)
    await pair.first.ended()

    assert time.monotonic() - asked < 5, "not after the grace period of 10 s"


async def test_two_that_start_together_agree_on_one(bed: Testbed, couple: Couple) -> None:
    couple.kill()
    await forget_lease(bed)
    for replica in couple.replicas:
        replica.mark()
        replica.start(**{f"MULTIKUEUE_{name}": value for name, value in FIRM_LEASE.items()})

    async def led() -> bool:
        return any(replica.told("manager.acting") for replica in couple.replicas)

    await eventually(led, timeout=PATIENCE)
    await anyio.sleep(3)
    assert sum(len(replica.told("manager.acting")) for replica in couple.replicas) == 1
