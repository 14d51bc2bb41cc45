"""Which cluster a worker is: a second name for one, and a name that leads elsewhere than before, also after a new start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.kueue.workload import FAILED_ON
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION
from multikueue.controllers.workers.clusters import Clusters
from multikueue.controllers.workers.connection.connection import Connection
from multikueue.controllers.workers.connection.identities import PATIENCE, OtherCluster, SameCluster
from multikueue.controllers.workers.connection.worker_credentials import CONNECTION_FAILED
from multikueue.dispatch.remote import Reach
from multikueue.errors import Forbidden, MultiKueueError, ServerError
from multikueue.runtime import Mandate
from tests.controllers.table import NAMESPACE, Table
from tests.controllers.workers.connection.line import (
    ASKED,
    KEY,
    QUICK,
    Line,
    access,
    beats,
    connected,
    connecting,
)
from tests.controllers.workers.worker_server import WorkerServer, worker_server
from tests.store.known import not_seen_yet

pytestmark = pytest.mark.anyio


def kept(world: Table, name: str = "w1") -> str | None:
    """The identity on the object of a worker."""
    body = world.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)) or {}
    uid: str | None = body["metadata"].get("annotations", {}).get(CLUSTER_UID_ANNOTATION)
    return uid


def keep(world: Table, uid: str | None, name: str = "w1", **metadata: Any) -> None:
    change = {"metadata": {"annotations": {CLUSTER_UID_ANNOTATION: uid}, **metadata}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), change)


def nominated(world: Table, **status: Any) -> None:
    """A workload whose status names w1 as one that it may be on, unless told otherwise."""
    body = {"metadata": {"name": "wl", "namespace": NAMESPACE}, "status": status or {"nominatedClusterNames": ["w1"]}}
    world.manager.put(kinds.WORKLOADS, body)


@asynccontextmanager
async def refused(line: Line, server: WorkerServer, reason: str) -> AsyncIterator[str]:
    """The connection is refused for that reason, and nothing but who it is was asked for."""
    await line.until(lambda: line.worker.link.reach is Reach.ISOLATED and line.connection.reason == reason)
    assert set(server.uses("one")) == {"GET api", "GET kube-system"}
    assert not line.connection.can_take_offers
    yield line.worker.why


async def test_the_identity_is_kept_on_the_object_before_anything_is_looked_at() -> None:
    async with worker_server("one", uid="u1") as server, connected(server) as line:
        assert kept(line.world) == "u1"
        assert server.uses("one")[:2] == ["GET api", "GET kube-system"]
        assert server.uses("one").count("GET kube-system") == 1


async def test_an_identity_that_was_taken_away_is_kept_again() -> None:
    async with worker_server("one", uid="u1") as server, connected(server) as line:
        keep(line.world, None)
        await line.until(lambda: kept(line.world) == "u1")
        assert line.states == []


# A second name.


async def test_nothing_is_done_through_a_second_name_until_the_first_is_gone() -> None:
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        keep(line.world, "u1", "w2")
        async with refused(line, server, "SameCluster") as why:
            assert '"w2"' in why
            assert kept(line.world) is None
        line.world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w2"))
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert kept(line.world) == "u1"
        assert line.connection.reason == CONNECTION_FAILED


@pytest.mark.parametrize("way", ["the other one is removed", "the kubeconfigs are swapped back"])
async def test_of_two_whose_kubeconfigs_were_swapped_neither_is_used_and_both_are_told_the_ways_out(way: str) -> None:
    """This is one of them; of the other one the same is true."""
    async with (
        worker_server("two", uid="u1") as server,
        worker_server("one", uid="u2") as other,
        connecting(other) as line,
    ):
        keep(line.world, "u1", "w1")
        keep(line.world, "u2", "w2")
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED and line.connection.reason == "SameCluster")
        assert '"w2"' in line.worker.why
        assert "have it lead where it led before, or remove one of the two" in line.worker.why
        assert (kept(line.world), kept(line.world, "w2")) == ("u1", "u2")
        if way == "the other one is removed":
            line.world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w2"))
        else:
            line.connection.offer(access(server, "two"))
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert kept(line.world) == ("u2" if way == "the other one is removed" else "u1")


async def test_the_condition_names_the_first() -> None:
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        keep(line.world, "u1", "w2")
        async with refused(line, server, "SameCluster"):
            clusters = Clusters(line.world.world, QUICK, "kueue-system")
            told = clusters._condition(cluster_of(line.world), line.connection)
            assert told is not None
            assert (told.status, told.reason) == ("False", "SameCluster")
            assert '"w2"' in told.message


def cluster_of(world: Table, name: str = "w1") -> Any:
    return world.store.clusters.get(ObjectKey("", name))


async def test_of_two_that_come_at_once_one_is_first() -> None:
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        second = line.world.store.worker("w2")
        not_seen_yet(second)
        other = Connection(line.world.world, QUICK, second, access(server, "one"), anyio.Event())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.run)
            reaches = {Reach.CONNECTED, Reach.ISOLATED}
            await line.until(lambda: {line.worker.link.reach, second.link.reach} == reaches)
            assert [kept(line.world), kept(line.world, "w2")].count("u1") == 1
            other.stop()


@pytest.mark.parametrize("elder", ["w1", "w2"])
async def test_of_two_objects_with_one_identity_the_eldest_is_first(elder: str) -> None:
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        for name in ("w1", "w2"):
            born = "2026-01-01T10:00:00Z" if name == elder else "2026-01-01T11:00:00Z"
            keep(line.world, "u1", name, creationTimestamp=born)
        wanted = Reach.CONNECTED if elder == "w1" else Reach.ISOLATED
        await line.until(lambda: line.worker.link.reach is wanted)


async def test_new_credentials_that_lead_to_the_cluster_of_another_name_are_not_used() -> None:
    async with (
        worker_server("one", uid="u1") as server,
        worker_server("two", uid="u2") as other,
        connected(server) as line,
    ):
        keep(line.world, "u2", "w2")
        line.connection.offer(access(other, "two"))
        assert '"w2"' in await line.objects(SameCluster)
        assert line.states == []
        assert kept(line.world) == "u1"


@pytest.mark.parametrize("busy", [True, False])
async def test_no_name_takes_the_identity_that_another_one_has_whatever_runs_there(busy: bool) -> None:
    """A worker that hid its identity got a job, and then showed that of an idle one, which was put out of service."""
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        keep(line.world, "u1", "w2")
        if busy:
            nominated(line.world)
        async with refused(line, server, "SameCluster"):
            assert (kept(line.world), kept(line.world, "w2")) == (None, "u1")


# Another cluster than before.


MAY_BE_THERE: dict[str, dict[str, Any]] = {
    "it won": {"clusterName": "w1"},
    "it is nominated": {"nominatedClusterNames": ["w1"]},
    "it is nominated with more than the status holds": {"nominatedClusterNames": [f"n{n}" for n in range(20)]},
    "an attempt ended there": {
        "conditions": [{"type": FAILED_ON, "status": "True", "message": "w1 at 2026-01-01T11:00:00Z"}]
    },
}


@pytest.mark.parametrize("status", MAY_BE_THERE.values(), ids=MAY_BE_THERE)
async def test_after_a_start_another_cluster_waits_for_what_may_be_on_the_one_before(status: dict[str, Any]) -> None:
    async with worker_server("one", uid="u2") as server, connecting(server) as line:
        keep(line.world, "u1")
        nominated(line.world, **status)
        async with refused(line, server, "BadKubeConfig") as why:
            assert "another cluster" in why
            assert CLUSTER_UID_ANNOTATION in why
            assert kept(line.world) == "u1"


NOTHING_THERE: dict[str, dict[str, Any]] = {
    "it won elsewhere": {"clusterName": "w2", "conditions": MAY_BE_THERE["an attempt ended there"]["conditions"]},
    "it is nominated elsewhere": {"nominatedClusterNames": ["w2"]},
    "it is finished": {"clusterName": "w1", "conditions": [{"type": "Finished", "status": "True", "message": ""}]},
}


@pytest.mark.parametrize("status", NOTHING_THERE.values(), ids=NOTHING_THERE)
async def test_after_a_start_another_cluster_gets_the_name_at_once_if_nothing_can_be_on_the_one_before(
    status: dict[str, Any],
) -> None:
    async with worker_server("one", uid="u2") as server, connecting(server) as line:
        keep(line.world, "u1")
        nominated(line.world, **status)
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert kept(line.world) == "u2"


async def test_another_cluster_gets_the_name_once_the_one_before_counts_as_lost() -> None:
    async with worker_server("one", uid="u2") as server, connecting(server) as line:
        keep(line.world, "u1")
        nominated(line.world)
        async with refused(line, server, "BadKubeConfig"):
            line.world.time += line.world.world.lost_after
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert kept(line.world) == "u2"


async def test_another_cluster_gets_the_name_once_the_operator_says_so() -> None:
    async with worker_server("one", uid="u2") as server, connecting(server) as line:
        keep(line.world, "u1")
        nominated(line.world)
        async with refused(line, server, "BadKubeConfig"):
            keep(line.world, None)
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)


async def test_the_same_cluster_is_the_same_whatever_of_ours_is_seen_there() -> None:
    async with worker_server("one", uid="u1") as server, worker_server("two", uid="u1") as moved:
        server.put("Workload", "job-a", "one")
        moved.put("Workload", "job-a", "another")
        async with connected(server) as line:
            line.connection.offer(access(moved, "two"))
            await line.changes_to(moved, "two")
            assert line.states == []


async def test_another_cluster_is_another_one_whatever_of_ours_is_seen_there() -> None:
    async with worker_server("one", uid="u1") as server, worker_server("two", uid="u2") as restored:
        for each in (server, restored):
            each.put("Workload", "job-a", "the very same")
        async with connected(server) as line:
            line.connection.offer(access(restored, "two"))
            assert "another cluster" in await line.objects(OtherCluster)
            server.drop("Workload", "job-a")
            await line.changes_to(restored, "two")
            assert kept(line.world) == "u2"


async def test_another_cluster_behind_the_same_address_is_not_read_as_everything_gone() -> None:
    async with worker_server("one", uid="u1") as server:
        server.put("Workload", "job-a", "one")
        async with connected(server) as line:
            server.uid, server.objects = "u2", {}
            server.restart()
            await line.until(lambda: line.connection.reason == "BadKubeConfig")
            assert line.worker.workloads.get(KEY) is not None
            assert "u2" in line.worker.why
            line.world.time += line.world.world.lost_after
            await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
            assert line.worker.workloads.get(KEY) is None
            assert kept(line.world) == "u2"


async def test_the_same_cluster_goes_on_after_a_restart() -> None:
    async with worker_server("one", uid="u1") as server:
        server.put("Workload", "job-a", "one")
        async with connected(server) as line:
            server.objects, server.version = {}, 200
            server.restart()
            await line.until(lambda: line.worker.workloads.get(KEY) is None)


@pytest.mark.parametrize(("new", "forgotten"), [("", False), ("u1", False), ("u2", True)])
async def test_new_credentials_of_a_lost_worker_cost_what_is_known_only_if_the_cluster_is_another(
    new: str, forgotten: bool
) -> None:
    async with worker_server("one", uid="u1") as server, connected(server) as line:
        line.worker.ask_for_job(KEY, ASKED)
        server.tokens = {"two"}
        server.uid = new
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
        line.world.time += line.world.world.lost_after
        line.connection.offer(access(server, "two"))
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert (line.worker.expectations.asked(KEY) is None) is forgotten


# Where we may not know.


async def test_a_worker_that_does_not_let_us_see_its_identity_goes_on_and_a_warning_says_what_to_do() -> None:
    async with worker_server("one") as server, connecting(server) as line:
        keep(line.world, "u1")
        nominated(line.world)
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        ((reason, message),) = line.world.said()
        assert reason == "IdentityUnknown"
        assert "register it again" in message
        assert kept(line.world) == "u1"


async def test_an_identity_is_known_once_it_may_be_read() -> None:
    async with worker_server("one") as server, connected(server) as line:
        server.uid = "u1"
        asked = server.uses("one").count("GET kube-system")
        await line.until(lambda: server.uses("one").count("GET api") > 5)
        assert server.uses("one").count("GET kube-system") == asked, "a refusal holds for a while"
        line.world.time += PATIENCE
        await line.until(lambda: kept(line.world) == "u1")
        assert line.states == []


async def test_nobody_waits_while_the_manager_cluster_does_not_keep_an_identity() -> None:
    async with worker_server("one", uid="u1") as server, connected(server) as line:
        async with line.world.world.claims:
            keep(line.world, None)
            beats = server.uses("one").count("GET api")
            await line.until(lambda: server.uses("one").count("GET api") > beats + 3)
        await line.until(lambda: kept(line.world) == "u1")


async def test_the_credentials_of_a_new_registration_make_it_known() -> None:
    async with worker_server("one") as server, worker_server("two", uid="u1") as again, connected(server) as line:
        line.connection.offer(access(again, "two"))
        await line.changes_to(again, "two")
        assert kept(line.world) == "u1"


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), ServerError(500, "InternalError", "no")], ids=str)
async def test_an_identity_that_cannot_be_kept_costs_the_worker_nothing(error: MultiKueueError) -> None:
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        line.world.manager.fault = lambda verb, plural: error if (verb, plural) == PATCHED else None
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        line.world.manager.fault = lambda *_: None
        if isinstance(error, ServerError):
            await line.until(lambda: kept(line.world) == "u1")
        else:
            assert line.world.said()[0][0] == "IdentityNotKept"
            line.world.time += PATIENCE
            await line.until(lambda: kept(line.world) == "u1")


async def test_an_identity_is_not_written_over_a_version_that_was_not_seen() -> None:
    """So a leader that was cut off, whose request arrives when another one leads, changes nothing."""
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        with line.world.manager.unheard():
            keep(line.world, None, labels={"of": "the leader since"})
            await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
            await beats(line, server, "one")
            assert kept(line.world) is None
        keep(line.world, None, labels={"of": "a version that is seen"})
        await line.until(lambda: kept(line.world) == "u1")


PATCHED = ("patch", kinds.MULTIKUEUE_CLUSTERS.plural)


async def test_a_standby_keeps_nothing() -> None:
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        assert isinstance(line.world.world.mandate, Mandate)
        line.world.world.mandate.end()
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert kept(line.world) is None


@pytest.mark.parametrize("elder", ["w1", "w2"])
async def test_where_nothing_is_written_down_the_elder_name_is_first(elder: str) -> None:
    """A standby knows of both before it leads, and keeps nothing."""
    async with worker_server("one", uid="u1") as server, connecting(server) as line:
        assert isinstance(line.world.world.mandate, Mandate)
        line.world.world.mandate.end()
        for name in ("w1", "w2"):
            born = "2026-01-01T10:00:00Z" if name == elder else "2026-01-01T11:00:00Z"
            keep(line.world, None, name, creationTimestamp=born)
        line.world.world.identified["w2"] = "u1"
        wanted = Reach.CONNECTED if elder == "w1" else Reach.ISOLATED
        await line.until(lambda: line.worker.link.reach is wanted)
