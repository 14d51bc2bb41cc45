"""Winners and losers, evictions on workers, workers that come and go: one file, one set of clusters.

No connection fails here; see test_faults for that.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from testbed import objects
from testbed.client import Client, Kind, eventually
from testbed.jobs import complete_job, start_job
from testbed.kubeconfig import dump
from testbed.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    MULTIKUEUE_CLUSTER,
    MULTIKUEUE_CONFIG,
    WORKLOAD,
    Object,
)
from tests.real.chronicle import AGENT, Chronicle
from tests.real.harness import Manager, Team, complaints, starts, writers
from tests.real.skipping import needs_kueue, needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("history"),
]

PRIORITY_CLASS = Kind(objects.KUEUE_VERSION, "WorkloadPriorityClass")


async def local_name(crew: Team, name: str = "job") -> str:
    return str((await crew.workload(name))["metadata"]["name"])


async def configure(crew: Team, *workers: str) -> None:
    """Have the team's MultiKueueConfig name these workers. The manager hears of that some time, and of what is submitted
    after it perhaps before: see `waits_on`."""
    clusters = [crew.cluster(worker) for worker in workers]
    await crew.manager.patch(MULTIKUEUE_CONFIG, crew.namespace, {"spec": {"clusters": clusters}})


async def waits_on(crew: Team, *workers: str, name: str = "job") -> None:
    """Waits until a workload is nominated to these workers and waits there, and nowhere else."""

    async def does() -> bool:
        nominated = (await crew.workload(name))["status"].get("nominatedClusterNames") or []
        assert sorted(nominated) == sorted(crew.cluster(worker) for worker in workers), f"nominated are {nominated}"
        copies = await crew.copies(name)
        assert sorted(copies) == sorted(workers), f"copies on {sorted(copies)}"
        return True

    await eventually(does)


# --- winners and losers ------------------------------------------------------------------------------------------------


async def test_of_workers_that_admit_at_once_one_wins(crew: Team, manager: Manager, history: Chronicle) -> None:
    """The manager hears of all of them at once: it is stopped while they admit."""
    names = [f"job{number}" for number in range(10)]
    await crew.stop()
    async with starts(crew) as started:
        await crew.submit_all(names)
        for name in names:
            await crew.waiting(name=name)
        manager.freeze()
        try:
            await crew.go()
            await eventually(lambda: _are_all_admitted(crew))
        finally:
            manager.thaw()
        for name in names:
            await crew.complete(await started.first(name), name)
        for name in names:
            await crew.finished(name)
        assert not (await started.settled()).twice()


async def _are_all_admitted(crew: Team) -> bool:
    """Whether each worker has admitted each copy."""
    copies = [copy for client in crew.clients.values() for copy in await client.list(WORKLOAD, crew.namespace)]
    return all(_is_admitted(copy) for copy in copies)


def _is_admitted(body: Object | None) -> bool:
    condition = objects.condition(body, "Admitted") if body else None
    return condition is not None and condition["status"] == "True"


async def test_losers_go_when_a_worker_admits_and_not_when_it_reserves_quota(crew: Team) -> None:
    slow, *others = crew.clients
    await crew.stop(*others)
    check = await _worker_check(crew, slow)
    await crew.submit()

    async def reserved_on_the_slow_one() -> bool:
        copy = (await crew.waiting())[slow]
        condition = objects.condition(copy, "QuotaReserved")
        return condition is not None and condition["status"] == "True"

    await eventually(reserved_on_the_slow_one)
    copies = {worker: copy["metadata"]["uid"] for worker, copy in (await crew.copies()).items()}
    await crew.submit("probe")  # whatever the manager wanted to do about the first is done before it serves the next
    await crew.waiting(name="probe")
    assert {worker: copy["metadata"]["uid"] for worker, copy in (await crew.copies()).items()} == copies
    assert await crew.remote_jobs() == {}
    await _say_ready(crew, slow, check)
    assert await crew.runs_on() == slow
    await crew.waiting(1)
    await crew.complete(slow)
    await crew.finished()


async def _worker_check(crew: Team, worker: str) -> str:
    """An admission check on a worker's queue that somebody must answer by hand."""
    client, name = crew.clients[worker], f"{crew.namespace}-check"
    body = objects.admission_check(name, config="any", controller="example.com/approval")
    del body["spec"]["parameters"]
    await client.create(body)
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Test", "message": ""}
    await client.patch_status(ADMISSION_CHECK, name, {"conditions": [{"type": "Active", "status": "True", **stamp}]})
    strategy = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}}
    await client.patch(CLUSTER_QUEUE, crew.namespace, strategy)
    await eventually(lambda: _queue_is_active(client, crew.namespace))
    return name


