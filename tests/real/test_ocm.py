"""Open Cluster Management decides, and jobs go where it says: one file, one placement controller.

A test plays OCM's registration controller: which clusters there are, and whether they are available. Each Placement is
in our namespace and called like its team's, and selects among the team's clusters.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from testbed import objects, ocm
from testbed.bed import Testbed
from testbed.client import Client, Kind, eventually
from testbed.crds import CRD, definitions
from testbed.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    KUEUE_NAMESPACE,
    LOCAL_QUEUE,
    WORKLOAD,
    Object,
)
from testbed.ocm import MANAGED_CLUSTER, PlacementController
from tests.real.chronicle import Chronicle
from tests.real.harness import Manager, Team, logged, played, starts
from tests.real.skipping import needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    needs_testbed("OCM's placement controller"),
]

ANNOTATION = "multikueue.dev/placement"
OPTIONS = {"tier_patience": "3s", "shrink_after": "3s"}
MINE = "test.example/team"


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    strategy = {"DISPATCH__STRATEGY__NAME": "external", "DISPATCH__STRATEGY__OPTIONS": json.dumps(OPTIONS)}
    return strategy | {"DISPATCH__WORKLOAD_PLACEMENTS": "true"}


class Hub:
    """OCM on the manager plane, there or not; it belongs to no event loop."""

    def __init__(self, bed: Testbed) -> None:
        self.bed = bed
        self.controller: PlacementController | None = None

    async def up(self) -> None:
        if self.controller is None:
            self.controller = await self.bed.start_placement(self.bed.manager)
            async with self.bed.manager.client() as client:
                await client.apply(objects.namespace(KUEUE_NAMESPACE))
                await ocm.bind_set(client, KUEUE_NAMESPACE)

    async def down(self) -> None:
        """Take everything of OCM away, what other modules left included."""
        if self.controller is not None:
            await self.controller.stop()
            self.controller = None
        async with self.bed.manager.client() as client:
            names = [crd["metadata"]["name"] for crd in definitions("ocm")]
            for name in names:
                await client.delete(CRD, name)

            async def gone() -> bool:
                left = {crd["metadata"]["name"] for crd in await client.list(CRD)} & set(names)
                assert not left, f"{left} are left"
                return True

            await eventually(gone, timeout=30)


@pytest.fixture(scope="module")
def hub(bed: Testbed) -> Iterator[Hub]:
    made = Hub(bed)
    yield made
    if made.controller is not None:
        anyio.run(made.controller.stop)


@dataclass(slots=True)
class ClusterHandle:
    """A team whose workers OCM knows, and a Placement called like the team that its AdmissionCheck names."""

    crew: Team
    hub: Hub
    labels: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        return self.crew.manager

    async def register(self) -> None:
        """Each worker is a ManagedCluster with the label `worker`, its name."""
        for worker in self.crew.clients:
            self.labels[worker] = {MINE: self.crew.namespace, "worker": worker}
            await ocm.register_cluster(self.client, self.crew.cluster(worker), labels=self.labels[worker])

    async def place(self, *workers: str, name: str = "", **spec: Any) -> str:
        """A Placement for these workers (for all without any), made or changed; answers its name."""
        name = name or self.crew.namespace
        body = ocm.placement(name, KUEUE_NAMESPACE)
        body["spec"] |= {"predicates": [self.predicate(*workers)]} | spec
        await self.client.apply(body)
        return name

    def predicate(self, *workers: str) -> Object:
        selector: Object = {"matchLabels": {MINE: self.crew.namespace}}
        if workers:
            selector["matchExpressions"] = [{"key": "worker", "operator": "In", "values": list(workers)}]
        return {"requiredClusterSelector": {"labelSelector": selector}}

    async def decided(self, *workers: str, name: str = "") -> None:
        """Waits until the controller has decided for exactly these."""
        wanted = sorted(self.crew.cluster(worker) for worker in workers)

        async def has() -> bool:
            found = await ocm.decided_clusters(self.client, name or self.crew.namespace, KUEUE_NAMESPACE)
            assert found == wanted, f"decided for {found}"
            return True

        await eventually(has, timeout=20)

    async def follow(self, placement: str | None, *, kind: Kind = ADMISSION_CHECK, name: str = "") -> None:
        """Name a Placement on the team's AdmissionCheck, or on another of its objects."""
        namespace = self.crew.namespace if kind in (LOCAL_QUEUE, JOB, WORKLOAD) else None
        body = {"metadata": {"annotations": {ANNOTATION: placement}}}
        await self.client.patch(kind, name or self.crew.namespace, body, namespace)

    async def submit(self, name: str = "job", *, placement: str = "", **more: Any) -> None:
        body = objects.job(name, self.crew.namespace, managed_by=objects.MULTIKUEUE_CONTROLLER, **more)
        if placement:
            body["metadata"]["annotations"] = {ANNOTATION: placement}
        await self.client.create(body)

    async def copies_on(self, *workers: str, name: str = "job", timeout: float = 20) -> None:
        """Waits until exactly these have a copy and are nominated."""

        async def there() -> bool:
            found, local = sorted(await self.crew.copies(name)), await self.crew.workload(name)
            assert found == sorted(workers), f"copies on {found}"
            nominated = local["status"].get("nominatedClusterNames") or []
            assert sorted(nominated) == sorted(map(self.crew.cluster, workers)), f"nominated are {nominated}"
            return True

        await eventually(there, timeout=timeout)

    async def told(self, words: str, name: str = "job") -> None:
        """Waits until the check of a waiting workload says that."""

        async def says() -> bool:
            check = await self.crew.check(name)
            assert words in check["message"], check["message"]
            assert check["state"] == "Pending"
            return True

        await eventually(says, timeout=20)

    async def runs_and_ends(self, worker: str, name: str = "job") -> None:
        assert await self.crew.runs_on(name) == worker
        await self.crew.complete(worker, name)
        await self.crew.finished(name)

    async def away(self, worker: str) -> None:
        """What OCM's registration and taint controllers write when a cluster stops giving signs of life."""
        cluster = self.crew.cluster(worker)
        await ocm.set_available(self.client, cluster, "Unknown")
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        taint = {"key": f"{ocm.GROUP}/unreachable", "effect": "NoSelect", "timeAdded": stamp}
        await self.client.patch(MANAGED_CLUSTER, cluster, {"spec": {"taints": [taint]}})

    async def back(self, worker: str) -> None:
        cluster = self.crew.cluster(worker)
        await ocm.set_available(self.client, cluster, "True")
        await self.client.patch(MANAGED_CLUSTER, cluster, {"spec": {"taints": None}})


