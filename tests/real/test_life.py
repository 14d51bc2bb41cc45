"""The life of a job, from the label to the result: one file, one set of clusters."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha1
from typing import Any

import anyio
import pytest

from testbed import objects, queues
from testbed.client import Client, Kind, eventually
from testbed.jobs import complete_job, fail_job, start_job
from testbed.objects import JOB, WORKLOAD, Object
from tests.real.chronicle import AGENT, HOME, PREBUILT_LABEL, Chronicle
from tests.real.harness import ORIGIN, ORIGIN_LABEL, Manager, Team, complaints, starts, writers

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("history"),
]

PRIORITY_CLASS = Kind(objects.KUEUE_VERSION, "WorkloadPriorityClass")
ATTEMPT = "multikueue.dev/attempt"
FINALIZER = "kueue.x-k8s.io/resource-in-use"


# --- the main road -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "condition", "reason"),
    [
        pytest.param(complete_job, "Complete", "Succeeded", id="success"),
        pytest.param(fail_job, "Failed", "Failed", id="failure"),
    ],
)
async def test_a_job_runs_on_one_worker_and_its_result_comes_home(
    crew: Team, end: Callable[[Client, str, str], Awaitable[Object]], condition: str, reason: str
) -> None:
    await crew.submit(parallelism=2)
    worker = await crew.runs_on()
    assert await crew.winner() == worker
    remote = await end(crew.clients[worker], crew.namespace, "job")
    done = await crew.finished()
    assert _reason(await crew.workload(), "Finished") == reason
    assert _reason(done, condition) == _reason(remote, condition)
    counted = ("succeeded", "failed", "startTime", "completionTime")
    assert {k: done["status"].get(k) for k in counted} == {k: remote["status"].get(k) for k in counted}


def _reason(body: Object, condition: str) -> str:
    found = objects.condition(body, condition)
    assert found is not None, f"no {condition} in {body}"
    return str(found["reason"])


async def test_a_workload_and_its_copies_look_like_kueues(crew: Team) -> None:
    await crew.stop()
    job = await crew.submit(labels={"team": "red"})
    copies = await crew.waiting()
    local, uid = await crew.workload(), job["metadata"]["uid"]
    uid_of_it = local["metadata"]["uid"]
    digest = sha1(f"Job\nbatch\njob\n{uid}".encode(), usedforsecurity=False).hexdigest()
    assert local["metadata"]["name"] == f"job-job-{digest[:5]}"
    assert local["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": uid}
    assert local["metadata"]["finalizers"] == [FINALIZER]
    (owner,) = local["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Job", "job", uid, True)
    assert sorted(local["status"]["nominatedClusterNames"]) == sorted(crew.cluster(w) for w in crew.clients)
    for copy in copies.values():
        assert copy["spec"] == local["spec"]
        assert copy["metadata"]["labels"] == {ORIGIN_LABEL: ORIGIN}
        assert "ownerReferences" not in copy["metadata"]
    (attempt,) = {copy["metadata"]["annotations"][ATTEMPT] for copy in copies.values()}
    reserved = objects.condition(local, "QuotaReserved")
    assert reserved is not None
    assert attempt == f"{reserved['lastTransitionTime']}/{uid_of_it}"


async def test_the_remote_job_is_a_suspended_one_of_the_workers_own(crew: Team, history: Chronicle) -> None:
    local = await crew.submit(labels={"team": "red"}, parallelism=3)
    worker = await crew.runs_on()
    workload = await crew.workload()
    await history.complete()
    born = history.story(cluster=worker, kind=JOB, name="job")[0].body
    assert born is not None
    assert born["spec"]["suspend"] is True
    assert "managedBy" not in born["spec"]
    expected = local["metadata"]["labels"] | {ORIGIN_LABEL: ORIGIN, PREBUILT_LABEL: workload["metadata"]["name"]}
    assert born["metadata"]["labels"] == expected
    assert born["spec"]["parallelism"] == 3
    assert born["spec"]["template"]["spec"] == local["spec"]["template"]["spec"]
    copy = (await crew.copies())[worker]
    assert born["metadata"]["annotations"][ATTEMPT] == copy["metadata"]["annotations"][ATTEMPT]
    assert copy["metadata"]["ownerReferences"][0]["uid"] == born["metadata"]["uid"]


async def test_what_the_user_wrote_travels_and_what_concerns_the_manager_stays(crew: Team) -> None:
    body = objects.job("job", crew.namespace, parallelism=2, managed_by=objects.MULTIKUEUE_CONTROLLER)
    exits = {"operator": "In", "values": [42]}
    spec = {
        "backoffLimit": 3,
        "completionMode": "Indexed",
        "activeDeadlineSeconds": 600,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": exits}]},
        "podReplacementPolicy": "Failed",
    }
    body["spec"] |= spec | {"ttlSecondsAfterFinished": 600}
    body["metadata"]["annotations"] = {"example.com/note": "kept"}
    pod = body["spec"]["template"]["spec"]
    pod |= {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    pod["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    local = await crew.manager.create(body)
    worker = await crew.runs_on()
    remote = (await crew.remote_jobs())[worker]
    assert {field: remote["spec"][field] for field in spec} == {field: local["spec"][field] for field in spec}
    assert remote["spec"]["template"]["spec"] == local["spec"]["template"]["spec"]
    assert remote["metadata"]["annotations"]["example.com/note"] == "kept"
    assert "ttlSecondsAfterFinished" not in remote["spec"], "the result could vanish before it is read"
    assert "managedBy" not in remote["spec"]
    await crew.complete(worker)
    assert (await crew.finished())["status"]["succeeded"] == 2


async def test_a_job_may_have_the_longest_name(crew: Team) -> None:
    name = "long-" + "x" * 58
    await crew.submit(name)
    worker = await crew.runs_on(name)
    assert len((await crew.workload(name))["metadata"]["name"]) == 63
    await crew.complete(worker, name)
    await eventually(lambda: crew.is_true("Finished", name))
    await eventually(lambda: _copies_left(crew, 0, name))


@pytest.mark.parametrize("stage", ["waiting on the workers", "running"])
async def test_whether_a_job_is_suspended_is_for_the_queue_to_say(crew: Team, stage: str) -> None:
    if stage == "waiting on the workers":
        await crew.stop()
    async with starts(crew) as started:
        await crew.submit()
        if stage == "running":
            await started.first()
            await eventually(lambda: crew.is_true("Admitted"))
            await eventually(lambda: _is_suspended(crew, False))
        else:
            await crew.waiting()
        uid = (await crew.workload())["metadata"]["uid"]
        wrong = stage == "running"
        before = await crew.manager.patch(JOB, "job", {"spec": {"suspend": wrong}}, crew.namespace)
        assert before["spec"]["suspend"] is wrong
        await eventually(lambda: _is_suspended(crew, not wrong))
        assert (await crew.workload())["metadata"]["uid"] == uid
        await crew.go()
        await crew.complete(await started.first())
        await crew.finished()
        assert not (await started.settled()).twice()


async def _is_suspended(crew: Team, suspended: bool) -> bool:
    return (await crew.job())["spec"]["suspend"] is suspended


async def test_effects_come_in_an_order_that_a_crash_cannot_harm(crew: Team, history: Chronicle) -> None:
    await crew.submit()
    worker = await crew.runs_on()
    await eventually(lambda: _is_suspended(crew, False))
    await crew.complete(worker)
    await crew.finished()
    await history.complete()
    name = (await crew.workload())["metadata"]["name"]

    def local(holds: Callable[[Object], object]) -> int:
        return history.first(holds, cluster=HOME, kind=WORKLOAD)

    def status(body: Object) -> Object:
        found: Object = body.get("status", {})
        return found

    copied = next(change for change in history.story(kind=WORKLOAD, name=name) if change.cluster != HOME)
    steps = {
        "nominated": local(lambda b: status(b).get("nominatedClusterNames")),
        "first copy made": copied.revision,
        "remote job made": history.first(bool, cluster=worker, kind=JOB),
        "winner recorded": local(lambda b: status(b).get("clusterName")),
        "local job started": history.first(lambda b: not b["spec"]["suspend"], cluster=HOME, kind=JOB),
        "result home": history.first(lambda b: objects.condition(b, "Complete"), cluster=HOME, kind=JOB),
        "finished": local(lambda b: objects.condition(b, "Finished")),
        "remote job gone": history.gone(cluster=worker, kind=JOB),
    }
    assert list(steps.values()) == sorted(steps.values()), steps
    assert local(lambda b: status(b).get("nominatedClusterNames")) == local(lambda b: status(b).get("admission"))


async def test_the_status_is_mirrored_while_the_job_runs(crew: Team) -> None:
    await crew.submit(parallelism=2)
    worker = await crew.runs_on()
    await start_job(crew.clients[worker], crew.namespace, "job")

    async def runs_at_home() -> bool:
        status = (await crew.job())["status"]
        return (status.get("active"), status.get("ready")) == (2, 2) and "startTime" in status

    await eventually(runs_at_home)
    await crew.complete(worker)
    assert (await crew.finished())["status"].get("active", 0) == 0


# --- what it costs -----------------------------------------------------------------------------------------------------


JOBS_COUNTED = 4


async def test_a_job_costs_seven_writes_here_and_two_k_plus_two_there_and_no_reads(crew: Team) -> None:
    marks = {name: await plane.audit.settled() for name, plane in crew.bed.planes.items()}
    names = [f"job{number}" for number in range(JOBS_COUNTED)]
    for name in names:
        await crew.submit(name)
    for name in names:
        worker = await crew.runs_on(name)
        await start_job(crew.clients[worker], crew.namespace, name)
        await eventually(partial(_is_ready_at_home, crew, name))
        await crew.complete(worker, name)
    for name in names:
        await crew.finished(name)
    here: Counter[Any] = Counter()
    there: Counter[Any] = Counter()
    reads: Counter[Any] = Counter()
    for plane_name, mark in marks.items():
        plane = crew.bed.planes[plane_name]
        for event in plane.audit.events(mark, await plane.audit.settled()):
            if event.call.agent != AGENT:
                continue
            if event.call.is_write and event.namespace == crew.namespace:
                (here if plane_name == HOME else there)[event.verb, event.resource] += 1
            elif event.verb in ("get", "list"):
                reads[plane_name, event.verb, event.resource] += 1
    queue_statuses = here.pop(("patch", "localqueues/status"), 0)
    assert queue_statuses <= 4 * JOBS_COUNTED, "one waits, reserves, is admitted, is over"
    assert here.pop(("create", "events"), 0) == JOBS_COUNTED, "which worker won (dispatch.tell_wins)"
    assert sum(here.values()) <= 7 * JOBS_COUNTED, here
    assert sum(there.values()) <= (2 * len(crew.clients) + 2) * JOBS_COUNTED, there
    # A watch may end meanwhile, and its kind is listed again. What is read for a job is read as often as there are jobs.
    assert {call: n for call, n in reads.items() if "get" in call or n >= JOBS_COUNTED} == {}


async def _is_ready_at_home(crew: Team, name: str) -> bool:
    return bool((await crew.job(name))["status"].get("ready") == 1)


async def test_nothing_is_written_or_read_while_nothing_happens(crew: Team) -> None:
    await crew.submit("running")
    await crew.runs_on("running")
    await crew.submit("short", requests={"cpu": "1000"})
    await eventually(lambda: _has_reason(crew, "short", "Pending"))
    await crew.stop()
    await crew.submit("waiting")
    await crew.waiting(name="waiting")
    await crew.submit("stray", queue="nowhere")
    await eventually(lambda: _has_reason(crew, "stray", "Inadmissible"))
    await eventually(lambda: _is_explained(crew, "waiting"), timeout=20)
    for name in ("short", "waiting", "stray"):
        await eventually(lambda name=name: _tells_that_it_waits(crew, name), timeout=20)  # type: ignore[misc]
    await _quiet(crew)
    marks = {name: await plane.audit.settled() for name, plane in crew.bed.planes.items()}
    await anyio.sleep(10)  # two sweeps, five heartbeats, ten chances to write a queue's status
    made: Counter[Any] = Counter()
    for name, mark in marks.items():
        made.update({(name, *c): n for c, n in crew.bed.planes[name].audit.since(mark).items() if c.agent == AGENT})
    assert not {call: times for call, times in made.items() if "watch" not in call}, "but a watch may be renewed"


async def _tells_that_it_waits(crew: Team, name: str) -> bool:
    """Whether the job says that it waits: it does so after a while (`dispatch.tell_suspended_after`)."""
    suspended = objects.condition(await crew.job(name), "Suspended")
    return suspended is not None and suspended["status"] == "True"


async def _is_explained(crew: Team, name: str) -> bool:
    """Whether the check says that the copies can't be admitted: it does so after a while."""
    message = (await crew.check(name))["message"]
    return all(crew.cluster(worker) in message for worker in crew.clients)


