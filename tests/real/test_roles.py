"""Beside a real Kueue: in the place of its MultiKueue, as its dispatcher, and the ways between; one file, one Kueue.

Every test runs on a manager cluster of its own with a real Kueue; what Kueue does there is not ours to judge, what we
do beside it is. Its admission policies are there, too, which its chart leaves off: they refuse what they cannot judge.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakekube.front_end.audit import Event
from multikueue.telemetry.metrics import KUEUES_MULTIKUEUE
from testbed import objects
from testbed.bed import Testbed
from testbed.client import Kind, eventually
from testbed.jobs import start_job
from testbed.kubeconfig import dump
from testbed.objects import ADMISSION_CHECK, CLUSTER_QUEUE, JOB, MULTIKUEUE_CLUSTER, WORKLOAD, Object
from tests.real.dialect import spoken
from tests.real.harness import Manager, Team, complaints, starts, team
from tests.real.neighbours import CORE, EXTERNAL, OWN, Neighbourhood, neighbourhood, owners
from tests.real.skipping import needs_testbed
from tests.real.test_capacity import have
from tests.real.test_hostile import odd_workload

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    needs_testbed("a Kueue of its own on the manager cluster"),
]

PRIORITY_CLASS = Kind(objects.KUEUE_VERSION, "WorkloadPriorityClass")
KUEUE = "kueue-admission"
"""The field manager of Kueue's core."""

QUICK = {
    "DISPATCH__WORKER_LOST_TIMEOUT": "10s",  # a worker that stops for a while on a busy machine keeps its jobs
    "DISPATCH__HEARTBEAT_INTERVAL": "500ms",
    "DISPATCH__GC_INTERVAL": "1s",
    "CAPACITY_FOLLOW__INTERVAL": "300ms",
}
ONE_AT_A_TIME = {"cpu": "1", "memory": "10Gi"}
WHOLE = {"requests": {"cpu": "1", "memory": "100Mi"}}
"""A job that takes all of that."""


@pytest.fixture(scope="module")
def neighbour(bed: Testbed) -> Iterator[Neighbourhood]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(neighbourhood(bed, has_policies=True)) as found,
    ):
        yield found


@pytest.fixture
async def dispatching(neighbour: Neighbourhood) -> Manager:
    """Kueue without its MultiKueue, and ours in its place."""
    return _there(await neighbour.arrange(CORE, "dispatch", **QUICK))


@pytest.fixture
async def nominating(neighbour: Neighbourhood) -> Manager:
    """Kueue with its MultiKueue, and ours as its dispatcher."""
    return _there(await neighbour.arrange(EXTERNAL, "nominate", **QUICK))


def _there(manager: Manager | None) -> Manager:
    assert manager is not None
    return manager


@pytest.fixture
async def crew(neighbour: Neighbourhood, dispatching: Manager) -> AsyncIterator[Team]:
    async with _crew(neighbour, dispatching) as members:
        yield members


@pytest.fixture
async def narrow(neighbour: Neighbourhood, dispatching: Manager) -> AsyncIterator[Team]:
    """A team with quota for one job at a time."""
    async with _crew(neighbour, dispatching, quota=ONE_AT_A_TIME) as members:
        yield members


@pytest.fixture
async def guests(neighbour: Neighbourhood, nominating: Manager) -> AsyncIterator[Team]:
    """A team whose jobs Kueue's own MultiKueue dispatches."""
    async with _crew(neighbour, nominating) as members:
        yield members


@asynccontextmanager
async def _crew(neighbour: Neighbourhood, process: Manager | None, **options: Any) -> AsyncIterator[Team]:
    """A team whose workers are all connected; at its end the manager must not have logged an error."""
    offset = process.log.stat().st_size if process else 0
    async with team(neighbour, **options) as members:  # type: ignore[arg-type]  # it is all that a team needs of a bed
        await members.all_active(process)
        yield members
    assert process is None or not complaints(process, offset=offset)


