"""What a comparison asks of a manager under faults: one file, the rows in which Kueue's own manager was measured.

The machine is shared with the control planes, and rates are noisy: each is compared with a control of the same team in
the same minute, and the sharp criterion is the longest pause. `python -m benchmarks work sick` measures rates.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import pytest

from testbed import objects
from testbed.bed import Testbed
from testbed.client import Client, Kind, eventually
from testbed.jobs import complete_job, fail_job
from testbed.kubeconfig import dump
from testbed.objects import JOB, LOCAL_QUEUE, SECRET, WORKLOAD
from testbed.ports import free_port
from tests.real.harness import Manager, Team, complaints, logged, played, starts, team, wins

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("calm"),
]

MODES = ("hang", "blackhole", "reset", "refuse")
SICK = "worker3"

BURST = 36
RATE = 0.5
"""The least share of the control's rate. A manager that waits for a sick worker shows far less, and a burst this small on a
busy machine cannot tell 0.7 from 1; the aim, 0.95, is what `python -m benchmarks work sick` measures."""

ASKED = 12
"""How many jobs one worker may be asked for at the same moment, so how many may wait for one that does not answer."""

PAUSE = 2.0
"""How many seconds longer than the control's the longest pause may be."""


# F1, F2, F3: one worker is sick, and the others go on.


@dataclass(frozen=True, slots=True)
class Pace:
    """How a burst of jobs was admitted: jobs per second, and the longest time without any admission."""

    rate: float
    pause: float

    def holds_against(self, control: Pace) -> bool:
        print(
            f"{self.rate / control.rate:.2f} of the control's {control.rate:.1f}/s; pauses {self.pause:.1f} {control.pause:.1f}"
        )
        return self.rate >= RATE * control.rate and self.pause <= control.pause + PAUSE


