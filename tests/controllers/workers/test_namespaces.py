"""Workers that offer some namespaces only: what is looked at, what is sent there, and what becomes of what is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.kinds import CLUSTER_QUEUES, JOBS
from multikueue.api.kueue.workload import FITS_NO_WORKER
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workers.clusters import Reports
from multikueue.controllers.workers.connection.connection import Connection
from multikueue.dispatch.remote import Reach
from multikueue.errors import Forbidden
from multikueue.settings import EXTERNAL_DISPATCHER
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from multikueue.workload.handlers.retrying import SHORTEST_ATTEMPT
from tests.controllers.table import NAMESPACE, Table, table
from tests.controllers.workers.connection.line import QUICK, Line, access, connected, connecting
from tests.controllers.workers.worker_server import WorkerServer, worker_server

pytestmark = pytest.mark.anyio


def offers(world: Table, worker: str, *namespaces: str) -> None:
    """What its connection is told when it begins."""
    world.store.worker(worker).reported(None, "", world.now(), namespaces)


def unfit(world: Table) -> str:
    """Why nothing is sent anywhere."""
    (check,) = world.status()["admissionChecks"]
    return str(check["message"])


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_a_workload_goes_to_workers_that_offer_its_namespace_only() -> None:
    world = table()
    offers(world, "w1", "other")
    offers(world, "w2", "other", NAMESPACE)
    world.submit()
    await world.settle()
    assert world.copies() == ["w2", "w3"]


@pytest.mark.parametrize("away", [False, True], ids=["it is there", "it is away as well"])
async def test_it_is_said_why_no_worker_takes_it(away: bool) -> None:
    world = table(workers=1)
    offers(world, "w1", "other")
    if away:
        world.cut("w1")
    world.submit()
    await world.settle()
    world.time += SHORTEST_ATTEMPT
    world.queues.workloads.add(world.key())
    await world.settle()
    said = world.condition(FITS_NO_WORKER)
    if away:
        assert unfit(world) == f"No worker can be nominated: w1: it does not offer namespace {NAMESPACE}"
    else:
        assert said is not None
        assert said["message"] == f"namespace {NAMESPACE} is not offered (w1)"
    assert world.workers["w1"].calls == []
    offers(world, "w1", "other", NAMESPACE)
    world.connect("w1")
    await world.settle()
    assert world.copies() == ["w1"]


async def test_a_manager_without_connections_goes_by_the_annotation() -> None:
    world = table(roles=EXTERNAL_DISPATCHER)
    change = {"metadata": {"annotations": {NAMESPACES_ANNOTATION: "other"}}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), change)
    await Reports(world.world).reconcile("w1")
    lack = world.store.worker("w1").watch_scope.namespace_failure(NAMESPACE)
    assert lack is not None
    assert world.store.worker("w1").watch_scope.namespace_failure("other") is None


# --- what is there ---------------------------------------------------------------------------------------------------


async def ran(world: Table) -> None:
    """A job that runs on w1, which offers its namespace no more."""
    await world.begin()
    offers(world, "w1", "other")
    await world.settle()


async def test_what_runs_in_a_namespace_that_is_offered_no_more_has_the_time_of_a_lost_worker() -> None:
    world = table()
    await ran(world)
    assert world.status()["clusterName"] == "w1"
    assert world.condition("Evicted") is None

    world.time += world.world.lost_after
    world.queues.workloads.add(world.key())
    await world.settle()
    evicted = world.condition("Evicted")
    assert evicted is not None
    assert evicted["status"] == "True"


async def test_what_runs_in_a_namespace_that_is_refused_is_lost_once_it_was_asked_for_in_vain_for_long() -> None:
    world = table()
    offers(world, "w1", NAMESPACE)
    await world.begin()
    world.store.worker("w1").record_watch(kinds.JOBS, "you may not", world.time, namespace=NAMESPACE)
    world.time += world.world.lost_after
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.condition("Evicted") is None, "a process that was stopped has to ask again first"

    world.store.worker("w1").record_watch(kinds.JOBS, "you may not", world.time, namespace=NAMESPACE)
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.condition("Evicted") is not None
    assert world.runs_on() == ["w1"], "nothing can be taken away there"


async def test_it_runs_on_if_the_namespace_is_offered_again() -> None:
    world = table()
    await ran(world)
    offers(world, "w1", "other", NAMESPACE)
    await world.settle()
    world.finish("w1")
    await world.settle()
    assert world.condition("Finished") is not None


# --- what is looked at -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def limited(*shows: str) -> AsyncIterator[WorkerServer]:
    """A worker that shows these namespaces, one by one, with a copy in each."""
    async with worker_server("one", "two") as server:
        server.shows = set(shows)
        for namespace in shows:
            server.put("Workload", "job-a", f"u-{namespace}", namespace=namespace)
        yield server


def held(line: Line) -> set[str]:
    return {key.namespace for key in line.worker.held()}


def paths(server: WorkerServer) -> set[str]:
    """Where it was looked, but for what belongs to no namespace."""
    found = {path for _, method, path in server.asked if method in ("GET", "WATCH")}
    return found - {"/api", "/api/v1/namespaces/kube-system", CLUSTER_QUEUES.path()}


async def test_each_namespace_is_looked_at_by_itself_and_all_are_known_together() -> None:
    async with limited("a", "b") as server, connected(server, namespaces=("a", "b")) as line:
        assert held(line) == {"a", "b"}
        assert {path.split("/namespaces/")[1].split("/")[0] for path in paths(server)} == {"a", "b"}


async def test_a_namespace_that_is_not_shown_costs_the_others_nothing() -> None:
    async with limited("a") as server, connected(server, namespaces=("a", "b")) as line:
        assert held(line) == {"a"}
        seen, unseen = (line.world.world.views.seen(ObjectKey(namespace, "job-a"), "w1") for namespace in ("a", "b"))
        assert (seen.link.reach, seen.link.is_known) == (Reach.CONNECTED, True)
        assert (unseen.link.reach, unseen.link.is_known) == (Reach.ISOLATED, False)
        shown, hidden = (line.world.world.views.shown("w1", JOBS.name, namespace) for namespace in ("a", "b"))
        assert (shown.usable, hidden.usable) == (True, False)
        assert "403" in hidden.why


async def test_a_worker_that_shows_none_of_its_namespaces_is_not_connected() -> None:
    async with limited() as server, connecting(server, namespaces=("a", "b")) as line:
        await line.until(lambda: line.worker.link.reach is Reach.ISOLATED and "403" in line.worker.why)
        server.shows = {"b"}
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)


async def test_nothing_is_known_of_a_worker_that_offers_other_namespaces_until_these_were_looked_at() -> None:
    async with limited("a", "b") as server, connected(server, namespaces=("a",)) as line:
        line.connection.stop()
        server.hangs = True
        link = Connection(line.world.world, QUICK, line.worker, access(server, "one"), anyio.Event(), ("a", "b"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            await line.until(lambda: line.worker.watch_scope.namespaces == ("a", "b"))
            assert (line.worker.link.is_known, line.worker.link.reach) == (False, Reach.SUSPECT)
            assert held(line) == {"a"}, "what was seen there counts on"
            link.stop()


async def test_a_worker_that_offers_nothing_is_connected_and_not_looked_at() -> None:
    async with limited() as server, connected(server, namespaces=()):
        assert paths(server) == set()


async def test_new_credentials_must_show_what_the_old_ones_show_and_no_more() -> None:
    async with limited("a") as server, connected(server, namespaces=("a", "b")) as line:
        line.connection.offer(access(server, "two"))
        await line.changes_to(server, "two")
        assert held(line) == {"a"}
        server.tokens.add("three")
        server.shows = {"b"}
        line.connection.offer(access(server, "three"))
        assert "403" in await line.objects(Forbidden)
        assert line.connection.access.kubeconfig == access(server, "two").kubeconfig