def plain(members: Team, name: str = "job", **more: Any) -> Object:
    """A job as a user writes it, with nothing but a queue."""
    body = objects.job(name, members.namespace, suspend=False, **more)
    del body["spec"]["suspend"]
    return body


async def submit(members: Team, name: str = "job", **more: Any) -> None:
    await members.manager.create(plain(members, name, **more))


async def pods(members: Team, worker: str, count: int, name: str = "job") -> None:
    """The job's pods on its worker, now: there is nobody else to count them."""
    if count:
        await start_job(members.clients[worker], members.namespace, name)
    else:
        none = {"active": None, "ready": 0, "terminating": 0}
        await members.clients[worker].patch_status(JOB, name, none, members.namespace)


async def counted(members: Team, count: int, name: str = "job") -> None:
    """Waits until so many pods are counted at home."""

    async def at_home() -> bool:
        assert ((await members.job(name)).get("status") or {}).get("active", 0) == count
        return True

    await eventually(at_home, timeout=30)


async def held(members: Team, worker: str, name: str = "job") -> None:
    """Waits until the job is suspended on its worker."""

    async def suspended() -> bool:
        body = await members.clients[worker].find(JOB, name, members.namespace)
        assert body is not None
        return bool(body["spec"]["suspend"])

    await eventually(suspended, timeout=30)


async def unsuspended(members: Team, name: str = "job") -> None:
    """Waits until Kueue has let the job run at home.

    Kueue's own MultiKueue never brings home a result that comes before that: the workload ends and the job does not.
    """

    async def runs() -> bool:
        return not (await members.job(name))["spec"]["suspend"]

    await eventually(runs, timeout=40)


async def alone(members: Team, worker: str, name: str = "job") -> None:
    """Waits until nobody but the winner has anything of a job."""

    async def is_rid_of_the_others() -> bool:
        copies, jobs = await members.copies(name), await members.remote_jobs(name)
        assert (set(copies), set(jobs)) == ({worker}, {worker}), f"copies on {set(copies)}, jobs on {set(jobs)}"
        return True

    await eventually(is_rid_of_the_others, timeout=30)


async def admitted(members: Team) -> None:
    await eventually(lambda: members.is_true("Admitted"), timeout=30)


async def finish(members: Team, name: str = "job") -> None:
    worker = await members.runs_on(name, timeout=40)
    await unsuspended(members, name)
    await members.complete(worker, name)
    await members.finished(name, timeout=40)


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": PRIORITY_CLASS.api_version,
        "kind": PRIORITY_CLASS.kind,
        "metadata": {"name": name},
        "value": value,
    }


async def nominated(members: Team, *workers: str, name: str = "job", timeout: float = 30) -> None:
    """Waits until exactly these workers are nominated."""

    async def there() -> bool:
        found = (await members.workload(name)).get("status", {}).get("nominatedClusterNames") or []
        assert sorted(found) == sorted(members.cluster(worker) for worker in workers), f"nominated are {found}"
        return True

    await eventually(there, timeout=timeout)


# --- in the place of Kueue's MultiKueue --------------------------------------------------------------------------------


async def test_a_running_job_is_taken_over_from_kueues_own_multikueue(neighbour: Neighbourhood) -> None:
    await neighbour.arrange(OWN)
    async with _crew(neighbour, None) as crew, starts(crew) as started:
        await submit(crew)
        worker = await crew.runs_on(timeout=40)
        assert await crew.winner() == worker
        await pods(crew, worker, 1)
        uid = (await crew.remote_jobs())[worker]["metadata"]["uid"]
        ours = _there(await neighbour.arrange(CORE, "dispatch", **QUICK))
        await submit(crew, "next")
        await finish(crew, "next")
        assert {w: body["metadata"]["uid"] for w, body in (await crew.remote_jobs()).items()} == {worker: uid}
        await counted(crew, 1)
        await crew.complete(worker)
        await crew.finished()
        assert not started.twice()
        assert not complaints(ours)