async def _queue_is_active(client: Client, name: str) -> bool:
    body = await client.get(CLUSTER_QUEUE, name)
    active = objects.condition(body, "Active")
    return bool(
        active and active["status"] == "True" and active["observedGeneration"] == body["metadata"]["generation"]
    )


async def _say_ready(crew: Team, worker: str, check: str) -> None:
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}
    status = {"admissionChecks": [{"name": check, "state": "Ready", **stamp}]}
    await crew.clients[worker].patch_status(WORKLOAD, await local_name(crew), status, crew.namespace)


# --- what a worker does to the winner ----------------------------------------------------------------------------------


async def deactivate(crew: Team, worker: str) -> None:
    await crew.clients[worker].patch(WORKLOAD, await local_name(crew), {"spec": {"active": False}}, crew.namespace)


async def drain(crew: Team, worker: str) -> None:
    await crew.stop(worker, policy="HoldAndDrain")


async def preempt(crew: Team, worker: str) -> None:
    """A local job of more importance takes all the quota of the worker."""
    client, name = crew.clients[worker], f"{crew.namespace}-high"
    await client.patch(CLUSTER_QUEUE, crew.namespace, {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}})
    body = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind, "metadata": {"name": name}}
    await client.create(body | {"value": 1000})
    await client.create(objects.job("local", crew.namespace, requests={"cpu": "100"}, priority_class=name))


async def delete_job(crew: Team, worker: str) -> None:
    await crew.clients[worker].delete(JOB, "job", crew.namespace)


async def delete_copy(crew: Team, worker: str) -> None:
    await crew.clients[worker].delete(WORKLOAD, await local_name(crew), crew.namespace)


async def change_job(crew: Team, worker: str) -> None:
    """The worker's Kueue then ends the workload as out of sync."""
    await crew.clients[worker].patch(JOB, "job", {"spec": {"parallelism": 5}}, crew.namespace)


Disturbance = Callable[[Team, str], Awaitable[None]]


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        pytest.param(deactivate, "evicted on worker cluster", id="deactivated"),
        pytest.param(drain, "evicted on worker cluster", id="drained"),
        pytest.param(preempt, "evicted on worker cluster", id="preempted", marks=needs_kueue("preemption")),
        pytest.param(
            delete_job,
            # Who is first: the worker's Kueue, which ends an orphan, or the manager, which misses the job.
            "ended as OwnerNotFound|no longer exists on worker cluster",
            id="job deleted",
        ),
        pytest.param(delete_copy, "worker cluster", id="copy deleted"),
        pytest.param(change_job, "is out of sync with its user job", id="out of sync"),
    ],
)
async def test_a_job_that_its_worker_gives_up_is_dispatched_again(crew: Team, disturb: Disturbance, words: str) -> None:
    async with starts(crew) as started:
        await crew.submit(requests={"cpu": "1"}, completions=5)
        worker = await started.first()
        await eventually(lambda: crew.is_true("Admitted"))
        uid = (await crew.job())["metadata"]["uid"]
        await disturb(crew, worker)
        again = (await started.times(2))[-1]
        if disturb in (drain, preempt):
            assert again != worker
        await eventually(lambda: crew.is_true("Admitted"))
        workload, check = await crew.workload(), await crew.check()
        assert check["retryCount"] == 1
        assert workload["status"]["requeueState"]["count"] == 1
        assert objects.condition(workload, "Evicted")["reason"] == "QuotaReserved"  # type: ignore[index]
        await eventually(lambda: _is_told(crew, words, crew.cluster(worker)))
        await crew.complete(again)
        await crew.finished()
        assert (await crew.job())["metadata"]["uid"] == uid
        assert list(started.runs["job"].values()) == [worker, again]