async def _quiet(crew: Team, *, seconds: float = 1.5) -> None:
    """Waits until the manager has not written for a moment: what was begun is done."""

    async def still() -> bool:
        marks = {name: plane.audit.mark() for name, plane in crew.bed.planes.items()}
        await anyio.sleep(seconds)
        calls = (c for name, mark in marks.items() for c in crew.bed.planes[name].audit.since(mark))
        return not [call for call in calls if call.agent == AGENT and call.is_write]

    await eventually(still, timeout=30)


async def _has_reason(crew: Team, name: str, reason: str, *, message: str = "") -> bool:
    """Whether a workload has no quota for that reason, in words that contain these."""
    condition = await crew.condition("QuotaReserved", name)
    assert condition is not None, "nobody judged it yet"
    assert (condition["status"], condition["reason"]) == ("False", reason), condition
    assert message in condition["message"], condition
    return True


# --- jobs that are deleted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["waiting for quota", "waiting on the workers", "running", "finished"])
async def test_a_deleted_job_leaves_nothing_anywhere(crew: Team, stage: str) -> None:
    if stage == "waiting on the workers":
        await crew.stop()
    await crew.submit(requests={"cpu": "1000" if stage == "waiting for quota" else "1"})
    if stage == "waiting for quota":
        await eventually(lambda: _has_reason(crew, "job", "Pending"))
    elif stage == "waiting on the workers":
        await crew.waiting()
    else:
        worker = await crew.runs_on()
        if stage == "finished":
            await crew.complete(worker)
            await crew.finished()
    await crew.manager.delete(JOB, "job", crew.namespace)
    await crew.gone()