async def test_a_job_with_a_queue_runs_on_one_worker_and_its_result_comes_home(crew: Team) -> None:
    await submit(crew)
    worker = await crew.runs_on()
    assert await crew.winner() == worker
    await pods(crew, worker, 1)
    await counted(crew, 1)
    await admitted(crew)
    await unsuspended(crew)
    await alone(crew, worker)
    await crew.complete(worker)
    done = await crew.finished()
    assert done["status"]["succeeded"] == 1


async def test_a_job_waits_for_the_quota_that_kueue_keeps(narrow: Team) -> None:
    await submit(narrow, "first", **WHOLE)
    await narrow.runs_on("first")
    await submit(narrow, "second", **WHOLE)
    waits = partial(narrow.condition, "QuotaReserved", "second")
    assert (await eventually(waits, timeout=30))["status"] == "False"
    assert await narrow.copies("second") == {}
    await finish(narrow, "first")
    await finish(narrow, "second")


async def test_quota_that_follows_the_workers_is_kueues_to_give(narrow: Team) -> None:
    follows = {"metadata": {"annotations": {"multikueue.dev/follow-capacity": "true"}}}
    await narrow.manager.patch(CLUSTER_QUEUE, narrow.namespace, follows)
    names = [f"job-{worker}" for worker in narrow.clients]
    for name in names:
        await submit(narrow, name, **WHOLE)
    assert {await narrow.runs_on(name, timeout=40) for name in names} == set(narrow.clients)


async def test_an_eviction_on_the_worker_goes_through_kueues_queue_and_runs_again(crew: Team) -> None:
    async with starts(crew) as started:
        await submit(crew)
        worker = await crew.runs_on()
        await pods(crew, worker, 1)
        await counted(crew, 1)
        await crew.stop(worker, policy="HoldAndDrain")
        await held(crew, worker)
        await pods(crew, worker, 0)
        first, second = await started.times(2, timeout=40)
        assert (first == worker, second == worker) == (True, False)
        (stats,) = (await crew.workload())["status"]["schedulingStats"]["evictions"]
        assert (stats["reason"], stats["count"]) == ("AdmissionCheck", 1)
        await finish(crew)