@asynccontextmanager
async def known(crew: Team, hub: Hub) -> AsyncIterator[ClusterHandle]:
    made = ClusterHandle(crew, hub)
    await made.register()
    try:
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            for worker in crew.clients:
                await crew.manager.delete(MANAGED_CLUSTER, crew.cluster(worker))


@pytest.fixture
async def site(crew: Team, hub: Hub) -> AsyncIterator[ClusterHandle]:
    """OCM is there and knows the team's workers; the team's check names a Placement that is still to be made."""
    await hub.up()
    async with known(crew, hub) as made:
        await made.follow(crew.namespace)
        yield made


# --- OCM comes later ---------------------------------------------------------------------------------------------------


async def test_ocm_may_be_installed_later_and_disturbs_nobody_until_then(
    manager: Manager, crew: Team, hub: Hub, calm: None
) -> None:
    await hub.down()
    manager.kill()
    offset = manager.log.stat().st_size
    manager.start()
    await manager.ready()
    site = ClusterHandle(crew, hub)
    await site.follow("kueue-system/gpu")
    await site.submit()
    await site.told("No worker can be nominated: ")
    await site.told("cannot be read: the server has no kind Placement")
    await site.follow(None)
    await site.submit("other")
    await _nominate_by_hand(crew, "other", crew.cluster("worker1"))
    await site.runs_and_ends("worker1", "other")
    broken = [entry["kind"] for entry in logged(manager, offset=offset) if entry["event"] == "watch.broken"]
    assert sorted(broken) == ["placementdecisions", "placements"]
    await site.follow(crew.namespace)
    await hub.up()
    async with known(crew, hub):
        await site.place("worker2")
        await site.runs_and_ends("worker2")


# --- decisions ---------------------------------------------------------------------------------------------------------


async def test_a_job_goes_where_it_was_decided_to_go(site: ClusterHandle, history: Chronicle) -> None:
    await site.crew.stop()
    await site.place("worker2", "worker3")
    await site.submit()
    await site.copies_on("worker2", "worker3")
    await site.place("worker1", "worker3")
    await site.decided("worker1", "worker3")
    await site.copies_on("worker1", "worker3")
    await site.crew.go("worker1")
    await site.runs_and_ends("worker1")


