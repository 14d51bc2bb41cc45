"""Who removes the finalizer of a Workload that is being deleted: the reconcile of its job, or its own, and never both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.kueue.workload import RESOURCE_IN_USE
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workloads.jobs import Jobs
from multikueue.controllers.workloads.workloads import Workloads
from multikueue.runtime import AGAIN
from tests.controllers.table import NAMESPACE, Body, Table, table

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")
BY_JOB, BY_WORKLOAD = "the job's", "the workload's"
COMPLETE = {"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


def job(patch: Body) -> Callable[[Table], None]:
    return lambda world: world.manager.change(kinds.JOBS, JOB, patch)


def gone(world: Table) -> None:
    world.manager.drop(kinds.JOBS, JOB)


def recreated(world: Table) -> None:
    world.manager.drop(kinds.JOBS, JOB)
    world.submit(cpu="1000")


def never_adopted(world: Table) -> None:
    """A job names the workload, which has no owner: its user made it."""
    world.manager.change(kinds.WORKLOADS, world.key(), {"metadata": {"ownerReferences": None}})
    (left,) = world.manager.all(kinds.WORKLOADS)
    world.manager.change(kinds.JOBS, JOB, {"metadata": {"labels": {PREBUILT: left["metadata"]["name"]}}})


CASES: dict[str, tuple[Callable[[Table], None], list[str]]] = {
    "its job waits": (lambda _: None, [BY_JOB]),
    "pods of its job run": (job({"status": {"active": 1}}), []),
    "its job is over": (job(COMPLETE), [BY_WORKLOAD]),
    "its job goes too": (job({"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}), [BY_WORKLOAD]),
    "its job is gone": (gone, [BY_WORKLOAD]),
    "its job was recreated": (recreated, [BY_WORKLOAD]),
    "a job names it that never owned it": (never_adopted, [BY_WORKLOAD]),
}


@pytest.mark.parametrize(("happens", "who"), CASES.values(), ids=CASES)
async def test_one_reconcile_lets_it_go_at_most(happens: Callable[[Table], None], who: list[str]) -> None:
    assert [each for each in (BY_JOB, BY_WORKLOAD) if await lets_go(each, happens)] == who


async def lets_go(who: str, happens: Callable[[Table], None]) -> bool:
    """Whether that reconcile alone removes the finalizer, after what happens while the workload is being deleted."""
    world = table()
    world.submit(cpu="1000")  # more than there is: it waits
    await world.settle()
    key = world.key()
    assert RESOURCE_IN_USE in world.workload()["metadata"]["finalizers"]
    await world.manager.delete(kinds.WORKLOADS, key)
    happens(world)
    if who == BY_JOB:
        await Jobs(world.world).reconcile(JobKey(kinds.JOBS.name, *JOB))
    else:
        while await Workloads(world.world).reconcile(key) is AGAIN:
            pass
    left = world.manager.find(kinds.WORKLOADS, key)
    return left is None or RESOURCE_IN_USE not in left["metadata"].get("finalizers", [])