async def test_an_eviction_by_kueue_gives_quota_back_only_when_nothing_runs(narrow: Team) -> None:
    """Preemption: the loser's pods must be gone before the winner gets its quota."""
    await narrow.manager.patch(
        CLUSTER_QUEUE, narrow.namespace, {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
    )
    for name, value in (("low", 1), ("high", 10)):
        for client in (narrow.manager, *narrow.clients.values()):
            await client.create(priority_class(f"{narrow.namespace}-{name}", value))
    await submit(narrow, "low", priority_class=f"{narrow.namespace}-low", **WHOLE)
    worker = await narrow.runs_on("low")
    await pods(narrow, worker, 1, "low")
    await counted(narrow, 1, "low")
    await submit(narrow, "high", priority_class=f"{narrow.namespace}-high", **WHOLE)
    await held(narrow, worker, "low")
    assert await narrow.is_true("Evicted", "low")
    assert await narrow.is_true("QuotaReserved", "low"), "its pods still run"
    assert not await narrow.is_true("QuotaReserved", "high")
    await pods(narrow, worker, 0, "low")
    await finish(narrow, "high")
    await finish(narrow, "low")


async def test_a_deleted_job_leaves_nothing_anywhere(crew: Team) -> None:
    await submit(crew)
    worker = await crew.runs_on()
    await pods(crew, worker, 1)
    await crew.manager.delete(JOB, "job", crew.namespace)
    await crew.gone(timeout=40)


async def test_a_deactivated_workload_stops_and_runs_again_when_it_is_active(crew: Team) -> None:
    await submit(crew)
    await crew.runs_on()
    name = (await crew.workload())["metadata"]["name"]
    await crew.manager.patch(WORKLOAD, name, {"spec": {"active": False}}, crew.namespace)
    await crew.clean(timeout=40)

    async def is_suspended() -> bool:
        return bool((await crew.job())["spec"]["suspend"])

    await eventually(is_suspended, timeout=30)
    await crew.manager.patch(WORKLOAD, name, {"spec": {"active": True}}, crew.namespace)
    await finish(crew)


async def test_a_lost_worker_costs_an_attempt_and_comes_back_to_nothing(crew: Team) -> None:
    async with starts(crew) as started:
        await submit(crew)
        lost = await crew.runs_on()
        await pods(crew, lost, 1)
        await counted(crew, 1)
        crew.links[lost].blackhole()
        first, second = await started.times(2, timeout=60)
        assert (first == lost, second == lost) == (True, False)
        crew.links[lost].ok()

        async def is_rid_of_it() -> bool:
            assert await crew.clients[lost].find(JOB, "job", crew.namespace) is None
            return True

        await eventually(is_rid_of_it, timeout=40)
        await crew.complete(second)
        await crew.finished(timeout=40)
        assert len(started.runs["job"]) == 2


async def test_a_manager_killed_while_a_job_waits_goes_on_where_it_was(crew: Team, dispatching: Manager) -> None:
    async with starts(crew) as started:
        await crew.stop()
        await submit(crew)
        await crew.waiting()
        dispatching.kill()
        await crew.go()
        dispatching.start()
        await dispatching.ready()
        await finish(crew)
        assert not (await started.settled()).twice()


async def test_a_job_that_ends_while_the_manager_is_dead_is_finished_by_the_next(
    crew: Team, dispatching: Manager
) -> None:
    async with starts(crew) as started:
        await submit(crew)
        worker = await crew.runs_on()
        await pods(crew, worker, 1)
        dispatching.kill()
        await crew.complete(worker)
        dispatching.start()
        await dispatching.ready()
        await crew.finished(timeout=40)
        assert not (await started.settled()).twice()


async def test_a_job_without_the_mark_is_refused_and_runs_nowhere(crew: Team) -> None:
    """As those of kinds we do not know, and those made while our webhook was away."""
    await crew.manager.create(objects.job("job", crew.namespace, managed_by="example.com/other"))
    await eventually(partial(_is_refused, crew), timeout=30)
    assert (await crew.job())["spec"]["suspend"]
    assert await crew.copies() == {}


async def test_a_job_without_the_mark_is_refused_before_it_has_quota(narrow: Team) -> None:
    """While another one has it: so it neither preempts anybody nor waits for nothing."""
    await submit(narrow, "first", **WHOLE)
    await narrow.runs_on("first")
    await narrow.manager.create(
        objects.job("job", narrow.namespace, managed_by="example.com/other", requests=WHOLE["requests"])
    )
    await eventually(partial(_is_refused, narrow), timeout=30)
    conditions = (await narrow.workload())["status"].get("conditions", [])
    assert not [c for c in conditions if c["type"] == "QuotaReserved" and c["status"] == "True"]


async def _is_refused(crew: Team) -> bool:
    checks = (await crew.workload()).get("status", {}).get("admissionChecks", [])
    assert [check["state"] for check in checks] == ["Rejected"]
    return True


async def test_each_field_has_the_owner_the_docs_name(crew: Team) -> None:
    await crew.stop()
    await submit(crew)
    await crew.waiting()
    body = await crew.workload()
    assert owners(body, "nominatedClusterNames") == {KUEUE}
    await crew.go()
    await crew.winner()
    body = await crew.workload()
    assert owners(body, "clusterName") == {KUEUE}
    assert owners(body, "nominatedClusterNames") == set()
    assert "multikueue" not in {entry["manager"] for entry in body["metadata"]["managedFields"]}
    await crew.manager.patch(WORKLOAD, body["metadata"]["name"], {"spec": {"active": False}}, crew.namespace)

    async def is_cleared() -> bool:
        status = (await crew.workload())["status"]
        assert not {"clusterName", "nominatedClusterNames"} & set(status)
        return True

    await eventually(is_cleared, timeout=30)


async def test_the_two_come_to_rest_and_write_a_bounded_number_of_times(neighbour: Neighbourhood, crew: Team) -> None:
    audit = neighbour.manager.audit
    begin = await audit.settled()
    await submit(crew)
    worker = await crew.runs_on()
    await pods(crew, worker, 1)
    await counted(crew, 1)
    await quiet(neighbour)
    await crew.complete(worker)
    await crew.finished()
    await quiet(neighbour)
    made = [event for event in audit.events(begin) if event.call.is_write and event.namespace == crew.namespace]
    done = Counter((_who(event), event.resource) for event in made if event.code < 300)
    assert done["multikueue", "workloads/status"] <= 3, done
    assert done["multikueue", "jobs/status"] <= 3, done
    assert done["kueue", "workloads/status"] <= 8, done
    refused = Counter(event.resource for event in made if event.code == 409 and _who(event) == "multikueue")
    assert refused.total() <= 4, refused


def _who(event: Event) -> str:
    return event.user_agent.partition("/")[0]


async def quiet(neighbour: Neighbourhood) -> None:
    """Waits until nobody has written anything on the manager cluster for five seconds, sweeps included. What is still
    due is written sooner or later, but two that correct one another never rest."""
    audit = neighbour.manager.audit

    async def at_rest() -> bool:
        mark = await audit.settled()
        await anyio.sleep(5)
        await audit.settled()
        assert (written := _writes(audit.events(mark))) == [], written
        return True

    await eventually(at_rest, timeout=60)


def _writes(events: list[Event]) -> list[Event]:
    return [event for event in events if event.call.is_write and event.resource not in ("leases", "events")]


# --- as Kueue's external dispatcher ------------------------------------------------------------------------------------


async def test_a_running_job_is_given_back_to_kueues_own_multikueue(
    neighbour: Neighbourhood, dispatching: Manager
) -> None:
    """Kueue knows no winner but the copy that was admitted first, by the second, among the workers that it has reached
    so far: ours has to have taken back the others."""
    async with _crew(neighbour, dispatching) as crew, starts(crew) as started:
        await crew.stop()
        await submit(crew)
        await crew.waiting()  # or one might still be under way
        await crew.go()
        worker = await crew.runs_on()
        assert await crew.winner() == worker
        await pods(crew, worker, 1)
        await counted(crew, 1)
        await admitted(crew)
        await alone(crew, worker)
        await neighbour.arrange(EXTERNAL, "nominate", **QUICK)
        await submit(crew, "next")
        await finish(crew, "next")
        assert list(await crew.remote_jobs()) == [worker]
        await crew.complete(worker)
        await crew.finished(timeout=40)
        assert not started.twice()


@pytest.mark.skipif(not spoken("nominations end by policy"), reason="its Kueue has no admission policy")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"clusterName": "worker1"}, id="when the workload gets its cluster"),
        pytest.param(
            {"conditions": [{"type": "Evicted", "status": "True", "reason": "Test", "message": ""}]},
            id="when it is evicted",
        ),
    ],
)
async def test_kueues_admission_policy_ends_a_nomination(guests: Team, change: Object) -> None:
    """So the tests around this one run beside the policy. Its field manager does not matter; it is nobody here."""
    nominated_to = {"nominatedClusterNames": ["worker1"], "conditions": []}
    workload = odd_workload(guests.namespace, name="probe")
    del workload["spec"]["queueName"]
    await guests.manager.create(workload)

    async def ends_it() -> bool:
        """An API server needs a moment to learn of a policy."""
        await guests.manager.patch_status(WORKLOAD, "probe", {**nominated_to, "clusterName": None}, guests.namespace)
        at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        ended = {"conditions": [each | at for each in change["conditions"]]} if "conditions" in change else change
        body = await guests.manager.patch_status(WORKLOAD, "probe", ended, guests.namespace)
        assert not body["status"].get("nominatedClusterNames")
        return True

    await eventually(ends_it, timeout=30)