async def _is_told(crew: Team, *words: str, types: tuple[str, ...] = ("Normal", "Warning")) -> bool:
    """Whether an event about the job's workload has all these words; `a|b`: either."""
    told = await crew.told(WORKLOAD, await local_name(crew))
    messages = [event["message"] for event in told if event["type"] in types]
    assert any(all(re.search(word, message) for word in words) for message in messages), messages
    return True


@needs_testbed("the test plays its pods, and no Job controller may")
async def test_an_evicted_job_shows_no_pods_until_it_runs_again(crew: Team) -> None:
    async with starts(crew) as started:
        await crew.submit()
        worker = await started.first()
        await start_job(crew.clients[worker], crew.namespace, "job")
        await eventually(lambda: _active_at_home(crew, 1))
        await deactivate(crew, worker)

        async def is_being_stopped() -> bool:
            return bool((await crew.remote_jobs())[worker]["spec"]["suspend"])

        await eventually(is_being_stopped)
        status = {"active": None, "ready": 0, "terminating": 0, "startTime": None}
        await crew.clients[worker].patch_status(JOB, "job", status, crew.namespace)
        again = (await started.times(2))[-1]
        await eventually(lambda: _active_at_home(crew, 0))
        await start_job(crew.clients[again], crew.namespace, "job")
        await eventually(lambda: _active_at_home(crew, 1))
        await crew.complete(again)
        await crew.finished()


async def _active_at_home(crew: Team, count: int) -> bool:
    return ((await crew.job())["status"].get("active") or 0) == count


async def test_a_waiting_copy_that_somebody_deletes_is_made_again(crew: Team) -> None:
    await crew.stop()
    await crew.submit()
    worker = next(iter(crew.clients))
    old = (await crew.waiting())[worker]["metadata"]["uid"]
    await delete_copy(crew, worker)

    async def made_again() -> bool:
        return bool((await crew.waiting())[worker]["metadata"]["uid"] != old)

    await eventually(made_again)
    await crew.go(worker)
    assert await crew.runs_on() == worker
    await crew.complete(worker)
    await crew.finished()


async def test_a_waiting_copy_that_somebody_changes_is_made_again(crew: Team) -> None:
    await crew.stop()
    await crew.submit()
    worker = next(iter(crew.clients))
    old = (await crew.waiting())[worker]["metadata"]["uid"]
    change = {"spec": {"queueName": "elsewhere"}}
    await crew.clients[worker].patch(WORKLOAD, await local_name(crew), change, crew.namespace)

    async def made_again() -> bool:
        meta = (await crew.waiting())[worker]
        return bool(meta["metadata"]["uid"] != old and meta["spec"]["queueName"] == "main")

    await eventually(made_again)
    await crew.go(worker)
    await crew.complete(await crew.runs_on())
    await crew.finished()


# --- what is not ours --------------------------------------------------------------------------------------------------


async def test_a_worker_serves_its_own_jobs_beside_ours(crew: Team) -> None:
    for client in crew.clients.values():
        await client.create(objects.job("local", crew.namespace))
    await crew.submit()
    worker = await crew.runs_on()
    for client in crew.clients.values():
        body = await eventually(partial(_running, client, crew.namespace, "local"))
        assert "kueue.x-k8s.io/multikueue-origin" not in body["metadata"]["labels"]
    await crew.complete(worker)
    await crew.finished()
    for client in crew.clients.values():
        assert await _running(client, crew.namespace, "local")
        await complete_job(client, crew.namespace, "local")
        (left,) = await client.list(WORKLOAD, crew.namespace)
        assert left["metadata"]["ownerReferences"][0]["name"] == "local"