async def _burst(
    crew: Team, prefix: str, *, share: float = 1.0, at_a_quarter: Callable[[], None] | None = None
) -> Pace:
    """Submit a burst; measured until that share of it is admitted."""
    count = int(BURST * share)
    async with wins(crew, prefix) as won, anyio.create_task_group() as tasks:
        began = time.monotonic()
        tasks.start_soon(crew.submit_all, [f"{prefix}{number:02d}" for number in range(BURST)])
        if at_a_quarter is not None:
            await won.reach(BURST // 4)
            at_a_quarter()
        await won.reach(count)
        moments = sorted(moment for moment, _ in won.found.values())[:count]
        pauses = [later - sooner for sooner, later in zip([began, *moments], moments, strict=False)]
    return Pace(count / (moments[-1] - began), max(pauses))


async def _holds(crew: Team, sick: Callable[[str], Awaitable[Pace]], *, share: float = 1.0) -> None:
    """Compare a sick burst with a control, measured over the same share.

    A manager that stalls does so each time; what else runs on the machine does not. So the best of three pairs counts.
    """
    for attempt in "abc":
        pace = await sick(f"sick-{attempt}-")
        crew.links[SICK].ok()
        await crew.active(SICK, timeout=30)
        if pace.holds_against(await _burst(crew, f"control-{attempt}-", share=share)):
            return
    raise AssertionError("slower than the control, three times of three")


@pytest.mark.parametrize("mode", MODES)
async def test_f1_a_worker_that_is_away_from_the_start_slows_nobody(bed: Testbed, manager: Manager, mode: str) -> None:
    async with team(bed) as crew:

        async def sick(prefix: str) -> Pace:
            getattr(crew.links[SICK], mode)()
            manager.kill()
            manager.start()
            await manager.ready()
            return await _burst(crew, prefix)

        await _holds(crew, sick)


@pytest.mark.parametrize("mode", MODES)
async def test_f2_a_worker_that_goes_away_in_a_burst_slows_nobody(crew: Team, mode: str) -> None:
    """A few jobs were asked of the sick worker just before, and no answer came: they wait for it. What is measured is
    the share that the others have to themselves."""

    async def sick(prefix: str) -> Pace:
        pace = await _burst(crew, prefix, share=1 - ASKED / BURST, at_a_quarter=getattr(crew.links[SICK], mode))
        await eventually(lambda: _all_have_a_winner(crew, prefix, but=ASKED), timeout=20)
        crew.links[SICK].ok()
        await eventually(lambda: _all_have_a_winner(crew, prefix), timeout=20)
        return pace

    async with starts(crew) as started:
        await _holds(crew, sick, share=1 - ASKED / BURST)
        assert not (await started.settled()).twice()


async def _all_have_a_winner(crew: Team, prefix: str, *, but: int = 0) -> bool:
    """All workloads of a burst, but perhaps those few whose job the sick worker was asked for just before."""
    found = [
        b
        for b in await crew.manager.list(WORKLOAD, crew.namespace)
        if b["metadata"]["name"].startswith(f"job-{prefix}")
    ]
    waiting = [body["metadata"]["name"] for body in found if not body.get("status", {}).get("clusterName")]
    assert len(found) == BURST
    assert len(waiting) <= but, f"{len(waiting)} have no winner: {waiting[:5]}"
    return True


async def test_f3_a_worker_far_away_slows_nobody(crew: Team) -> None:
    async def far(prefix: str) -> Pace:
        crew.links[SICK].latency(0.2)
        return await _burst(crew, prefix)

    await _holds(crew, far)


# F4 and F11: a worker returns with something old.


@pytest.mark.parametrize("mode", ["hang", "reset"])
@pytest.mark.parametrize("noticed", [False, True], ids=["before it is missed", "after its absence was shown"])
async def test_f4_a_worker_that_returns_with_an_older_admission_does_not_unseat_the_winner(
    crew: Team, mode: str, noticed: bool
) -> None:
    await crew.stop()
    async with starts(crew) as started:
        await crew.submit()
        await crew.waiting()
        getattr(crew.links["worker2"], mode)()
        await crew.go("worker2")
        await eventually(lambda: _admitted_there(crew, "worker2"))
        await anyio.sleep(1.1)  # times are whole seconds: the winner's must be the later one
        await crew.go("worker1")
        assert await started.first() == "worker1"
        assert await crew.winner() == "worker1"
        if noticed:
            await crew.active("worker2", status="False", timeout=30)
        crew.links["worker2"].ok()
        await eventually(lambda: _has_no_copy(crew, "worker2"), timeout=30)
        assert await crew.winner() == "worker1"
        await crew.complete("worker1")
        await crew.finished()
        assert (await started.settled()).runs["job"].keys() == started.runs["job"].keys()
        assert len(started.runs["job"]) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_f11_a_worker_away_for_longer_than_the_timeout_loses_the_job_and_does_not_get_it_back(
    bed: Testbed, manager: Manager, mode: str
) -> None:
    async with manager.reborn(DISPATCH__WORKER_LOST_TIMEOUT="5s"), team(bed) as crew, starts(crew) as started:
        await crew.all_active()
        await crew.submit()
        first = await started.first()
        await eventually(lambda: crew.is_true("Admitted"))
        cut = time.monotonic()
        getattr(crew.links[first], mode)()
        await eventually(lambda: _was_evicted(crew), timeout=40)
        assert time.monotonic() - cut >= 5
        second = (await started.times(2))[1]
        assert second != first
        await eventually(lambda: _is_won_by(crew, second))
        crew.links[first].ok()
        await eventually(lambda: _has_no_copy(crew, first), timeout=30)
        assert (await crew.remote_jobs()).keys() == {second}
        await crew.complete(second)
        await crew.finished()
        assert list((await started.settled()).runs["job"].values()) == [first, second]


async def _admitted_there(crew: Team, worker: str) -> bool:
    copy = (await crew.copies()).get(worker)
    admitted = copy and objects.condition(copy, "Admitted")
    return bool(admitted and admitted["status"] == "True")


async def _has_no_copy(crew: Team, worker: str) -> bool:
    return worker not in await crew.copies() and worker not in await crew.remote_jobs()


async def _was_evicted(crew: Team) -> bool:
    return bool((await crew.workload())["status"].get("schedulingStats"))


async def _is_won_by(crew: Team, worker: str) -> bool:
    return await crew.winner() == worker and await crew.is_true("Admitted")


# F5: a user's own job has the name.


@pytest.mark.parametrize("winner", ["worker1", "worker2"], ids=["its worker would win", "another worker wins"])
async def test_f5_a_foreign_job_of_the_name_is_left_alone_and_ours_runs_elsewhere(crew: Team, winner: str) -> None:
    # By a controller of its own, since the cluster's would write to its status too where there are nodes.
    foreign = await crew.clients["worker1"].create(
        objects.job(
            "job",
            crew.namespace,
            queue=None,
            suspend=False,
            managed_by="example.com/somebody",
            labels={"owner": "somebody"},
        )
    )
    foreign = await crew.clients["worker1"].patch_status(
        JOB, "job", {"startTime": "2026-01-01T00:00:00Z", "active": 1, "ready": 1}, crew.namespace
    )
    await crew.stop()
    await crew.submit()
    await crew.waiting()
    await crew.go(winner)
    if winner == "worker1":
        await eventually(lambda: _says_why(crew))
        assert (await crew.check())["state"] == "Pending"
        await crew.go("worker2")
    assert await crew.winner() == "worker2"
    await eventually(lambda: crew.is_true("Admitted"))
    assert (await crew.job()).get("status", {}).get("startTime") != foreign["status"]["startTime"]
    await crew.complete("worker2")
    done = await crew.finished()
    assert done["status"]["startTime"] != foreign["status"]["startTime"]
    left = await crew.clients["worker1"].get(JOB, "job", crew.namespace)
    assert (_named(left), left["spec"]) == (_named(foreign), foreign["spec"])
    assert _writers(left) == _writers(foreign)


def _named(item: objects.Object) -> objects.Object:
    return {key: item["metadata"].get(key) for key in ("uid", "labels", "annotations", "finalizers", "ownerReferences")}


def _writers(item: objects.Object) -> set[str]:
    """Who wrote the object so far."""
    return {each["manager"] for each in item["metadata"]["managedFields"]}


async def _says_why(crew: Team) -> bool:
    told = await crew.told(WORKLOAD, (await crew.workload())["metadata"]["name"])
    return any("worker1" in event["message"] and "not ours" in event["message"] for event in told)


# F6: all workers are away for a while.


@pytest.mark.parametrize("mode", ["hang", "reset"])
async def test_f6_when_all_workers_are_back_dispatch_goes_on_at_once(crew: Team, manager: Manager, mode: str) -> None:
    offset = manager.log.stat().st_size
    async with starts(crew) as started, wins(crew, "during") as won:
        before, during = [f"before{n}" for n in range(5)], [f"during{n}" for n in range(10)]
        await crew.submit_all(before)
        for name in before:
            await crew.winner(name)
        for link in crew.links.values():
            getattr(link, mode)()
        await anyio.sleep(1)
        await crew.submit_all(during)
        await anyio.sleep(7)
        assert not won.found
        for link in crew.links.values():
            link.ok()
        back = time.monotonic()
        await won.reach(len(during))
        assert min(moment for moment, _ in won.found.values()) - back < 15, "as long as it may take to try again"
        for name in before + during:
            await crew.complete(await started.first(name), name)
        assert set((await crew.all_over()).values()) == {"Complete"}
        assert not (await started.settled()).twice()
    assert not [b for b in await crew.manager.list(WORKLOAD, crew.namespace) if b["status"].get("schedulingStats")]
    assert len(complaints(manager, "warning", offset=offset)) < 40


# F7: the manager is killed again and again.


async def test_f7_killed_five_times_in_a_burst_it_loses_no_result_and_starts_nothing_twice(
    crew: Team, manager: Manager
) -> None:
    async def end(client: Client, namespace: str, name: str) -> None:
        await (fail_job if name.endswith("3") else complete_job)(client, namespace, name)

    names = [f"job{number:02d}" for number in range(40)]
    async with played(crew, after=2, end=end) as started, anyio.create_task_group() as tasks:
        tasks.start_soon(crew.submit_all, names)
        for share in (1, 2, 3, 4, 5):
            await started.reach(6 * share)
            manager.kill()
            manager.start()
        ends = await crew.all_over(timeout=90)
        assert ends == {name: "Failed" if name.endswith("3") else "Complete" for name in names}
        assert not (await started.settled()).twice()


# F9: a worker lacks something.


async def test_f9_a_worker_without_the_queue_is_passed_over_and_named(crew: Team) -> None:
    await crew.clients[SICK].delete(LOCAL_QUEUE, "main", crew.namespace)
    async with played(crew) as started:
        await crew.submit_all([f"job{number:02d}" for number in range(20)])
        assert set((await crew.all_over()).values()) == {"Complete"}
        assert SICK not in {worker for runs in started.runs.values() for worker in runs.values()}
    await crew.stop("worker1", "worker2")
    await crew.submit("waits")
    await eventually(lambda: _names_the_missing_queue(crew), timeout=20)


async def test_f9_a_worker_without_the_queue_gets_no_more_copies_and_the_next_job_once_it_has_the_queue(
    crew: Team,
) -> None:
    """The first copy there says so to the manager, and stays; others do not come."""
    queue = await crew.clients[SICK].get(LOCAL_QUEUE, "main", crew.namespace)
    await crew.stop("worker1", "worker2")
    await crew.clients[SICK].delete(LOCAL_QUEUE, "main", crew.namespace)
    await crew.submit("waits")
    await eventually(lambda: _names_the_missing_queue(crew), timeout=20)
    await crew.submit("next")
    assert SICK not in await crew.waiting(2, "next")
    assert SICK in await crew.copies("waits")
    await crew.clients[SICK].create(
        objects.local_queue("main", crew.namespace, cluster_queue=queue["spec"]["clusterQueue"])
    )
    assert await crew.runs_on("next") == SICK


async def _names_the_missing_queue(crew: Team) -> bool:
    message: str = (await crew.check("waits"))["message"]
    return f"{crew.cluster(SICK)}: LocalQueue main doesn't exist" in message


# F10: credentials go bad.

RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs", "jobs/status"], "verbs": ["*"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "workloads/status"], "verbs": ["*"]},
]