async def test_a_job_waits_for_a_placement_that_does_not_exist_yet(site: ClusterHandle, history: Chronicle) -> None:
    await site.submit()
    await site.told(f"there is no Placement kueue-system/{site.crew.namespace}")
    assert await site.crew.copies() == {}
    await site.place("worker3")
    await site.runs_and_ends("worker3")


async def test_a_placement_that_selects_nobody_is_misconfigured_or_names_strangers_says_so(site: ClusterHandle) -> None:
    await site.place("nobody")
    await site.submit()
    await site.told(f"Placement kueue-system/{site.crew.namespace} is not satisfied: ")
    nonsense = {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Nonsense"}, "weight": 1}
    await site.place("worker1", prioritizerPolicy={"mode": "Exact", "configurations": [nonsense]})
    await site.told(f"Placement kueue-system/{site.crew.namespace} is misconfigured: ")
    assert await site.crew.copies() == {}
    stranger = f"{site.crew.namespace}-stranger"
    await ocm.register_cluster(site.client, stranger, labels={MINE: site.crew.namespace, "worker": "stranger"})
    await site.place("stranger")
    await site.told(f"not in the MultiKueueConfig: {stranger}")
    await site.place("stranger", "worker1")
    await site.runs_and_ends("worker1")
    await site.client.delete(MANAGED_CLUSTER, stranger)


async def test_the_controller_changes_its_mind_under_load_and_no_winner_loses_its_job(
    site: ClusterHandle, history: Chronicle
) -> None:
    names = [f"job{number:02}" for number in range(24)]
    await site.place("worker1", "worker2")
    async with starts(site.crew) as started:
        await site.crew.submit_all(names[:12])
        for name in names[:12]:
            await started.first(name)
        await site.place("worker2", "worker3")
        await site.crew.submit_all(names[12:18])
        await site.place("worker3", "worker1")
        await site.crew.submit_all(names[18:22])
        await site.crew.stop()
        await site.place("worker3")
        await site.decided("worker3")
        await site.crew.submit_all(names[22:])
        for name in names[22:]:
            await site.copies_on("worker3", name=name)
        await site.crew.go()
        for name in names:
            await site.crew.complete(await started.first(name), name)
        assert set((await site.crew.all_over()).values()) == {"Complete"}
        assert not (await started.settled()).twice()
        assert {worker for name in names[22:] for worker in started.runs[name].values()} == {"worker3"}
        assert {worker for name in names[:12] for worker in started.runs[name].values()} <= {"worker1", "worker2"}


async def test_a_cluster_that_becomes_unavailable_loses_what_waits_and_keeps_what_runs(
    site: ClusterHandle, history: Chronicle
) -> None:
    await site.place("worker1", "worker2")
    await site.crew.stop("worker2")
    await site.submit("runs")
    assert await site.crew.runs_on("runs") == "worker1"
    await site.crew.stop("worker1")
    await site.submit("waits")
    await site.copies_on("worker1", "worker2", name="waits")
    await site.away("worker1")
    await site.decided("worker2")
    await site.copies_on("worker2", name="waits")
    assert await site.crew.runs_on("runs") == "worker1"
    await site.back("worker1")
    await site.copies_on("worker1", "worker2", name="waits")
    await site.runs_and_ends("worker1", "runs")
    await site.crew.go("worker1")
    await site.runs_and_ends("worker1", "waits")


async def test_decision_groups_are_tiers(site: ClusterHandle, history: Chronicle) -> None:
    await site.crew.stop("worker1")
    canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"worker": "worker1"}}}}
    await site.place(decisionStrategy={"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": 1}})
    await site.decided("worker1", "worker2", "worker3")
    nominations: list[set[str]] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_follow_until_won, site.crew, nominations)
        await site.submit()
    first, second, third = (site.crew.cluster(worker) for worker in site.crew.clients)
    assert nominations[0] == {first}
    assert nominations[1] in ({first, second}, {first, third})
    winner = await site.crew.winner()
    assert site.crew.cluster(winner) in nominations[-1] - {first}, "the next one's turn may come before it admits"
    await site.runs_and_ends(winner)