async def _running(client: Client, namespace: str, name: str) -> Object | None:
    body = await client.find(JOB, name, namespace)
    return body if body is not None and not body["spec"]["suspend"] else None


async def test_a_job_goes_where_no_foreign_job_has_its_name(crew: Team) -> None:
    taken, *others = crew.clients
    client = crew.clients[taken]
    foreign = await client.create(objects.job("job", crew.namespace, queue=None, suspend=False))
    await crew.stop(*others)
    async with starts(crew) as started:
        await crew.submit()
        words = f'"{crew.cluster(taken)}" cannot take the workload'
        await eventually(lambda: _is_told(crew, words, types=("Warning",)))
        await crew.waiting(2)
        await crew.go()
        first, worker = await started.times(2)
        assert first == taken, "the foreign one runs from the start"
        assert worker in others
        await crew.complete(worker)
        await crew.finished()
        assert next(iter(started.runs["job"])) == foreign["metadata"]["uid"]
    after = await client.get(JOB, "job", crew.namespace)
    assert after["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert AGENT not in writers(after)


# --- workers that come and go ------------------------------------------------------------------------------------------


async def test_a_worker_that_is_added_gets_a_copy_of_what_waits(crew: Team) -> None:
    first, second, third = crew.clients
    await configure(crew, first, second)
    await crew.stop()
    await crew.submit()
    await waits_on(crew, first, second)
    await configure(crew, first, second, third)
    await waits_on(crew, first, second, third)
    await crew.go(third)
    assert await crew.runs_on() == third
    await crew.complete(third)
    await crew.finished()


async def test_a_worker_that_is_taken_out_loses_what_waits_there(crew: Team) -> None:
    first, second, third = crew.clients
    await crew.stop()
    await crew.submit()
    await crew.waiting()
    await configure(crew, first, second)
    await waits_on(crew, first, second)
    await crew.go(third)
    await crew.go(second)
    assert await crew.runs_on() == second
    await crew.complete(second)
    await crew.finished()


async def test_a_worker_that_is_taken_out_ends_what_runs_there(crew: Team) -> None:
    async with starts(crew) as started:
        await crew.submit()
        worker = await started.first()
        await eventually(lambda: crew.is_true("Admitted"))
        others = [other for other in crew.clients if other != worker]
        await crew.stop()
        await configure(crew, *others)
        await crew.submit("next")
        await waits_on(crew, *others, name="next")
        await crew.go()
        assert await crew.runs_on("next") in others
        await crew.complete(worker)
        await crew.finished()
        assert not (await started.settled()).twice()


async def test_a_cordoned_worker_gets_nothing_new_and_keeps_what_runs(crew: Team) -> None:
    first, second, third = crew.clients
    await crew.stop(second, third)
    await crew.submit("running")
    assert await crew.runs_on("running") == first
    await crew.stop()
    await crew.submit("waiting")
    await crew.waiting(name="waiting")
    await cordon(crew, first, "true")
    await crew.waiting(2, "waiting")
    await crew.go(first)
    await crew.submit("next")
    assert sorted(await crew.waiting(2, "next")) == [second, third]
    await crew.complete(first, "running")
    await crew.finished("running")
    await cordon(crew, first, None)
    for name in ("waiting", "next"):
        assert await crew.runs_on(name) == first
        await crew.complete(first, name)
        await crew.finished(name)


async def cordon(crew: Team, worker: str, value: str | None) -> None:
    change = {"metadata": {"annotations": {"multikueue.dev/cordon": value}}}
    await crew.manager.patch(MULTIKUEUE_CLUSTER, crew.cluster(worker), change)


async def test_a_worker_without_the_namespace_is_passed_over(crew: Team) -> None:
    bare, *others = crew.clients
    namespace = f"{crew.namespace}-more"
    clients = [crew.manager, *(crew.clients[worker] for worker in others)]
    for client in clients:
        await client.create(objects.namespace(namespace))
        await client.create(objects.local_queue("main", namespace, cluster_queue=crew.namespace))
    await crew.stop(*others)  # who wins at once spares the bare one the question
    await crew.manager.create(objects.job("job", namespace, managed_by=objects.MULTIKUEUE_CONTROLLER))

    async def is_warned() -> bool:
        told = await crew.manager.list(Kind("v1", "Event"), namespace)
        warnings = [e["message"] for e in told if e["type"] == "Warning"]
        words = f'"{crew.cluster(bare)}" cannot take the workload'
        return any(words in warning and "not found" in warning for warning in warnings)

    await eventually(is_warned)
    await crew.go(*others)

    async def winner() -> str | None:
        for workload in await crew.manager.list(WORKLOAD, namespace):
            return crew.worker_of(workload["status"]["clusterName"]) if _is_admitted(workload) else None
        return None

    worker = await eventually(winner)
    assert worker in others
    (workload,) = await crew.manager.list(WORKLOAD, namespace)
    await complete_job(crew.clients[worker], namespace, "job")

    async def finished() -> bool:
        body = await crew.manager.get(WORKLOAD, workload["metadata"]["name"], namespace)
        return objects.condition(body, "Finished") is not None

    await eventually(finished)
    for other in others:
        await eventually(partial(_has_none, crew.clients[other], namespace))


async def _has_none(client: Client, namespace: str) -> bool:
    return not await client.list(WORKLOAD, namespace) and not await client.list(JOB, namespace)


async def test_a_job_with_nobody_to_go_to_says_why_and_waits(crew: Team) -> None:
    await crew.stop()
    for worker in crew.clients:
        await cordon(crew, worker, "true")
    await crew.submit()

    async def says_why() -> bool:
        message = (await crew.check())["message"]
        assert message.startswith("No worker can be nominated: "), message
        return all(f"{crew.cluster(worker)}: cordoned" in message for worker in crew.clients)

    await eventually(says_why)
    await crew.go()
    await cordon(crew, next(iter(crew.clients)), None)
    await crew.complete(await crew.runs_on())
    await crew.finished()


async def test_more_than_twenty_clusters_may_be_named(crew: Team) -> None:
    unknown = [f"{crew.namespace}-unknown{number:02}" for number in range(18)]
    dead = [f"{crew.namespace}-dead{number}" for number in range(4)]
    link = crew.bed.link(crew.bed.manager)
    link.refuse()
    config = dump(crew.bed.manager.kubeconfig(server=link.url))
    for name in dead:
        await crew.manager.create(objects.kubeconfig_secret(name, config))
        await crew.manager.create(objects.multikueue_cluster(name, secret=name))
    named = [*unknown, *dead, *(crew.cluster(worker) for worker in crew.clients)]
    assert len(named) == 25
    more = {"metadata": {"annotations": {"multikueue.dev/clusters": ", ".join(named[20:])}}}
    change = {"spec": {"clusters": named[:20]}, **more}
    try:
        await crew.manager.patch(MULTIKUEUE_CONFIG, crew.namespace, change)
        await crew.stop()
        await crew.submit()
        assert sorted(await crew.waiting()) == sorted(crew.clients)

        async def tells() -> bool:
            active = objects.condition(await crew.manager.get(ADMISSION_CHECK, crew.namespace), "Active")
            assert active is not None
            assert (active["status"], active["reason"]) == ("True", "SomeActiveClusters")
            parts = (f"Missing clusters: [{' '.join(unknown)}]", f"Inactive clusters: [{' '.join(dead)}]")
            return bool(active["message"] == ", ".join(parts))

        await eventually(tells)
        await crew.go()
        await crew.complete(await crew.runs_on())
        await crew.finished()
    finally:
        for name in dead:
            await crew.manager.delete(MULTIKUEUE_CLUSTER, name)


async def test_no_error_was_logged_for_what_users_and_workers_did(manager: Manager) -> None:
    """The last of the module, so the log tells of all tests before."""
    assert complaints(manager) == []