async def test_kueue_copies_to_whom_we_name_and_empties_the_list_at_the_win(guests: Team) -> None:
    await guests.stop()
    await submit(guests)
    await nominated(guests, "worker1", "worker2", "worker3")
    await guests.waiting()
    assert owners(await guests.workload(), "nominatedClusterNames") == {KUEUE}
    await guests.go()
    worker = await guests.winner(timeout=40)
    status = (await guests.workload())["status"]
    assert "nominatedClusterNames" not in status
    assert await guests.runs_on() == worker
    await finish(guests)


@pytest.mark.skipif(not spoken("counts what it dispatches"), reason="its Kueue counts no dispatches")
async def test_kueue_has_the_counters_whose_names_are_ours_too(neighbour: Neighbourhood, guests: Team) -> None:
    await submit(guests)
    await finish(guests)
    text = await neighbour.bed.kueues[neighbour.manager.name].metrics()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    labels = {"cluster_queue", "cluster", "replica_role"}
    for name in KUEUES_MULTIKUEUE:
        assert {frozenset(sample.labels) for sample in families[name].samples} == {frozenset(labels)}


async def test_a_cordoned_worker_gets_no_copy(guests: Team) -> None:
    cordon = {"metadata": {"annotations": {"multikueue.dev/cordon": "true"}}}
    await guests.manager.patch(MULTIKUEUE_CLUSTER, guests.cluster("worker1"), cordon)
    await guests.stop()
    await submit(guests)
    await nominated(guests, "worker2", "worker3")
    assert set(await guests.waiting(2)) == {"worker2", "worker3"}