async def test_f10_revoked_credentials_cost_the_others_nothing_and_new_ones_work_at_once(
    manager: Manager, crew: Team
) -> None:
    plane, client, offset = crew.bed.planes[SICK], crew.clients[SICK], manager.log.stat().st_size
    await _use_token(crew, await plane.service_account_token("first", namespace=crew.namespace, rules=RULES))
    await eventually(lambda: _has_changed(manager, crew, offset))
    await crew.submit("early")
    await crew.winner("early")
    async with starts(crew) as started:
        await client.delete(Kind("v1", "ServiceAccount"), "first", crew.namespace)
        number = 0
        async with anyio.create_task_group() as tasks:

            async def stream() -> None:
                nonlocal number
                while True:
                    number += 1
                    await crew.submit(f"late{number:02d}")
                    await crew.winner(f"late{number:02d}", timeout=15)
                    await anyio.sleep(0.5)

            tasks.start_soon(stream)
            refused = await crew.active(SICK, status="False", timeout=40)
            tasks.cancel_scope.cancel()
        assert "401" in refused["message"]
        assert number > 1, "nobody has won meanwhile"
        secret = dump(
            plane.kubeconfig(
                server=crew.links[SICK].url,
                token=await plane.service_account_token("second", namespace=crew.namespace, rules=RULES),
            )
        )
        await crew.manager.apply(objects.kubeconfig_secret(crew.cluster(SICK), secret))
        await crew.active(SICK)
        assert not (await started.settled()).twice()