async def _follow_until_won(crew: Team, found: list[set[str]]) -> None:
    """Each nomination of the job's workload, one after another."""
    with anyio.fail_after(60):
        async for _, body in crew.manager.watch(WORKLOAD, crew.namespace):
            status = body.get("status", {})
            names = set(status.get("nominatedClusterNames") or [])
            if names and [names] != found[-1:]:
                found.append(names)
            if status.get("clusterName"):
                break


# --- who names the Placement -------------------------------------------------------------------------------------------


async def test_a_queue_and_a_job_may_name_a_placement_of_their_own(site: ClusterHandle, history: Chronicle) -> None:
    space = site.crew.namespace
    await site.crew.stop()
    for worker in ("worker1", "worker2", "worker3"):
        await site.place(worker, name=f"{space}-{worker}")
    await site.follow(f"{space}-worker1")
    await site.submit("plain")
    await site.submit("special", placement=f"kueue-system/{space}-worker3")
    await site.copies_on("worker1", name="plain")
    await site.copies_on("worker3", name="special")
    await site.follow(f"{space}-worker2", kind=CLUSTER_QUEUE)
    await site.copies_on("worker2", name="plain")
    await site.follow(f"{space}-worker3", kind=LOCAL_QUEUE, name="main")
    await site.copies_on("worker3", name="plain")
    await site.follow(f"{space}-worker1", kind=JOB, name="special")
    await site.copies_on("worker1", name="special")
    local = (await site.crew.workload("special"))["metadata"]["name"]
    await site.follow(f"{space}-worker2", kind=WORKLOAD, name=local)
    await site.copies_on("worker2", name="special")
    await site.crew.go()
    await site.runs_and_ends("worker3", "plain")
    await site.runs_and_ends("worker2", "special")


async def test_a_name_that_is_none_makes_its_job_wait_and_nobody_else(site: ClusterHandle, history: Chronicle) -> None:
    await site.place("worker1")
    await site.submit("odd", placement="../etc/passwd")
    await site.submit("fine")
    await site.runs_and_ends("worker1", "fine")
    await site.told(f"annotation {ANNOTATION} of Job {site.crew.namespace}/odd: expected NAME or NAMESPACE/NAME", "odd")
    await site.follow(None, kind=JOB, name="odd")
    await site.runs_and_ends("worker1", "odd")


# --- restarts ----------------------------------------------------------------------------------------------------------


async def test_a_new_process_withdraws_nothing_before_its_time(
    manager: Manager, site: ClusterHandle, history: Chronicle
) -> None:
    await site.crew.stop()
    await site.place("worker1", "worker2")
    await site.submit()
    await site.copies_on("worker1", "worker2")
    manager.kill()
    await site.place("worker2")
    await site.decided("worker2")
    offset = manager.log.stat().st_size
    manager.start()
    await manager.ready()
    await site.copies_on("worker2")
    told, gone = logged(manager, offset=offset), site.crew.cluster("worker1")
    read = min(_when(entry) for entry in told if entry["event"] == "watch.stands" and "placement" in entry["kind"])
    removed = [_when(e) for e in told if (e.get("action"), e.get("cluster")) == ("DeleteWorkload", gone)]
    assert min(removed) - read > timedelta(seconds=0.5), "it has not waited"
    await site.crew.go()
    await site.runs_and_ends("worker2")


def _when(entry: Object) -> datetime:
    return datetime.fromisoformat(entry["timestamp"])


# --- somebody else nominates (contract 4.3) ----------------------------------------------------------------------------

Nominate = Callable[..., Any]


async def _nominate_by_hand(crew: Team, name: str, *clusters: str) -> None:
    """As a dispatcher writes that merges."""
    status = {"nominatedClusterNames": list(clusters)}

    async def written() -> bool:
        local = await crew.workload(name)
        assert objects.condition(local, "QuotaReserved") is not None
        await crew.manager.patch_status(WORKLOAD, local["metadata"]["name"], status, crew.namespace)
        return True

    await eventually(written, timeout=20)


async def _nominate_as_kueue(crew: Team, name: str, *clusters: str) -> None:
    """As a dispatcher writes that applies as Kueue does: nothing but the list, and with force."""

    async def written() -> bool:
        local = await crew.workload(name)
        assert objects.condition(local, "QuotaReserved") is not None
        meta = local["metadata"]
        path = f"/apis/{objects.KUEUE_VERSION}/namespaces/{crew.namespace}/workloads/{meta['name']}/status"
        body = {
            "apiVersion": objects.KUEUE_VERSION,
            "kind": "Workload",
            "metadata": {"name": meta["name"], "namespace": crew.namespace},
            "status": {"nominatedClusterNames": list(clusters)},
        }
        query = {"fieldManager": "kueue-admission", "force": "true"}
        await crew.manager.request("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")
        return True

    await eventually(written, timeout=20)