@pytest.mark.parametrize("stage", ["waiting on the workers", "running"])
async def test_a_job_recreated_under_its_name_has_nothing_of_the_old_one(
    crew: Team, history: Chronicle, stage: str
) -> None:
    if stage == "running":
        await crew.submit()
        await crew.runs_on()
    else:
        await crew.stop()
        await crew.submit()
        await crew.waiting()
    old = (await crew.workload())["metadata"]["name"]
    await crew.manager.delete(JOB, "job", crew.namespace)
    await crew.submit(parallelism=2)
    await crew.go()
    worker = await eventually(lambda: _runs_with(crew, 2))
    assert (await crew.workload())["metadata"]["name"] != old
    await crew.complete(worker)
    await crew.finished()
    await eventually(lambda: _is_gone(crew, old))
    await history.complete()
    remote = [c.body for c in history.story(kind=JOB) if c.cluster != HOME and c.body is not None]
    assert len({body["metadata"]["uid"] for body in remote if _runs(body)}) == (2 if stage == "running" else 1)


async def _runs_with(crew: Team, parallelism: int) -> str | None:
    """The worker that runs a job of so many pods."""
    for worker, body in (await crew.remote_jobs()).items():
        if body["spec"]["parallelism"] == parallelism and _runs(body):
            return worker
    return None