async def test_a_worker_is_drained_by_command_through_kueues_own_queue(
    neighbour: Neighbourhood, guests: Team, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(dump(neighbour.manager.kubeconfig()))
    async with starts(guests) as started:
        await submit(guests)
        worker = await guests.runs_on(timeout=40)
        others = {name for name in guests.clients if name != worker}
        command = [sys.executable, "-m", "multikueue", "clusters", "drain", guests.cluster(worker), "--yes"]
        done = await anyio.run_process(command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, check=False)
        assert done.returncode == 0, done.stderr.decode()
        first, second = await started.times(2, timeout=60)
        assert (first == worker, second in others) == (True, True)
        assert (await guests.workload())["spec"].get("active", True)
        await guests.stop()
        await submit(guests, "next")
        await nominated(guests, *others, name="next")
        await guests.go()
        await finish(guests, "next")
        await finish(guests)


async def test_rounds_of_the_incremental_strategy_go_on_over_a_restart(guests: Team, nominating: Manager) -> None:
    options = '{"step": 1, "round_length": "10s"}'
    choice = {"multikueue.dev/strategy": "incremental", "multikueue.dev/strategy-options": options}
    await guests.manager.patch(ADMISSION_CHECK, guests.namespace, {"metadata": {"annotations": choice}})
    await guests.stop("worker1")
    await guests.stop("worker2")
    await submit(guests)
    await nominated(guests, "worker1")
    began = await round_of(guests)
    assert owners(await guests.workload(), "conditions") >= {"multikueue", KUEUE}
    assert set(await guests.waiting(1)) == {"worker1"}
    nominating.kill()
    nominating.start()
    await nominating.ready()
    await nominated(guests, "worker1", "worker2")
    assert await round_of(guests) - began >= timedelta(seconds=10), "the restart ended the round"
    assert await guests.runs_on(timeout=40) == "worker3"
    await guests.winner()
    assert "nominatedClusterNames" not in (await guests.workload())["status"]
    await finish(guests)


async def test_the_best_worker_is_named_to_kueue_and_stays_chosen_over_a_restart(
    guests: Team, nominating: Manager
) -> None:
    options = '{"filters": ["taints"], "scorers": [{"preferred": {"labels": {"best": 1}}}], "patience": null}'
    choice = {"multikueue.dev/strategy": "composed", "multikueue.dev/strategy-options": options}
    await guests.manager.patch(ADMISSION_CHECK, guests.namespace, {"metadata": {"annotations": choice}})
    taint = {"annotations": {"multikueue.dev/taints": "spot=true:NoSchedule"}}
    for worker, said in (("worker1", taint | {"labels": {"best": "yes"}}), ("worker3", {"labels": {"best": "yes"}})):
        await guests.manager.patch(MULTIKUEUE_CLUSTER, guests.cluster(worker), {"metadata": said})
    await guests.stop()
    await submit(guests)
    await nominated(guests, "worker3")
    assert set(await guests.waiting(1)) == {"worker3"}
    nominating.kill()
    for worker, value in (("worker2", "yes"), ("worker3", None)):
        await guests.manager.patch(
            MULTIKUEUE_CLUSTER, guests.cluster(worker), {"metadata": {"labels": {"best": value}}}
        )
    nominating.start()
    await nominating.ready()
    await submit(guests, "later")
    await nominated(guests, "worker2", name="later")
    await nominated(guests, "worker3")
    await guests.go()
    assert (await guests.runs_on(timeout=40), await guests.runs_on("later")) == ("worker3", "worker2")
    await finish(guests)


async def round_of(members: Team) -> datetime:
    """When the present round began."""
    condition = await members.condition("multikueue.dev/Nominated")
    assert condition is not None
    return datetime.fromisoformat(condition["lastTransitionTime"])


async def test_after_an_eviction_the_next_attempt_is_nominated_again(guests: Team) -> None:
    async with starts(guests) as started:
        await submit(guests)
        worker = await guests.runs_on(timeout=40)
        await guests.stop(worker, policy="HoldAndDrain")
        first, second = await started.times(2, timeout=60)
        assert (first == worker, second == worker) == (True, False)
        await finish(guests)


async def test_a_dispatcher_writes_nothing_but_nominations(neighbour: Neighbourhood, guests: Team) -> None:
    audit = neighbour.manager.audit
    begin = await audit.settled()
    await submit(guests)
    await finish(guests)
    await quiet(neighbour)
    ours = [e for e in audit.events(begin) if e.call.is_write and _who(e) == "multikueue" and e.resource != "events"]
    done = Counter((event.verb, event.resource) for event in ours if event.code < 300)
    assert done == {("patch", "workloads/status"): 1}


async def test_what_fits_no_worker_holds_nobody_up_and_is_held_back_by_kueue(
    neighbour: Neighbourhood, dispatching: Manager
) -> None:
    """It gives its quota back at once, and Kueue does not queue it again before its back-off is over."""
    async with _crew(neighbour, dispatching, quota={"cpu": "6", "memory": "10Gi"}) as crew:
        for worker in crew.clients:
            await have(crew, worker, "4")
        await submit(crew, "huge", requests={"cpu": "6"})

        async def held_back() -> bool:
            status = (await crew.workload("huge"))["status"]
            conditions = {each["type"]: each for each in status.get("conditions", [])}
            assert "Evicted" in conditions, status
            assert conditions["QuotaReserved"]["status"] == "False", status
            assert (status.get("requeueState") or {}).get("requeueAt"), status
            assert conditions["Evicted"]["reason"] == "AdmissionCheck"
            assert conditions["multikueue.dev/FitsNoWorker"]["message"].startswith("cpu 6 of 4 at most in flavor ")
            return await crew.copies("huge") == {}

        await eventually(held_back, timeout=40)
        await submit(crew, "small", requests={"cpu": "4"})
        await finish(crew, "small")