async def test_f10_a_secret_that_leads_nowhere_costs_nothing_as_long_as_the_old_one_works(crew: Team) -> None:
    plane = crew.bed.planes[SICK]
    good = await crew.manager.get(SECRET, crew.cluster(SICK), objects.KUEUE_NAMESPACE)
    bad = dump(plane.kubeconfig(server=f"https://127.0.0.1:{free_port()}"))
    await crew.manager.apply(objects.kubeconfig_secret(crew.cluster(SICK), bad))
    async with wins(crew) as won:
        began = time.monotonic()
        await crew.submit_all([f"job{number}" for number in range(10)])
        await won.reach(10)
        assert max(won.pauses(began)) < 10, "so long a call may take"
    told = await crew.active(SICK, message="not in use", timeout=30)
    assert "no connection" in told["message"]
    crew.links[SICK].refuse()
    refused = await crew.active(SICK, status="False", timeout=30)
    assert "no connection" in refused["message"]
    crew.links[SICK].ok()
    await crew.manager.apply(objects.kubeconfig_secret(crew.cluster(SICK), _kubeconfig_in(good)))
    await crew.active(SICK)


async def _has_changed(manager: Manager, crew: Team, offset: int) -> bool:
    """Whether the manager uses the worker's new credentials: a trial of them comes first."""
    changes = [each for each in logged(manager, offset=offset) if each["event"] == "cluster.credentials_changed"]
    return crew.cluster(SICK) in {each["cluster"] for each in changes}


async def _use_token(crew: Team, token: str) -> None:
    config = dump(crew.bed.planes[SICK].kubeconfig(server=crew.links[SICK].url, token=token))
    await crew.manager.apply(objects.kubeconfig_secret(crew.cluster(SICK), config))


def _kubeconfig_in(secret: objects.Object) -> bytes:
    return b64decode(secret["data"]["kubeconfig"])


# And many at once.


@pytest.mark.timeout(240)
async def test_two_hundred_jobs_at_once_all_finish_once(crew: Team) -> None:
    names = [f"job{number:03d}" for number in range(200)]
    async with played(crew) as started:
        await crew.submit_all(names)
        assert await crew.all_over(timeout=180) == dict.fromkeys(names, "Complete")
        assert not (await started.settled()).twice()
        assert len([runs for name, runs in started.runs.items() if name in names]) == 200