@pytest.mark.parametrize("nominate", [_nominate_by_hand, _nominate_as_kueue], ids=["merged", "applied"])
async def test_what_somebody_else_nominates_is_honoured_as_it_is(
    crew: Team, history: Chronicle, nominate: Nominate
) -> None:
    site = ClusterHandle(crew, Hub(crew.bed))
    first, second, third = (crew.cluster(worker) for worker in crew.clients)
    await crew.stop()
    await site.submit()
    await site.told("no Placement is named, and nobody else has nominated one")
    await nominate(crew, "job", second)
    await site.copies_on("worker2")
    await nominate(crew, "job", "nowhere", third, second)
    await _holds(crew, ["nowhere", third, second], "worker2", "worker3")
    await nominate(crew, "job", third)
    await _holds(crew, [third], "worker3")
    await nominate(crew, "job", third, first)
    await _holds(crew, [third, first], "worker1", "worker3")
    await crew.go("worker1")
    assert await crew.winner() == "worker1"
    assert not (await crew.workload())["status"].get("nominatedClusterNames")
    await site.runs_and_ends("worker1")


async def _holds(crew: Team, nominated: list[str], *workers: str) -> None:
    """Waits until these have a copy; the list is as somebody else wrote it."""

    async def there() -> bool:
        found = sorted(await crew.copies())
        assert found == sorted(workers), f"copies on {found}"
        return True

    await eventually(there, timeout=20)
    assert (await crew.workload())["status"]["nominatedClusterNames"] == nominated


async def test_a_nomination_by_somebody_else_ends_with_the_attempt(crew: Team, history: Chronicle) -> None:
    site = ClusterHandle(crew, Hub(crew.bed))
    await site.submit()
    await _nominate_by_hand(crew, "job", crew.cluster("worker2"))
    assert await crew.runs_on() == "worker2" == await crew.winner()
    await crew.stop("worker2", policy="HoldAndDrain")
    await site.told("no Placement is named, and nobody else has nominated one")
    await site.copies_on()
    await _nominate_by_hand(crew, "job", crew.cluster("worker3"))
    await site.runs_and_ends("worker3")


async def test_decisions_are_read_by_a_check_that_alone_asks_for_them(manager: Manager, site: ClusterHandle) -> None:
    """The strategy of the process does not read them: the watch begins when a check's does."""
    async with manager.reborn(DISPATCH__STRATEGY__NAME="all-at-once", DISPATCH__STRATEGY__OPTIONS="{}"):
        await manager.ready()
        await site.place("worker2")
        annotations = {"multikueue.dev/strategy": "external"}
        await site.client.patch(ADMISSION_CHECK, site.crew.namespace, {"metadata": {"annotations": annotations}})
        await site.crew.stop()  # the first decision may be from before the check asked
        await site.submit()
        await site.copies_on("worker2")
        await site.crew.go()
        await site.runs_and_ends("worker2")


async def test_a_backlog_is_played_to_its_end_while_decisions_come_and_go(
    site: ClusterHandle, history: Chronicle
) -> None:
    """Quota on the manager for all, on each worker for two at a time: most of them wait while decisions change."""
    plenty = objects.cluster_queue(site.crew.namespace, quota={"cpu": "1000", "memory": "1000Gi"})["spec"]
    await site.client.patch(CLUSTER_QUEUE, site.crew.namespace, {"spec": {"resourceGroups": plenty["resourceGroups"]}})
    names = [f"job{number:02}" for number in range(20)]
    async with played(site.crew, after=0.2) as started, anyio.create_task_group() as tasks:

        async def churn() -> None:
            while True:
                for workers in (("worker1", "worker2"), ("worker3",), ("nobody",), ("worker1", "worker2", "worker3")):
                    await site.place(*workers)
                    await anyio.sleep(0.3)

        tasks.start_soon(churn)
        for name in names:
            await site.submit(name, requests={"cpu": "40"})
        assert set((await site.crew.all_over(timeout=90)).values()) == {"Complete"}
        tasks.cancel_scope.cancel()
        assert not (await started.settled()).twice()
        assert len({worker for runs in started.runs.values() for worker in runs.values()}) > 1
