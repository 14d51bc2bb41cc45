"""A worker's connection over HTTP: how it changes its credentials while it works; one file, as all share two servers."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

import anyio
import pytest

from multikueue.api.kinds import LOCAL_QUEUES, WORKLOADS
from multikueue.controllers.workers.connection.identities import OtherCluster
from multikueue.dispatch.remote import Reach
from multikueue.errors import ClusterUnreachable, Unauthorized
from multikueue.jobs.integrations.external import external
from multikueue.runtime.concurrency import START
from multikueue.settings import Integrations
from tests.controllers.workers.connection.line import (
    ASKED,
    KEY,
    TIMINGS,
    Line,
    access,
    beats,
    connected,
    connecting,
)
from tests.controllers.workers.worker_server import worker_server

pytestmark = pytest.mark.anyio


async def test_a_new_token_takes_over_without_a_moment_of_trouble() -> None:
    async with worker_server("one", "two") as server:
        server.put("Workload", "job-a", "u1")
        async with connected(server) as line:
            outbox = line.world.queues.outboxes["w1"]
            line.connection.offer(access(server, "two"))
            await line.changes_to(server, "two")
            await beats(line, server, "two")  # what was under way with the old one has arrived by then
            count = len(server.uses("one"))
            await beats(line, server, "two")
            assert len(server.uses("one")) == count
            assert line.states == []
            assert line.world.queues.outboxes["w1"] is outbox
            assert line.worker.workloads.get(KEY) is not None
            assert line.connection.newest == access(server, "two").kubeconfig


async def test_the_client_of_a_worker_and_its_limit_are_there_for_as_long_as_its_connection() -> None:
    async with worker_server("one") as server:
        async with connected(server) as line:
            page = await line.world.world.clients["w1"].list(LOCAL_QUEUES)
            assert page.items == ()
            assert line.world.queues.limits["w1"]() == START
        assert line.world.world.clients == line.world.queues.limits == {}


async def test_a_worker_that_comes_and_goes_gets_fewer_calls_at_a_time_each_time_that_it_is_back() -> None:
    async with worker_server("one") as server, connected(server) as line:
        client, limit = line.world.world.clients["w1"], line.world.queues.limits["w1"]
        for part in (2, 4):
            server.hangs = True
            with pytest.raises(ClusterUnreachable):
                await client.delete(WORKLOADS, KEY)
            server.hangs = False
            await line.until(lambda: line.worker.link.is_connected and not line.worker.link.is_silent)
            assert limit() == START // part


async def test_credentials_that_are_refused_leave_the_old_ones_in_use() -> None:
    async with worker_server("one") as server, connected(server) as line:
        line.world.queues.clusters = type(line.world.queues.clusters)()
        line.connection.offer(access(server, "wrong"))
        assert "401" in await line.objects(Unauthorized)
        assert line.connection.problem is not None
        assert line.connection.problem.reason == "ClientConnectionFailed"
        assert len(line.world.queues.clusters) == 1, "the condition is to tell of it"
        tried = len(server.uses("wrong"))
        await line.until(lambda: len(server.uses("wrong")) > tried + 3)
        assert line.states == []
        assert "WATCH jobs" not in server.uses("wrong")


async def test_credentials_become_good_later() -> None:
    async with worker_server("one") as server, connected(server) as line:
        line.connection.offer(access(server, "two"))
        await line.objects(Unauthorized)
        server.tokens.add("two")
        await line.changes_to(server, "two")
        assert line.states == []


async def test_a_token_revoked_before_the_new_one_came_costs_no_more_than_the_time_between() -> None:
    async with worker_server("one") as server, connected(server) as line:
        server.tokens = {"two"}
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
        line.connection.offer(access(server, "two"))
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)


async def test_a_refused_token_has_its_source_looked_at_again() -> None:
    async with worker_server("one") as server, connected(server) as line:
        line.world.queues.clusters = type(line.world.queues.clusters)()
        server.tokens.clear()
        await line.until(lambda: len(line.world.queues.clusters) == 1)


async def test_a_server_that_hangs_is_not_used_and_the_next_offer_does_not_wait_for_it() -> None:
    async with worker_server("one", "two") as server, worker_server() as other, connected(server) as line:
        other.hangs = True
        line.connection.offer(access(other, "one"))
        await line.until(lambda: other.asked)
        with anyio.fail_after(TIMINGS.heartbeat_timeout.total_seconds() * 0.9):
            line.connection.offer(access(server, "two"))
            await line.changes_to(server, "two")
        assert line.states == []


async def test_a_server_that_cannot_be_reached_is_told_of() -> None:
    async with worker_server("one") as server, connected(server) as line:
        line.connection.offer(access("http://127.0.0.1:1", "two"))
        message = await line.objects(ClusterUnreachable)
        assert message.startswith("the new kubeconfig is not in use: ")
        assert line.states == []


async def test_an_offer_is_withdrawn_by_offering_what_is_in_use() -> None:
    async with worker_server("one") as server, connected(server) as line:
        line.connection.offer(access(server, "wrong"))
        await line.objects(Unauthorized)
        line.connection.offer(access(server, "one"))
        assert line.connection.problem is None
        tried = len(server.uses("wrong"))
        await anyio.sleep(0.05)
        assert len(server.uses("wrong")) <= tried + 1
        assert line.connection.newest == access(server, "one").kubeconfig


async def test_the_same_cluster_under_another_address_is_used_at_once() -> None:
    async with worker_server("one") as server, worker_server("two") as moved:
        for each in (server, moved):
            each.put("Workload", "job-a", "u1")
        async with connected(server) as line:
            line.connection.offer(access(moved, "two"))
            await line.changes_to(moved, "two")
            assert line.states == []
            assert line.worker.workloads.get(KEY) is not None


async def test_another_cluster_gets_the_name_when_nothing_of_ours_is_left_on_the_one_before() -> None:
    async with worker_server("one") as server, worker_server("two") as other:
        server.put("Workload", "job-a", "u1")
        other.put("Workload", "job-a", "u2")
        async with connected(server) as line:
            line.connection.offer(access(other, "two"))
            assert "another cluster" in await line.objects(OtherCluster)
            assert line.worker.leaving, "it must get nothing new"
            held = line.worker.workloads.get(KEY)
            assert held is not None
            assert held.metadata.uid == "u1"
            server.drop("Workload", "job-a")
            await line.changes_to(other, "two")
            await line.until(lambda: line.worker.workloads.get(KEY) is not None)
            found = line.worker.workloads.get(KEY)
            assert found is not None
            assert found.metadata.uid == "u2"
            assert line.worker.leaving == ""
            assert Reach.SUSPECT not in line.states


async def test_another_cluster_gets_the_name_when_the_one_before_counts_as_lost() -> None:
    async with worker_server("one") as server, worker_server("two") as other:
        server.put("Workload", "job-a", "u1")
        server.version = 10_000
        async with connected(server) as line:
            line.worker.ask_for_job(KEY, ASKED)
            server.tokens.clear()
            line.connection.offer(access(other, "two"))
            await line.objects(OtherCluster)
            await line.until(lambda: line.worker.link.reach is Reach.ISOLATED)
            assert line.worker.workloads.get(KEY) is not None
            line.world.time += line.world.world.lost_after
            await line.changes_to(other, "two")
            await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
            assert line.worker.workloads.get(KEY) is None
            assert line.worker.expectations.asked(KEY) is None


async def test_a_cluster_without_anything_of_ours_may_be_changed_for_another_at_once() -> None:
    async with worker_server("one") as server, worker_server("two") as other, connected(server) as line:
        line.connection.offer(access(other, "two"))
        await line.changes_to(other, "two")
        assert line.states == []


@pytest.mark.parametrize("what", ["asked", "creating"])
async def test_what_may_be_there_by_now_is_something_of_ours(what: str) -> None:
    async with worker_server("one") as server, worker_server("two") as other, connected(server) as line:
        with line.worker.expectations.creating(KEY) if what == "creating" else nullcontext():
            if what == "asked":
                line.worker.ask_for_job(KEY, ASKED)
            line.connection.offer(access(other, "two"))
            await line.objects(OtherCluster)


async def test_a_connection_that_follows_another_one_does_not_read_another_cluster_as_everything_gone() -> None:
    async with worker_server("one") as server, connecting(server, before=access("http://before", "x")) as line:
        line.worker.ask_for_job(KEY, ASKED)
        assert "another cluster" in await line.objects(OtherCluster)
        assert line.connection.is_tried
        assert not line.connection.can_take_offers
        assert "WATCH jobs" not in server.uses("one")
        assert line.worker.link.reach is not Reach.CONNECTED
        line.worker.expectations.answered(KEY)
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        assert line.connection.problem is None
        assert line.connection.can_take_offers


async def test_a_connection_that_follows_another_one_to_the_same_address_does_not_ask_first() -> None:
    async with worker_server("one") as server, connecting(server, before=access(server, "zero")) as line:
        line.worker.ask_for_job(KEY, ASKED)
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)


@pytest.mark.parametrize("trouble", ["a heartbeat", "a watch"])
async def test_the_first_trouble_of_a_connection_is_made_known(trouble: str) -> None:
    async with worker_server("two") as server, connecting(server) as line:
        if trouble == "a watch":
            server.tokens, server.lacks = {"one"}, {"workloads"}
        line.worker.isolated()
        line.world.queues.clusters = type(line.world.queues.clusters)()
        await line.until(lambda: line.connection.is_tried)
        assert len(line.world.queues.clusters) == 1


# Kinds of jobs that not every cluster has.


GADGET = "Gadget.v1.example.com"
GADGETS = external(GADGET).kind
WITH_GADGETS = Integrations(external=(GADGET,))


def no_gadgets(line: Line) -> str:
    """Why there can be none on the worker."""
    lack = line.worker.watch_scope.failure(GADGETS.name, "team")
    return lack.why if lack is not None else ""


async def test_a_worker_that_lacks_a_kind_of_jobs_is_as_good_as_any_for_the_others() -> None:
    async with worker_server("one") as server:
        server.lacks = {"gadgets"}
        async with connected(server, integrations=WITH_GADGETS) as line:
            line.world.store.open_jobs(GADGETS)
            assert "not listed yet" in no_gadgets(line)
            await line.until(lambda: "no kind Gadget" in no_gadgets(line))
            assert line.worker.link.reach is Reach.CONNECTED
            assert line.states == []


async def test_a_kind_is_watched_once_the_manager_has_it_and_used_once_the_worker_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("multikueue.kube.reflector._LONGEST_PAUSE_WITHOUT_KIND", timedelta(milliseconds=10))
    async with worker_server("one", "two") as server:
        server.lacks = {"gadgets"}
        async with connected(server, integrations=WITH_GADGETS) as line:
            assert "WATCH gadgets" not in server.uses("one")
            line.world.store.open_jobs(GADGETS)
            await line.until(lambda: "no kind Gadget" in no_gadgets(line))
            line.connection.offer(access(server, "two"))
            await line.until(lambda: line.connection.access.kubeconfig == access(server, "two").kubeconfig)
            server.lacks = set()
            await line.until(lambda: not no_gadgets(line))
            assert "WATCH gadgets" in server.uses("two")
