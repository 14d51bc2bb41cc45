"""Placements and nominations by others, and the watch that OCM may lack: one file, all controllers at once."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from aiohttp import web
from msgspec.structs import replace
from structlog.testing import capture_logs

from fakekube.schemas.notation import Kind as Definition
from fakekube.schemas.notation import Version, array, defined, record, text
from multikueue import strategy as contract
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.ocm import PLACEMENT_LABEL
from multikueue.api.multikueue.strategies import STRATEGY_ANNOTATION
from multikueue.controllers.workers.ocm_placements import PlacementWatch
from multikueue.errors import ApiError, Forbidden, NotFound
from multikueue.kube.cluster_client import WatchingClient
from multikueue.settings import EXTERNAL_DISPATCHER
from multikueue.store.caches.hub_scores import HubScores
from multikueue.store.caches.placements import PLACEMENT_ANNOTATION, Named, Placements
from multikueue.store.store import Store
from multikueue.testing import NOW
from tests.cluster import Cluster
from tests.controllers.kueue_core import Core
from tests.controllers.table import CHECK, NAMESPACE, QUEUE, Table, table
from tests.kube.server import client_of, lists, streams

pytestmark = pytest.mark.anyio

OURS = "kueue-system"
SHRINK = timedelta(seconds=10)
GPU = Named(ObjectKey(OURS, "gpu"))
EXTERNAL = {"name": "external", "options": {"shrink_after": SHRINK}}
CHECK_KEY, QUEUE_KEY = ObjectKey("", CHECK), ObjectKey(NAMESPACE, QUEUE)


def external(*, begun: bool = True, **settings: Any) -> Table:
    """A table that follows Placements; `gpu` is named by its check."""
    world = table(**{"strategy": EXTERNAL} | settings)
    placements = world.store.placements
    world.manager.watch(kinds.PLACEMENTS, placements.placements)
    world.manager.watch(kinds.PLACEMENT_DECISIONS, placements.decisions)
    if begun:
        placements.begin()
    name(world, kinds.ADMISSION_CHECKS, CHECK_KEY, "gpu")
    return world


def name(world: Table, kind: Kind[Any], key: ObjectKey, placement: str | None) -> None:
    world.manager.change(kind, key, {"metadata": {"annotations": {PLACEMENT_ANNOTATION: placement}}})


def decide(world: Table, *clusters: str, placement: str = "gpu") -> None:
    """The Placement, if need be, and its one slice."""
    meta = {"name": placement, "namespace": OURS}
    if world.manager.find(kinds.PLACEMENTS, ObjectKey(OURS, placement)) is None:
        world.manager.put(kinds.PLACEMENTS, {"metadata": {**meta, "uid": placement}})
    labels = {PLACEMENT_LABEL: placement}
    decisions = [{"clusterName": cluster} for cluster in clusters]
    slice_ = {
        "metadata": {**meta, "name": f"{placement}-decision-1", "labels": labels},
        "status": {"decisions": decisions},
    }
    world.manager.put(kinds.PLACEMENT_DECISIONS, slice_)


async def later(world: Table, by: timedelta, job: str = "job") -> None:
    """Time passes, and what was due is looked at."""
    world.time += by
    world.queues.workloads.add(world.key(job))
    await world.settle()


def message(world: Table, job: str = "job") -> str:
    (check,) = world.status(job)["admissionChecks"]
    return str(check["message"])


async def waiting(world: Table, job: str = "job") -> Table:
    world.submit(job)
    await world.settle()
    return world


# Decisions.


async def test_copies_go_where_it_was_decided_and_follow_a_change_of_mind() -> None:
    world = external()
    decide(world, "w2", "w1")
    await waiting(world)
    assert world.copies() == ["w1", "w2"]
    decide(world, "w2", "w3")
    await world.settle()
    assert world.copies() == ["w1", "w2", "w3"]
    await later(world, SHRINK)
    assert (world.copies(), sorted(world.status()["nominatedClusterNames"])) == (["w2", "w3"], ["w2", "w3"])


async def test_a_job_does_not_go_before_its_queue_unless_a_setting_lets_it() -> None:
    world = external()
    decide(world, "w1")
    decide(world, "w3", placement="anything")
    world.submit("job")
    name(world, kinds.JOBS, ObjectKey(NAMESPACE, "job"), "anything")
    await world.settle()
    assert world.copies() == ["w1"]
    await later(world, timedelta(minutes=1))
    hints = [text for reason, text in world.said() if reason == "InvalidAnnotation"]
    assert hints == [
        "annotation multikueue.dev/placement is ignored: workloads and jobs may not choose here "
        "(setting dispatch.workload_placements)"
    ]


async def test_a_running_winner_is_left_alone_whatever_is_decided() -> None:
    world = external()
    decide(world, "w1")
    await waiting(world)
    world.admit("w1")
    await world.settle()
    calls = len(world.manager.calls), len(world.workers["w1"].calls)
    decide(world, "w2")
    await later(world, timedelta(hours=1))
    assert (world.runs_on(), world.status()["clusterName"]) == (["w1"], "w1")
    assert (len(world.manager.calls), len(world.workers["w1"].calls)) == calls
    world.finish("w1")
    await world.settle()
    assert world.condition("Finished") is not None


async def test_a_copy_that_is_admitted_while_it_is_withdrawn_comes_too_late() -> None:
    world = external()
    decide(world, "w1")
    await waiting(world)
    decide(world, "w2")
    await world.settle()
    world.time += SHRINK
    (loop,) = [loop for loop in world.runnables.loops if loop.name == "workloads"]
    await loop.reconcile(world.key())
    assert world.copies() == ["w1", "w2"]
    assert world.status()["nominatedClusterNames"] == ["w2"]
    world.admit("w1")
    await world.settle()
    assert (world.copies(), world.runs_on()) == (["w2"], [])
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        pytest.param(None, "there is no Placement kueue-system/gpu", id="no Placement"),
        pytest.param(
            ["elsewhere"],
            "Placement kueue-system/gpu; not in the MultiKueueConfig: elsewhere",
            id="strangers only",
        ),
        pytest.param([], "Placement kueue-system/gpu has decided for no cluster", id="nobody"),
    ],
)
async def test_a_job_waits_with_the_reason_and_goes_once_it_is_decided(clusters: list[str] | None, said: str) -> None:
    world = external()
    if clusters is not None:
        decide(world, *clusters)
    await waiting(world)
    assert (message(world), world.copies()) == (f"No worker can be nominated: {said}", [])
    decide(world, "w3")
    await world.settle()
    assert (message(world), world.copies()) == ("", ["w3"])


async def test_looking_again_while_it_waits_writes_nothing() -> None:
    world = external()
    await waiting(world)
    before = len(world.manager.calls)
    await later(world, timedelta(hours=1))
    assert len(world.manager.calls) == before


async def test_a_restart_withdraws_nothing_before_its_time() -> None:
    world = external()
    decide(world, "w1", "w2")
    await waiting(world)
    world.time += timedelta(hours=1)
    decide(world, "w2")
    world.start()
    await world.settle()
    assert world.copies() == ["w1", "w2"]  # nothing is read yet
    for kind, cache in (
        (kinds.PLACEMENTS, world.store.placements.placements),
        (kinds.PLACEMENT_DECISIONS, world.store.placements.decisions),
    ):
        world.manager.watch(kind, cache)
    world.store.placements.begin()
    await world.settle()
    assert world.copies() == ["w1", "w2"]
    await later(world, SHRINK)
    assert world.copies() == ["w2"]


async def test_names_are_found_from_the_most_specific_on_and_each_change_is_heard() -> None:
    world = external(workload_placements=True)
    for number in (1, 2, 3):
        decide(world, f"w{number}", placement=f"p{number}")
    await waiting(world)
    steps = (
        (kinds.ADMISSION_CHECKS, CHECK_KEY, "p1", "w1"),
        (kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), "p2", "w2"),
        (kinds.LOCAL_QUEUES, QUEUE_KEY, "kueue-system/p3", "w3"),
        (kinds.JOBS, ObjectKey(NAMESPACE, "job"), "p1", "w1"),
        (kinds.WORKLOADS, world.key(), "p2", "w2"),
        (kinds.WORKLOADS, world.key(), None, "w1"),
    )
    for kind, key, placement, worker in steps:
        world.time += SHRINK
        name(world, kind, key, placement)
        await world.settle()
        assert world.copies() == [worker], kind.kind


async def test_a_wrong_name_is_told_with_its_object_and_keeps_what_is_there() -> None:
    world = external()
    decide(world, "w1")
    await waiting(world)
    name(world, kinds.LOCAL_QUEUES, QUEUE_KEY, "a/b/c")
    await later(world, timedelta(hours=1))
    assert world.copies() == ["w1"]
    await waiting(world, "second")
    assert world.copies("second") == []
    assert message(world, "second").startswith(
        "No worker can be nominated: annotation multikueue.dev/placement of LocalQueue team/main: expected NAME or"
    )


async def test_a_change_wakes_only_the_workloads_that_follow_that_placement() -> None:
    world = external(workload_placements=True)
    decide(world, "w1")
    decide(world, "w2", placement="other")
    for job in ("first", "second"):
        await waiting(world, job)
    name(world, kinds.JOBS, ObjectKey(NAMESPACE, "second"), "other")
    await world.settle()
    decide(world, "w3", placement="other")
    assert len(world.queues.workloads) == 1
    assert await world.queues.workloads.get() == world.key("second")


async def test_the_option_of_the_strategy_is_the_last_resort() -> None:
    world = external(strategy={"name": "external", "options": {"placement": "default"}})
    name(world, kinds.ADMISSION_CHECKS, CHECK_KEY, None)
    decide(world, "w2", placement="default")
    await waiting(world)
    assert world.copies() == ["w2"]


async def test_as_kueues_external_dispatcher_decisions_are_nominations_and_nothing_else_is_written() -> None:
    world = external(roles=EXTERNAL_DISPATCHER)
    decide(world, "w2")
    core = Core(world)
    await core.submit()
    assert world.status()["nominatedClusterNames"] == ["w2"]
    decide(world, "w3")
    await core.settle()
    assert sorted(world.status()["nominatedClusterNames"]) == ["w2", "w3"]
    await later(world, SHRINK)
    assert world.status()["nominatedClusterNames"] == ["w3"]
    assert set(world.manager.writes()) == {"apply workloads/status"}


async def test_without_anybody_who_reads_them_placements_are_not_asked_for() -> None:
    world = external(strategy={"name": "all-at-once"})
    await waiting(world)
    assert world.copies() == ["w1", "w2", "w3"]
    assert not await world.world.strategies.is_read_by_any("placementdecisions")
    assert world.store.placements._followed == {}
    world.manager.change(
        kinds.ADMISSION_CHECKS, CHECK_KEY, {"metadata": {"annotations": {STRATEGY_ANNOTATION: "external"}}}
    )
    assert await world.world.strategies.is_read_by_any("placementdecisions")


# Nominations by somebody else.


def by_hand(*, begun: bool = True) -> Table:
    world = external(begun=begun)
    name(world, kinds.ADMISSION_CHECKS, CHECK_KEY, None)
    return world


async def nominate(world: Table, *clusters: str) -> int:
    """Somebody writes the list; answers how many writes of ours follow."""
    before = len(world.manager.writes())
    world.manager.change(kinds.WORKLOADS, world.key(), {"status": {"nominatedClusterNames": list(clusters)}})
    await world.settle()
    return len(world.manager.writes()) - before


async def test_what_somebody_else_nominates_stays_as_it_is_until_somebody_wins() -> None:
    world = await waiting(by_hand(begun=False))  # OCM need not be there
    assert message(world) == "No worker can be nominated: no Placement is named, and nobody else has nominated one"
    assert await nominate(world, "w3") == 1  # the message
    for clusters in (("w3", "nowhere", "w1"), ("w1", "w1"), ("w2", "w1")):
        assert await nominate(world, *clusters) == 0
        assert world.status()["nominatedClusterNames"] == list(clusters)
        assert world.copies() == sorted({*clusters} - {"nowhere"})
    world.admit("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]
    assert "nominatedClusterNames" not in world.status()


async def test_names_that_nobody_knows_are_told_and_left() -> None:
    world = await waiting(by_hand())
    await nominate(world, "nowhere")
    assert message(world) == "No worker can be nominated: not in the MultiKueueConfig: nowhere"
    assert (world.status()["nominatedClusterNames"], world.copies()) == (["nowhere"], [])


async def test_a_worker_taken_from_the_config_loses_its_copy_though_it_stays_nominated() -> None:
    world = await waiting(by_hand())
    await nominate(world, "w1", "w2")
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, CHECK_KEY, {"spec": {"clusters": ["w2", "w3"]}})
    await world.settle()
    assert (world.status()["nominatedClusterNames"], world.copies()) == (["w1", "w2"], ["w2"])


async def test_a_nomination_by_somebody_else_ends_with_the_attempt() -> None:
    world = await waiting(by_hand())
    await nominate(world, "w1")
    world.admit("w1")
    await world.settle()
    world.evict("w1")
    await world.settle()
    assert (world.copies(), world.runs_on()) == ([], [])
    await later(world, timedelta(hours=2))
    assert (world.condition("QuotaReserved") or {})["status"] == "True"
    assert (world.copies(), world.status().get("nominatedClusterNames")) == ([], None)


# The watch.


async def until(condition: Any) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in a server, not in an event of ours
            await anyio.sleep(0.005)


def watch(client: WatchingClient, placements: Placements, *, any_read: bool) -> PlacementWatch:
    world = table(**({"strategy": EXTERNAL} if any_read else {})).world
    store = cast("Store", SimpleNamespace(placements=placements, hub_scores=HubScores(lambda: NOW)))
    return PlacementWatch(replace(world, manager=client, store=store))


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (
            NotFound(404, "NotFound", "no"),
            "the server has no kind Placement (cluster.open-cluster-management.io/v1beta1)",
        ),
        (Forbidden(403, "Forbidden", "you may not"), "you may not"),
    ],
    ids=["OCM is not installed", "we may not read it"],
)
async def test_what_cannot_be_read_is_said_once_and_read_once_it_can_be(
    monkeypatch: pytest.MonkeyPatch, refusal: ApiError, why: str
) -> None:
    monkeypatch.setattr("multikueue.kube.reflector._LONGEST_PAUSE_WITHOUT_KIND", timedelta(milliseconds=10))
    monkeypatch.setattr("multikueue.kube.reflector._LONGEST_PAUSE", timedelta(milliseconds=10))
    monkeypatch.setattr("multikueue.controllers.workers.ocm_placements.PATIENCE", 1000.0)
    touched: list[ObjectKey] = []
    placements, cluster = Placements(touched.append, lambda: NOW), Cluster("manager", lambda: NOW)
    cluster.fault = lambda _verb, _plural: refusal
    wanted, job = Named(ObjectKey(OURS, "gpu")), ObjectKey(NAMESPACE, "job")
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            watching = watch(cluster, placements, any_read=True)
            tasks.start_soon(watching.run)
            with anyio.fail_after(10):
                await watching.contact()
            await until(lambda: len([entry for entry in logs if entry["event"] == "watch.broken"]) == 2)
            seen = placements.view(job, wanted, ())
            asked = len(cluster.calls)
            await until(lambda: len(cluster.calls) > asked + 10)
            assert placements.view(job, wanted, ()) == seen
            assert seen is not None
            assert "cannot be read: " in seen.problem
            assert touched == []
            cluster.fault = lambda _verb, _plural: None
            await until(lambda: placements.since is not None)
            await until(lambda: len([entry for entry in logs if entry["event"] == "watch.stands"]) == 2)
            tasks.cancel_scope.cancel()
    broken = {entry["kind"]: entry["why"] for entry in logs if entry["event"] == "watch.broken"}
    assert len([entry for entry in logs if entry["event"] == "watch.broken"]) == 2
    assert why in broken["placements"]
    assert touched in ([job], [job, job]), "once when all can be read, and perhaps once when one of the two can"


async def test_garbage_among_the_decisions_breaks_neither_list_nor_watch() -> None:
    labels = {PLACEMENT_LABEL: "gpu"}
    statuses: list[Any] = [7, {"decisions": {}}, {"decisions": [None, {"clusterName": 1}]}, None]
    garbage: list[dict[str, Any]] = [
        {"metadata": {"name": f"gpu-{n}", "namespace": OURS, "labels": labels, "uid": str(n)}, "status": status}
        for n, status in enumerate(statuses)
    ]
    meta = {"name": "gpu-9", "namespace": OURS, "labels": labels, "uid": "9", "resourceVersion": "11"}
    good = {"metadata": meta, "status": {"decisions": [None, {"clusterName": "w1"}]}}
    placement = {"metadata": {"name": "gpu", "namespace": OURS, "uid": "gpu"}}
    changes = streams(*({"type": "ADDED", "object": each} for each in (*garbage, good)), then="silence")
    placements = Placements(lambda _: None, lambda: NOW)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        is_slices, is_watch = request.path.endswith("decisions"), "watch" in request.query
        if is_watch:
            return await (changes if is_slices else streams(then="silence"))(request)
        return await lists(*(garbage if is_slices else [placement]))(request)

    async with client_of(answer) as (client, _), anyio.create_task_group() as tasks:
        tasks.start_soon(watch(client, placements, any_read=True).run)
        placements.need()
        await until(lambda: placements.since is not None and placements.view(ObjectKey("", "x"), GPU, ()).groups)  # type: ignore[union-attr]
        tasks.cancel_scope.cancel()
    seen = placements.view(ObjectKey("", "x"), GPU, ())
    assert seen is not None
    assert (seen.groups, seen.problem) == ((("w1",),), "")


async def test_nothing_is_watched_before_somebody_asks() -> None:
    placements, cluster = Placements(lambda _: None, lambda: NOW), Cluster("manager", lambda: NOW)
    async with anyio.create_task_group() as tasks:
        watching = watch(cluster, placements, any_read=False)
        tasks.start_soon(watching.run)
        await watching.contact()
        assert (cluster.calls, placements.since) == ([], None)
        placements.view(ObjectKey(NAMESPACE, "job"), Named(ObjectKey(OURS, "gpu")), ())
        await until(lambda: placements.since == NOW)
        tasks.cancel_scope.cancel()


async def test_decisions_of_another_scheduler_are_watched_in_place_of_ocms() -> None:
    world = table(strategy=EXTERNAL, placement_decisions="multicluster")
    schema = record(decisions=array(record(clusterProfileRef=record(name=text()))))
    version = Version(name="v1alpha1", storage=True, schema=schema)
    kind = kinds.SHARED_DECISIONS
    world.manager.server.install(
        (
            defined(
                Definition(group=kind.group, kind=kind.kind, plural=kind.plural, namespaced=True, versions=(version,))
            ),
        )
    )
    body = {"metadata": {"name": "gpu", "namespace": OURS}, "decisions": [{"clusterProfileRef": {"name": "w2"}}]}
    world.manager.put(kind, body)
    world.manager.calls.clear()
    async with anyio.create_task_group() as tasks:
        watching = PlacementWatch(world.world)
        tasks.start_soon(watching.run)
        await watching.contact()
        assert {each.split()[1] for each in world.manager.calls} == {kind.plural}
        name(world, kinds.ADMISSION_CHECKS, CHECK_KEY, "gpu")
        world.submit()
        await world.settle()
        assert world.status()["nominatedClusterNames"] == ["w2"]
        tasks.cancel_scope.cancel()


async def test_scores_are_watched_once_a_strategy_asks_for_them_and_no_sooner() -> None:
    world = table()
    body = {"metadata": {"name": "usage", "namespace": "w1"}, "status": {"scores": [{"name": "gpu", "value": 42}]}}
    world.manager.put(kinds.PLACEMENT_SCORES, body)
    world.manager.calls.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PlacementWatch(world.world).run)
        await anyio.wait_all_tasks_blocked()
        assert world.manager.calls == []

        world.store.hub_scores.shown(contract.Fleet(now=NOW))
        await anyio.wait_all_tasks_blocked()
        assert world.store.hub_scores.of("w1") == {"usage/gpu": 42}
        assert {each.split()[1] for each in world.manager.calls} == {"addonplacementscores"}
        tasks.cancel_scope.cancel()


async def test_the_worker_with_the_best_score_gets_the_first_copy() -> None:
    options = {"scorers": [{"hub": {"name": "usage/gpu"}}], "patience": None}
    world = table(strategy={"name": "composed", "options": options})
    for cluster, value in (("w1", -100), ("w2", 90), ("w3", 10)):
        body = {
            "metadata": {"name": "usage", "namespace": cluster},
            "status": {"scores": [{"name": "gpu", "value": value}]},
        }
        world.manager.put(kinds.PLACEMENT_SCORES, body)
    world.manager.watch(kinds.PLACEMENT_SCORES, world.store.hub_scores.cache)
    world.submit()
    await world.settle()
    assert world.status()["nominatedClusterNames"] == ["w2"]
