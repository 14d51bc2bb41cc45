"""What fits no worker: who is read for it, what is told, who goes first meanwhile, and what has it tried again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kueue.workload import FITS_NO_WORKER
from multikueue.controllers.quota.ceilings import SOONEST, CeilingReader
from multikueue.errors import Forbidden
from multikueue.runtime import DONE
from multikueue.settings import BESIDE_KUEUE
from multikueue.workload.handlers.retrying import SHORTEST_ATTEMPT
from tests.cluster import Cluster
from tests.controllers.kueue_core import Core
from tests.controllers.quota.test_capacity import have
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
LACK = "cpu 6 of 4 at most in flavor default"


def world(*cpu: int, quota: int = 12, **settings: Any) -> Table:
    """A manager with so many cores, and workers with these; `huge` needs 6 of them."""
    made = table(workers=len(cpu), quota=quota, **settings)
    for (name, cluster), amount in zip(made.workers.items(), cpu, strict=True):
        have(cluster, amount)
        made.world.clients[name] = cluster
    return made


def judge(made: Table, worker: str, name: str = "huge", *, most: int = 4) -> None:
    """The worker's Kueue looks at the copy."""
    text = (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered "
        f"podsets requests (0) + current podset request (6) > maximum capacity ({most})"
    )
    told = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": text}
    told["lastTransitionTime"] = made.time.strftime("%Y-%m-%dT%H:%M:%SZ")
    made.workers[worker].change(kinds.WORKLOADS, made.key(name), {"status": {"conditions": [told]}})


async def refused(made: Table, *workers: str) -> None:
    """The job `huge` is there, and all those have said that they can never hold it."""
    made.submit("huge", cpu="6")
    await made.settle()
    made.time += SHORTEST_ATTEMPT
    for name in workers or made.workers:
        judge(made, name)
    await made.settle()


async def again(made: Table, after: timedelta) -> None:
    """Everything due by then is looked at."""
    made.time += after
    for name in made.workers:
        made.queues.ceilings.add(name)
    made.queues.workloads.add(made.key("huge"))
    await made.settle()


def reads(cluster: Cluster) -> list[str]:
    return [call for call in cluster.calls if call.startswith("list")]


async def test_it_gives_its_quota_back_and_what_fits_goes_first() -> None:
    made = world(4, 4)
    await refused(made)
    assert made.condition(FITS_NO_WORKER, "huge") is not None
    assert (made.condition(FITS_NO_WORKER, "huge") or {})["message"] == f"{LACK}: w1, w2"
    assert (made.condition("QuotaReserved", "huge") or {})["status"] == "False"
    assert made.copies("huge") == []
    assert [text for reason, text in made.said() if reason == "FitsNoWorker"] == [
        f"No worker can ever hold it: {LACK}: w1, w2"
    ]
    for name in ("a", "b", "c"):
        made.submit(name, cpu="4")
    await made.settle()
    assert [made.copies(name) for name in ("a", "b", "c")] == [["w1", "w2"]] * 3


async def test_of_two_that_ask_for_the_same_each_worker_speaks_of_one() -> None:
    """A Kueue that has found one inadmissible parks the other without a word."""
    made = world(4, 4)
    for name in ("huge", "huge2"):
        made.submit(name, cpu="6")
    await made.settle()
    made.time += SHORTEST_ATTEMPT
    judge(made, "w1", "huge")
    judge(made, "w2", "huge2")
    await made.settle()
    for name in ("huge", "huge2"):
        assert (made.condition(FITS_NO_WORKER, name) or {})["message"] == f"{LACK}: w1, w2"
        assert made.copies(name) == []


async def test_one_worker_that_may_is_enough() -> None:
    made = world(4, 8)
    await refused(made, "w1")
    assert made.condition(FITS_NO_WORKER, "huge") is None
    assert made.copies("huge") == ["w1", "w2"]
    made.admit("w2", "huge")
    await made.settle()
    assert (made.runs_on("huge"), made.copies("huge")) == (["w2"], ["w2"])


async def test_it_is_tried_again_by_its_back_off_and_told_once() -> None:
    made = world(4)
    await refused(made)
    await again(made, MINUTE / 2)
    assert made.copies("huge") == []
    await again(made, MINUTE)
    assert made.copies("huge") == ["w1"]
    made.time += SHORTEST_ATTEMPT
    judge(made, "w1")
    await made.settle()
    assert made.copies("huge") == []
    assert made.status("huge")["requeueState"]["count"] == 2
    assert [reason for reason, _ in made.said()].count("FitsNoWorker") == 1


async def test_more_quota_on_a_worker_has_it_tried_again_at_once() -> None:
    made = world(4)
    await refused(made)
    have(made.workers["w1"], 8)
    await again(made, SOONEST)
    assert made.copies("huge") == ["w1"]
    made.admit("w1", "huge")
    await made.settle()
    assert made.runs_on("huge") == ["w1"]
    assert made.condition(FITS_NO_WORKER, "huge") is None
    assert made.store.ceilings.news == set()