def _runs(body: Object) -> bool:
    return not body["spec"]["suspend"]


async def _is_gone(crew: Team, workload: str) -> bool:
    return await crew.manager.find(WORKLOAD, workload, crew.namespace) is None


@pytest.mark.parametrize("stage", ["waiting on the workers", "running"])
async def test_a_workload_that_its_user_deletes_is_recreated_and_runs(crew: Team, stage: str) -> None:
    if stage == "waiting on the workers":
        await crew.stop()
    async with starts(crew) as started:
        await crew.submit()
        if stage == "running":
            await started.first()
        else:
            await crew.waiting()
        old = (await crew.workload())["metadata"]
        await crew.manager.delete(WORKLOAD, old["name"], crew.namespace)

        async def recreated() -> bool:
            return bool((await crew.workload())["metadata"]["uid"] != old["uid"])

        await eventually(recreated, timeout=20)
        await crew.go()
        worker = (await started.times(2 if stage == "running" else 1))[-1]
        await crew.complete(worker)
        await crew.finished()


async def test_a_finished_job_stays_on_its_worker_for_as_long_as_it_asks(crew: Team) -> None:
    await crew.submit()
    await _retained_for(crew, "12h")
    worker = await crew.runs_on()
    await crew.complete(worker)
    await eventually(lambda: crew.is_true("Finished"))
    await eventually(lambda: _copies_left(crew, 1))
    await anyio.sleep(2)
    assert set(await crew.remote_jobs()) == set(await crew.copies()) == {worker}
    await _retained_for(crew, "0s")
    await crew.clean()


