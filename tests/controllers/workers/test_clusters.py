"""MultiKueueCluster to connection: what is refused, what is shown, and how a worker declines; one file, one reconciler."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.kueue.compatibility import Release
from multikueue.api.meta import ObjectKey, render_time
from multikueue.controllers.workers.clusters import Clusters
from multikueue.controllers.workers.connection.connection import Connection
from multikueue.controllers.workers.connection.identities import OtherCluster
from multikueue.controllers.workers.connection.kubeconfigs import Access
from multikueue.controllers.workers.connection.worker_credentials import CONNECTION_FAILED, TrialProblem
from multikueue.dispatch.remote import Reach
from multikueue.errors import Unauthorized
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.expiry import Validity
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.renewal import request_token
from multikueue.kube.transport.loop_share import UNMETERED, Leftovers, LoopShare
from multikueue.settings import Dispatch, Quota, Settings
from multikueue.store.workers.watch_scope import EVERYWHERE, NAMESPACES_ANNOTATION
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

KUBECONFIG = b"""
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: c, user: {token: t}}]
"""
INSECURE = KUBECONFIG.replace(b"server:", b"insecure-skip-tls-verify: true, server:")
SECURE = {"insecure_kubeconfigs": False}
W1 = ObjectKey("", "w1")
DISPATCH = Dispatch()


def secret(world: Table, **data: bytes) -> None:
    encoded = {name: b64encode(value).decode() for name, value in data.items()}
    world.manager.put(kinds.SECRETS, {"metadata": {"name": "secret", "namespace": "kueue-system"}, "data": encoded})
    world.store.secrets.replace([world.manager.value(kinds.SECRETS, body) for body in world.manager.all(kinds.SECRETS)])


async def condition(world: Table, *, spec: dict[str, Any] | None = None) -> tuple[str, str, str]:
    if spec is not None:
        world.manager.change(kinds.MULTIKUEUE_CLUSTERS, W1, {"spec": spec})
    await Clusters(world.world, DISPATCH, "kueue-system").reconcile("w1")
    (active,) = (world.manager.find(kinds.MULTIKUEUE_CLUSTERS, W1) or {})["status"]["conditions"]
    return active["status"], active["reason"], active["message"]


async def test_no_secret() -> None:
    expected = 'load client config failed: Secret "secret" not found'
    assert await condition(table()) == ("False", "BadKubeConfig", expected)


async def test_a_secret_without_the_key() -> None:
    world = table()
    secret(world, other=b"x")
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "BadKubeConfig")
    assert message == 'load client config failed: key "kubeconfig" not found in secret "secret"'


async def test_an_insecure_kubeconfig() -> None:
    world = table()
    secret(world, kubeconfig=b"clusters: [{name: a, cluster: {server: 'https://x', insecure-skip-tls-verify: true}}]")
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "InsecureKubeConfig")
    assert message == "load client config failed: insecure TLS verification is not allowed for cluster a"


async def test_a_file_that_is_not_there() -> None:
    spec = {"clusterSource": {"kubeConfig": {"location": "/nowhere/kubeconfig", "locationType": "Path"}}}
    _, reason, message = await condition(table(), spec=spec)
    assert (reason, message) == (
        "BadKubeConfig",
        "load client config failed: open /nowhere/kubeconfig: no such file or directory",
    )


async def test_a_refused_cluster_is_out_of_reach_and_wakes_its_workloads() -> None:
    world = table()
    world.submit()
    await world.settle()
    await condition(world)
    assert world.store.worker("w1").link.reach is Reach.ISOLATED
    assert len(world.queues.workloads) == 1


async def test_the_same_refusal_is_written_once() -> None:
    world = table()
    await condition(world)
    world.manager.calls.clear()
    await condition(world)
    assert world.manager.calls == []


async def test_a_recorded_loss_goes_on_counting_in_a_new_process() -> None:
    world = table()
    await condition(world)
    recorded = world.store.worker("w1").link.since
    world.time += timedelta(minutes=5)
    world.start()
    world.store.worker("w1").suspected(world.time)
    await condition(world)
    since = world.store.worker("w1").link.since
    assert since is not None
    assert recorded is None or since <= recorded + timedelta(seconds=1)
    assert since < world.time - timedelta(minutes=4)


def connection(world: Table) -> Connection:
    worker = world.store.worker("w1")
    return Connection(world.world, DISPATCH, worker, Access(b"", Credentials(server="https://x")), anyio.Event())


# New credentials that are not in use.


OTHER = TrialProblem(
    "BadKubeConfig", "load client config failed: the new kubeconfig is not in use: it is odd", OtherCluster
)
REFUSED = TrialProblem("ClientConnectionFailed", "the new kubeconfig is not in use: 401", Unauthorized)


async def shown(
    world: Table,
    reach: Reach,
    problem: TrialProblem | None,
    *,
    why: str = "no answer",
    share: LoopShare = UNMETERED,
) -> tuple[str, str, str]:
    """The condition after a look at a worker with that problem."""
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    running = connection(world)
    running._share = share
    running.offered.problem, running.is_tried = problem, True
    if reach is not Reach.CONNECTED:
        running.worker.suspected(world.time, why)
        running.worker.isolated()
    clusters._connections["w1"] = running
    secret(world, kubeconfig=b"")
    await clusters.reconcile("w1")
    (active,) = (world.manager.find(kinds.MULTIKUEUE_CLUSTERS, W1) or {})["status"]["conditions"]
    return active["status"], active["reason"], active["message"]


async def test_as_long_as_the_old_ones_work_the_cluster_is_active_and_a_warning_tells() -> None:
    world = table()
    assert await shown(world, Reach.CONNECTED, REFUSED) == (
        "True",
        "Active",
        "Connected; the new kubeconfig is not in use: 401",
    )
    assert world.said() == [("ClientConnectionFailed", REFUSED.message)]
    assert await shown(world, Reach.CONNECTED, None) == ("True", "Active", "Connected")


async def test_a_worker_that_is_barred_is_told_by_its_condition_and_an_event() -> None:
    world = table()
    share = LoopShare(Leftovers(lambda: 0.0))
    share._barred_until = 1.0
    barred = "it sends more than its share"
    assert await shown(world, Reach.ISOLATED, None, why=barred, share=share) == ("False", CONNECTION_FAILED, barred)
    assert world.said() == [("LoopShareExceeded", barred)]


DAY = timedelta(days=1)
EXPIRY = {
    "long before its end nothing is told": (10 * DAY, True, "Connected"),
    "three days before, it is": (3 * DAY, True, "Connected; its credential ends at {end}: register the cluster again"),
    "once it has ended that is why": (
        -DAY,
        False,
        "its credential ended at {end}: register the cluster again; get /api: 401 Unauthorized",
    ),
}


@pytest.mark.parametrize(("left", "connected", "message"), EXPIRY.values(), ids=EXPIRY)
async def test_a_credential_that_ends_soon_is_told_in_time(left: timedelta, connected: bool, message: str) -> None:
    world = table()
    end = world.time + left
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    running = connection(world)
    running.expiry.validity, running.is_tried = Validity(end - 30 * DAY, end), True
    if connected:
        running.worker.connected()
    else:
        running.worker.suspected(world.time, "get /api: 401 Unauthorized")
        running.worker.isolated()
    clusters._connections["w1"] = running
    secret(world, kubeconfig=b"")
    result = await clusters.reconcile("w1")
    (active,) = (world.manager.find(kinds.MULTIKUEUE_CLUSTERS, W1) or {})["status"]["conditions"]
    assert active["message"] == message.format(end=render_time(end))
    told = [part for part in active["message"].split("; ") if "its credential" in part]
    assert world.said() == [("CredentialExpiring", part) for part in told]
    assert result.again_after == {10 * DAY: 7 * DAY, 3 * DAY: 3 * DAY}.get(left)


ACCOUNT = ObjectKey("kueue-system", "multikueue")
RENEWALS = {
    "long before its end": (30 * DAY, False, ""),
    "with a third of its time left": (10 * DAY, True, ""),
    "where the worker refuses": (10 * DAY, False, "403"),
}


@pytest.mark.parametrize(("left", "renewed", "refusal"), RENEWALS.values(), ids=RENEWALS)
async def test_a_token_is_renewed_in_time(left: timedelta, renewed: bool, refusal: str) -> None:
    world = table()
    worker = world.workers["w1"]
    worker.put(kinds.SERVICE_ACCOUNTS, {"metadata": ACCOUNT._asdict()})
    token, end = await request_token(worker, ACCOUNT, 30 * DAY)
    assert end is not None
    secret(world, kubeconfig=(kubeconfig := KUBECONFIG.replace(b"token: t", f"token: {token}".encode())))
    if refusal:
        worker.drop(kinds.SERVICE_ACCOUNTS, ACCOUNT)
    clusters, running = Clusters(world.world, DISPATCH, "kueue-system"), connection(world)
    running.access, running.is_tried = Access(kubeconfig, running.access.credentials), True
    running.expiry.look_at(Credentials(server="https://x", token=FixedToken(f"Bearer {token}")))
    running.worker.connected()
    clusters._connections["w1"], world.world.clients["w1"] = running, worker
    world.time = end - left

    async with anyio.create_task_group() as clusters._tasks:
        await clusters.reconcile("w1")
        await clusters.reconcile("w1")

    patches = [call for call in world.manager.written if call == "patch secrets"]
    assert patches == (["patch secrets"] if renewed else [])
    assert bool(running.expiry.not_renewed) is bool(refusal)
    asked = [call for call in worker.calls if call.endswith("serviceaccounts/token")]
    assert len(asked) == 1 + (renewed or bool(refusal)), "one more at most, however often it is looked at"


@pytest.mark.parametrize("problem", [OTHER, REFUSED], ids=lambda problem: problem.reason)
async def test_when_the_old_ones_end_too_the_reason_is_that_of_the_new_ones(problem: TrialProblem) -> None:
    world = table()
    await shown(world, Reach.CONNECTED, problem)
    expected = ("False", problem.reason, f"{problem.message}; the one in use: no answer")
    assert await shown(world, Reach.ISOLATED, problem) == expected
    world.manager.calls.clear()
    assert await shown(world, Reach.ISOLATED, problem, why="no answer in other words") == expected
    assert world.manager.calls == []


async def test_a_loss_is_told_again_when_new_credentials_that_do_not_work_come() -> None:
    world = table()
    assert (await shown(world, Reach.ISOLATED, None))[2] == "no answer"
    assert (await shown(world, Reach.ISOLATED, REFUSED))[2].startswith(REFUSED.message)
    assert (await shown(world, Reach.ISOLATED, None))[2] == "no answer"


async def test_a_connection_that_was_not_tried_yet_says_nothing() -> None:
    world = table()
    await condition(world)
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    clusters._connections["w1"] = connection(world)
    secret(world, kubeconfig=b"")
    world.manager.calls.clear()
    await clusters.reconcile("w1")
    assert world.manager.calls == []


async def test_a_source_that_is_refused_ends_the_connection_and_keeps_what_is_known() -> None:
    world = table()
    world.submit()
    await world.settle()
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    running = connection(world)
    clusters._connections["w1"] = running
    held = len(running.worker.workloads)
    await clusters.reconcile("w1")
    assert held
    assert len(running.worker.workloads) == held
    assert running.worker.link.reach is Reach.ISOLATED
    assert clusters._before["w1"] is running.access


async def test_a_connection_that_could_not_follow_the_one_before_makes_way_for_the_next() -> None:
    world = table()
    world.submit()
    await world.settle()
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    stuck, first = connection(world), Access(b"first", Credentials(server="https://first"))
    stuck.before = first
    clusters._connections["w1"] = stuck
    secret(world, kubeconfig=KUBECONFIG)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clusters.run)
        await anyio.wait_all_tasks_blocked()
        await clusters.reconcile("w1")
        following = clusters._connections["w1"]
        assert following is not stuck
        assert stuck._scope.cancel_called
        assert (following.before, following.access.credentials.server) == (first, "https://127.0.0.1:1")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("settings", "release", "told"),
    [({}, "0.19", 1), ({}, "0.18", 0), ({"kubeconfig_directory": Path("/etc/multikueue/kubeconfigs")}, "0.19", 0)],
)
async def test_a_kubeconfig_by_any_path_is_warned_of_once(
    settings: dict[str, Any], release: Release, told: int
) -> None:
    world = table(rules=Quota(compatibility=release), **settings)
    source = {"kubeConfig": {"location": "/none", "locationType": "Path"}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, W1, {"spec": {"clusterSource": source}})
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    for _ in range(2):
        await clusters.reconcile("w1")
    assert [reason for reason, _ in world.said()].count("DeprecatedPathUsage") == told


async def test_insecure_kubeconfigs_end_with_the_setting_that_allowed_them() -> None:
    world = table(insecure_kubeconfigs=True)
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    secret(world, kubeconfig=INSECURE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clusters.run)
        await anyio.wait_all_tasks_blocked()
        await clusters.reconcile("w1")
        assert "w1" in clusters._connections
        world.world.settings.take(Settings(dispatch=world.settings.dispatch.model_copy(update=SECURE)))
        await clusters.reconcile("w1")
        assert "w1" not in clusters._connections
        tasks.cancel_scope.cancel()
    (active,) = (world.manager.find(kinds.MULTIKUEUE_CLUSTERS, W1) or {})["status"]["conditions"]
    assert active["reason"] == "InsecureKubeConfig"


async def test_a_connection_that_serves_is_offered_what_is_new() -> None:
    world = table()
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    running = connection(world)
    clusters._connections["w1"] = running
    secret(world, kubeconfig=KUBECONFIG)
    await clusters.reconcile("w1")
    assert clusters._connections["w1"] is running
    assert running.newest == KUBECONFIG


async def test_a_connection_starts_over_when_other_namespaces_are_offered() -> None:
    world = table()
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    secret(world, kubeconfig=KUBECONFIG)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clusters.run)
        await anyio.wait_all_tasks_blocked()
        await clusters.reconcile("w1")
        first = clusters._connections["w1"]
        assert first.namespaces == EVERYWHERE
        change = {"metadata": {"annotations": {NAMESPACES_ANNOTATION: "a,b"}}}
        world.manager.change(kinds.MULTIKUEUE_CLUSTERS, W1, change)
        await clusters.reconcile("w1")
        assert clusters._connections["w1"].namespaces == ("a", "b")
        assert first._scope.cancel_called
        second = clusters._connections["w1"]
        await clusters.reconcile("w1")
        assert clusters._connections["w1"] is second
        tasks.cancel_scope.cancel()


async def test_it_is_told_of_which_namespaces_nothing_is_seen() -> None:
    world = table()
    names = tuple(f"n{number}" for number in range(7))
    world.store.worker("w1").watch_scope.offer(names, world.now())
    for name in names[1:]:
        world.store.worker("w1").record_watch(kinds.JOBS, "you may not", world.time, namespace=name)
    message = "Connected; nothing is seen in n1, n2, n3, n4, n5 and 1 more: you may not"
    assert await shown(world, Reach.CONNECTED, None) == ("True", "Active", message)


async def test_a_changed_file_has_the_clusters_that_name_it_looked_at_again() -> None:
    world = table()
    for name in ("w1", "w2"):
        source = {"kubeConfig": {"location": "/k", "locationType": "Path"}}
        world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), {"spec": {"clusterSource": source}})
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    assert world.store.files() == ("/k",)
    world.queues.clusters = type(world.queues.clusters)()
    clusters._file_changed("/k")
    assert len(world.queues.clusters) == 2


# A worker that is taken away.


async def taken_away(world: Table) -> Clusters:
    """w1 has no object any more, and no configuration names it."""
    clusters = Clusters(world.world, DISPATCH, "kueue-system")
    clusters._connections["w1"] = connection(world)
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", "mk"), {"spec": {"clusters": ["w2", "w3"]}})
    world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, W1)
    await clusters.reconcile("w1")
    assert world.store.worker("w1").link.reach is Reach.ISOLATED, "as long as its tasks end"
    return clusters


async def test_a_worker_that_is_taken_away_is_forgotten_with_its_series() -> None:
    world = table()
    clusters = await taken_away(world)
    assert 'cluster="w1"' in world.world.metrics.render().decode()
    await clusters.reconcile("w1")
    assert "w1" not in world.store.workers
    assert 'cluster="w1"' not in world.world.metrics.render().decode()
    await clusters.reconcile("w1")
    assert "w1" not in world.store.workers


async def test_what_runs_on_a_worker_that_is_taken_away_counts_until_it_is_lost() -> None:
    world = table()
    await world.begin()
    clusters = await taken_away(world)
    await clusters.reconcile("w1")
    assert world.store.worker("w1").held()
    assert "w1" in clusters._before
    world.time += world.world.lost_after
    await clusters.reconcile("w1")
    assert world.store.worker("w1").held(), "we may have been stopped all the time"
    clusters._looked(world.time)
    await clusters.reconcile("w1")
    assert not world.store.worker("w1").held()
    assert world.status()["clusterName"] == "w1", "it is still to be evicted for that"
    await world.settle()
    assert world.status().get("clusterName") is None
    await clusters.reconcile("w1")
    assert "w1" not in world.store.workers
    assert clusters._before == {}


async def test_a_worker_that_a_configuration_names_is_not_forgotten() -> None:
    world = table()
    clusters = await taken_away(world)
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", "mk"), {"spec": {"clusters": ["w1"]}})
    await clusters.reconcile("w1")
    assert "w1" in world.store.workers


@pytest.mark.parametrize("stopped", [False, True], ids=["awake", "stopped now and then"])
async def test_workers_that_nobody_can_ask_are_looked_for(*, stopped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.controllers.workers.clusters.LOOK", timedelta(milliseconds=1))
    world = table()
    clusters = await taken_away(world)
    before = world.store.worker("w1").link.last_failed_probe
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clusters._look_around, tasks)
        for _ in range(100):
            await anyio.sleep(0.001)
            if stopped:
                world.time += timedelta(minutes=1)
            if world.store.worker("w1").link.last_failed_probe != before:
                break
        tasks.cancel_scope.cancel()
    assert (world.store.worker("w1").link.last_failed_probe == before) is stopped


async def test_nothing_is_remembered_under_the_name_of_a_cluster_that_is_gone() -> None:
    world = table()
    clusters = await taken_away(world)
    world.world.identified["w1"] = "its-uid"
    clusters._told_of_path["w1"] = ("uid", 1)
    clusters._insecure.add("w1")
    await clusters.reconcile("w1")
    assert "w1" not in world.store.workers
    assert "w1" not in world.world.identified
    assert "w1" not in clusters._told_of_path
    assert "w1" not in clusters._insecure