async def test_a_worker_that_comes_back_has_it_tried_again_at_once() -> None:
    made = world(4, 8)
    made.cut("w2")
    await refused(made, "w1")
    assert made.copies("huge") == []
    made.connect("w2")
    await made.settle()
    assert made.copies("huge") == ["w1", "w2"]


async def test_one_that_comes_and_goes_and_said_so_has_nothing_tried() -> None:
    made = world(4, 4)
    await refused(made)
    made.cut("w2")
    await made.settle()
    made.connect("w2")
    await made.settle()
    assert made.copies("huge") == []


async def test_after_a_restart_it_waits_on() -> None:
    made = world(4)
    await refused(made)
    made.start()
    made.world.clients["w1"] = made.workers["w1"]
    await again(made, MINUTE / 2)
    assert made.copies("huge") == []
    have(made.workers["w1"], 8)
    await again(made, SOONEST)
    assert made.copies("huge") == ["w1"]


async def test_nobody_is_read_without_a_cause() -> None:
    made = world(4)
    made.submit("small")
    await made.settle()
    made.admit("w1", "small")
    await made.settle()
    assert reads(made.workers["w1"]) == []


async def test_a_worker_that_may_not_be_read_may_fit() -> None:
    made = world(4)
    made.workers["w1"].fault = lambda verb, _: Forbidden(403, "Forbidden", "no") if verb == "list" else None
    await refused(made)
    assert made.condition(FITS_NO_WORKER, "huge") is None
    assert made.copies("huge") == ["w1"]


async def test_however_many_ask_a_worker_is_read_now_and_then() -> None:
    made = world(4)
    await refused(made)
    ceilings, before = CeilingReader(made.world), len(reads(made.workers["w1"]))
    first, second = await ceilings.reconcile("w1"), await ceilings.reconcile("w1")
    assert len(reads(made.workers["w1"])) == before + 2
    assert (first.again_after, second.again_after) == (MINUTE, SOONEST)
    made.cut("w1")
    assert await ceilings.reconcile("w1") == DONE


async def test_beside_kueue_it_gives_its_quota_back_at_once_and_is_kept_out_of_the_queue_for_its_back_off() -> None:
    made = world(4, roles=BESIDE_KUEUE)
    core = Core(made)
    await core.submit("huge", cpu="6")
    for attempt, delay in enumerate((MINUTE, 2 * MINUTE), start=1):
        made.time += SHORTEST_ATTEMPT
        judge(made, "w1")
        await core.settle()
        evicted, reserved = made.condition("Evicted", "huge"), made.condition("QuotaReserved", "huge")
        assert evicted is not None
        assert reserved is not None
        assert (evicted["reason"], reserved["status"]) == ("AdmissionCheck", "False")
        assert evicted["message"] == f'No worker can ever hold it: {LACK}: w1, Previously: "Pending"'
        status = made.status("huge")
        assert datetime.fromisoformat(status["requeueState"]["requeueAt"]) == made.now() + delay
        (check,) = status["admissionChecks"]
        assert (check["state"], check["retryCount"]) == ("Pending", attempt)
        assert "requeueAfterSeconds" not in check, "Kueue would keep the quota for as long"
        assert made.condition(FITS_NO_WORKER, "huge") is not None
        made.time += delay
        core.requeue("huge")
        core.reserve("huge")
        await core.settle()


@pytest.mark.parametrize("hours", [-1, 0.001, 1, 24], ids=lambda hours: f"{hours} h from now")
async def test_a_later_time_of_another_check_is_never_shortened(hours: float) -> None:
    made = world(4, roles=BESIDE_KUEUE)
    core = Core(made)
    await core.submit("huge", cpu="6")
    asked = (made.now() + timedelta(hours=hours)).replace(microsecond=0)
    stamp = asked.strftime("%Y-%m-%dT%H:%M:%SZ")
    core.apply("huge", lambda status: status.update(requeueState={"requeueAt": stamp, "count": 1}))
    made.time += SHORTEST_ATTEMPT
    judge(made, "w1")
    await core.settle()
    own = made.now() + made.settings.quota.requeue_first
    until = datetime.fromisoformat(made.status("huge")["requeueState"]["requeueAt"])
    assert asked <= until
    assert until == asked if asked > own + timedelta(minutes=1) else until >= own - timedelta(seconds=1)


async def test_nothing_is_remembered_of_a_worker_that_is_gone() -> None:
    made = world(4, 4)
    reader = CeilingReader(made.world)
    for name in ("w1", "w2"):
        await reader.reconcile(name)
    made.store.workers.pop("w1")
    made.time += SOONEST
    await reader.reconcile("w2")
    assert (reader._read_at.keys(), reader._told.keys()) == ({"w2"}, {"w2"})