async def test_by_default_a_finished_job_stays_on_its_worker_and_goes_with_its_job(
    crew: Team, manager: Manager
) -> None:
    async with manager.reborn(RETENTION__COPIES=""):
        await crew.submit()
        worker = await crew.runs_on()
        await crew.complete(worker)
        await eventually(lambda: crew.is_true("Finished"))
        await eventually(lambda: _copies_left(crew, 1))
        told = [c for c in (await crew.workload())["status"]["conditions"] if c["type"] == "multikueue.dev/LogsUntil"]
        assert [c["status"] for c in told] == ["True"]
        assert set(await crew.remote_jobs()) == set(await crew.copies()) == {worker}
        await crew.manager.delete(JOB, "job", crew.namespace)
        await crew.gone()
        await crew.clean()


async def _retained_for(crew: Team, time: str) -> None:
    annotation = {"multikueue.dev/copy-retention": time}
    await crew.manager.patch(JOB, "job", {"metadata": {"annotations": annotation}}, crew.namespace)


@pytest.mark.parametrize("seed", range(3))
async def test_jobs_deleted_at_any_moment_leave_nothing(crew: Team, seed: int) -> None:
    dice = random.Random(seed)

    async def short_life(number: int) -> None:
        for name in (f"job{number}", f"job{number}"):  # the same name twice
            await crew.submit(name)
            await anyio.sleep(dice.uniform(0, 0.6))
            await crew.manager.delete(JOB, name, crew.namespace)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(short_life, number)
    for number in range(8):
        await crew.gone(f"job{number}", timeout=30)


# --- jobs that change --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["waiting for quota", "waiting on the workers"])
async def test_a_waiting_job_that_changes_its_size_runs_with_the_new_one(crew: Team, stage: str) -> None:
    await crew.stop()
    size = 3 if stage == "waiting on the workers" else 300
    await crew.submit(parallelism=size, requests={"cpu": "1"})
    if stage == "waiting on the workers":
        await crew.waiting()
    else:
        await eventually(lambda: _has_reason(crew, "job", "Pending"))
    await crew.manager.patch(JOB, "job", {"spec": {"parallelism": 2}}, crew.namespace)

    async def copies_follow() -> bool:
        counts = [c["spec"]["podSets"][0]["count"] for c in (await crew.waiting()).values()]
        return counts == [2, 2, 2]

    await eventually(copies_follow, timeout=20)
    await crew.go()
    worker = await crew.runs_on()
    assert (await crew.remote_jobs())[worker]["spec"]["parallelism"] == 2
    await crew.complete(worker)
    await crew.finished()


@pytest.mark.parametrize("stage", ["waiting for quota", "waiting on the workers"])
async def test_a_waiting_job_may_change_its_queue(crew: Team, stage: str) -> None:
    quota = objects.DEFAULT_QUOTA if stage == "waiting on the workers" else {"cpu": "1m", "memory": "1Mi"}
    name = f"{crew.namespace}-first"
    first = objects.cluster_queue(name, quota=quota, checks=[crew.namespace])
    await queues.setup_queue(crew.manager, namespace=crew.namespace, queue="first", cluster_queue=first)
    await crew.submit(queue="first")
    if stage == "waiting on the workers":
        await crew.waiting()  # no worker has that queue
    else:
        await eventually(lambda: _has_reason(crew, "job", "Pending"))
    change = {"metadata": {"labels": {objects.QUEUE_LABEL: "main"}}}
    await crew.manager.patch(JOB, "job", change, crew.namespace)
    worker = await crew.runs_on()
    assert (await crew.workload())["spec"]["queueName"] == "main"
    await crew.complete(worker)
    await crew.finished()


async def test_a_copy_that_can_never_be_admitted_is_explained(crew: Team) -> None:
    name = f"{crew.namespace}-first"
    body = objects.cluster_queue(name, checks=[crew.namespace])
    await queues.setup_queue(crew.manager, namespace=crew.namespace, queue="first", cluster_queue=body)
    await crew.submit(queue="first")

    await eventually(lambda: _is_explained(crew, "job"), timeout=20)
    message = (await crew.check())["message"]
    assert "LocalQueue first doesn't exist" in message


# --- priority ----------------------------------------------------------------------------------------------------------


async def _class(crew: Team, name: str, value: int) -> str:
    """A priority class on all clusters, named after the team."""
    body = {
        "apiVersion": PRIORITY_CLASS.api_version,
        "kind": PRIORITY_CLASS.kind,
        "metadata": {"name": f"{crew.namespace}-{name}"},
        "value": value,
    }
    for client in (crew.manager, *crew.clients.values()):
        await client.create(body)
    return f"{crew.namespace}-{name}"


async def test_when_quota_is_short_the_highest_priority_goes_first(crew: Team) -> None:
    low, high = await _class(crew, "low", 10), await _class(crew, "high", 1000)
    await crew.manager.patch(objects.CLUSTER_QUEUE, crew.namespace, {"spec": {"stopPolicy": "Hold"}})
    await eventually(lambda: crew.is_stopped(crew.manager))
    await crew.submit("first", priority_class=low, requests={"cpu": "60"})
    await crew.submit("second", priority_class=high, requests={"cpu": "60"})
    for name, value in (("first", 10), ("second", 1000)):
        await eventually(partial(_has_reason, crew, name, "Inadmissible"))
        assert (await crew.workload(name))["spec"]["priority"] == value
    await crew.manager.patch(objects.CLUSTER_QUEUE, crew.namespace, {"spec": {"stopPolicy": "None"}})
    worker = await crew.runs_on("second")
    assert not await crew.is_true("QuotaReserved", "first")
    await crew.complete(worker, "second")
    await crew.complete(await crew.runs_on("first"), "first")
    await crew.finished("first")


@pytest.mark.parametrize("stage", ["waiting on the workers", "running"])
async def test_a_new_priority_class_reaches_the_copies_in_place(crew: Team, stage: str) -> None:
    low, high = await _class(crew, "low", 10), await _class(crew, "high", 1000)
    if stage == "waiting on the workers":
        await crew.stop()
    async with starts(crew) as started:
        await crew.submit(priority_class=low)
        if stage == "running":
            await started.first()
            await crew.winner()
            await eventually(lambda: _copies_left(crew, 1))
        else:
            await crew.waiting()
        old = {worker: copy["metadata"]["uid"] for worker, copy in (await crew.copies()).items()}
        change = {"metadata": {"labels": {objects.PRIORITY_LABEL: high}}}
        await crew.manager.patch(JOB, "job", change, crew.namespace)

        async def follow() -> bool:
            copies = await crew.copies()
            assert {w: c["metadata"]["uid"] for w, c in copies.items()} == old, "a copy was recreated"
            asked = {(c["spec"]["priority"], c["spec"]["priorityClassRef"]["name"]) for c in copies.values()}
            return asked == {(1000, high)}

        await eventually(follow)
        assert (await crew.workload())["spec"]["priority"] == 1000
        await crew.go()
        await crew.complete(await started.first())
        await crew.finished()
        assert not (await started.settled()).twice()


async def _copies_left(crew: Team, count: int, name: str = "job") -> bool:
    return len(await crew.copies(name)) == count


async def test_a_class_that_changes_its_value_changes_the_copies(crew: Team) -> None:
    await crew.stop()
    name = await _class(crew, "mine", 10)
    await crew.submit(priority_class=name)
    old = {worker: copy["metadata"]["uid"] for worker, copy in (await crew.waiting()).items()}
    await crew.manager.patch(PRIORITY_CLASS, name, {"value": 77})

    async def follow() -> bool:
        copies = await crew.copies()
        assert {w: c["metadata"]["uid"] for w, c in copies.items()} == old, "a copy was recreated"
        return {c["spec"]["priority"] for c in copies.values()} == {77}

    await eventually(follow)


# --- limits ------------------------------------------------------------------------------------------------------------


async def test_a_job_that_runs_longer_than_it_may_is_stopped_for_good(crew: Team) -> None:
    async with starts(crew) as started:
        await crew.submit(labels={"kueue.x-k8s.io/max-exec-time-seconds": "2"})
        await started.first()
        for workload in (await crew.workload(), *(await crew.copies()).values()):
            assert workload["spec"]["maximumExecutionTimeSeconds"] == 2

        async def given_up() -> bool:
            workload = await crew.workload()
            evicted = objects.condition(workload, "Evicted")
            assert workload["spec"].get("active") is False
            assert evicted is not None
            assert evicted["reason"] == "DeactivatedDueToMaximumExecutionTimeExceeded", evicted
            return (await crew.job())["spec"]["suspend"] is True

        await eventually(given_up, timeout=20)
        await crew.clean()
        assert not (await started.settled()).twice()


# --- jobs that are not for us, or not yet --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("managed_by", "suspend"),
    [
        pytest.param(None, False, id="nobody's and running"),
        pytest.param(None, True, id="nobody's"),
        pytest.param("example.com/somebody", True, id="another controller's"),
    ],
)
async def test_a_job_that_cannot_be_dispatched_says_so(crew: Team, managed_by: str | None, suspend: bool) -> None:
    await crew.submit(managed_by=managed_by, suspend=suspend)
    await eventually(lambda: _has_reason(crew, "job", "Inadmissible", message="spec.managedBy"))
    (event,) = await eventually(lambda: _warnings(crew))
    assert event["reason"] == "Undispatchable"
    assert f'"{managed_by or ""}"' in event["message"]
    assert (await crew.workload())["spec"]["active"] is False, "it must not take quota from others"
    assert (await crew.job())["spec"]["suspend"] is True
    await crew.submit("good")
    await crew.complete(await crew.runs_on("good"), "good")
    await crew.finished("good")
    assert await crew.copies() == {}
    assert await crew.remote_jobs() == {}


async def _warnings(crew: Team) -> list[Object]:
    return [event for event in await crew.told(JOB, "job") if event["type"] == "Warning"]


async def test_a_job_without_a_queue_is_left_alone(crew: Team) -> None:
    await crew.submit("plain", queue=None, suspend=False, managed_by=None)
    await crew.submit()
    await crew.complete(await crew.runs_on())
    assert AGENT in writers(await crew.finished())
    assert AGENT not in writers(await crew.job("plain"))
    assert len(await crew.manager.list(WORKLOAD, crew.namespace)) == 1


@pytest.mark.parametrize("missing", ["LocalQueue", "ClusterQueue"])
async def test_a_job_of_a_queue_that_is_not_there_waits_for_it(crew: Team, missing: str) -> None:
    name = f"{crew.namespace}-later"
    local_queue = objects.local_queue("later", crew.namespace, cluster_queue=name)
    cluster_queue = objects.cluster_queue(name, checks=[crew.namespace])
    for client in crew.clients.values():
        await client.create(objects.local_queue("later", crew.namespace, cluster_queue=crew.namespace))
    await crew.manager.create(cluster_queue if missing == "LocalQueue" else local_queue)
    await crew.submit(queue="later")
    named = "later" if missing == "LocalQueue" else name
    await eventually(lambda: _has_reason(crew, "job", "Inadmissible", message=f"{missing} {named} doesn't exist"))
    await crew.manager.create(local_queue if missing == "LocalQueue" else cluster_queue)
    await crew.complete(await crew.runs_on())
    await crew.finished()


async def test_no_error_was_logged_for_what_users_and_workers_did(manager: Manager) -> None:
    """The last of the module, so the log tells of all tests before."""
    assert complaints(manager) == []
