"""An admin takes the MultiKueue check out of a ClusterQueue, and perhaps puts it back: what runs stays where it is, and
nothing is ever admitted and nowhere (contract 3.1 E2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.errors import ClusterUnreachable
from multikueue.settings import BESIDE_KUEUE
from tests.controllers.kueue_core import Core
from tests.controllers.table import CHECK, CONFIG, NAMESPACE, Body, Table, table

pytestmark = pytest.mark.anyio

QUEUE, JOB = ObjectKey("", "cq"), ObjectKey(NAMESPACE, "job")
OTHER = "approval"


async def running() -> Table:
    """A job that runs on w1."""
    world = await nominated()
    world.admit("w1")
    await world.settle()
    world.run("w1")
    await world.settle()
    return world


async def nominated() -> Table:
    world = table()
    world.submit()
    await world.settle()
    return world


def checks(world: Table, *names: str) -> None:
    """From now on the queue has these."""
    found = world.manager.find(kinds.CLUSTER_QUEUES, QUEUE)
    assert found
    spec = found["spec"] | {"admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in names]}}
    world.manager.change(kinds.CLUSTER_QUEUES, QUEUE, {"spec": spec})


def local(world: Table) -> Body:
    found = world.manager.find(kinds.JOBS, JOB)
    assert found
    return found


def is_true(world: Table, type_: str) -> bool:
    found = world.condition(type_)
    return found is not None and found["status"] == "True"


def is_lost_on(world: Table, worker: str) -> None:
    world.cut(worker)
    world.time += timedelta(minutes=16)
    world.store.worker(worker).probe_failed(world.time, world.time, world.world.lost_after)
    world.queues.workloads.add(world.key())


def removes(world: Table) -> None:
    checks(world)


def removes_and_puts_back(world: Table) -> None:
    checks(world)
    checks(world, CHECK)


def replaces_it(world: Table) -> None:
    check: dict[str, Any] = {"metadata": {"name": OTHER, "generation": 1}, "spec": {"controllerName": "example.com/x"}}
    world.manager.put(kinds.ADMISSION_CHECKS, check)
    checks(world, OTHER)


def deletes_the_check(world: Table) -> None:
    world.manager.drop(kinds.ADMISSION_CHECKS, ObjectKey("", CHECK))


def deletes_the_config(world: Table) -> None:
    world.manager.drop(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", CONFIG))


def empties_the_config(world: Table) -> None:
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", CONFIG), {"spec": {"clusters": []}})


EDITS = [removes, removes_and_puts_back, replaces_it, deletes_the_check, deletes_the_config, empties_the_config]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the process starts over"])
async def test_what_runs_stays_and_its_result_comes_home(edit: Any, restarted: bool) -> None:
    world = await running()
    before = world.workers["w1"].find(kinds.JOBS, JOB)
    edit(world)
    if restarted:
        world.start()
    await world.settle()
    assert world.workers["w1"].find(kinds.JOBS, JOB) == before
    assert (world.runs_on(), world.copies(), world.status()["clusterName"]) == (["w1"], ["w1"], "w1")
    assert is_true(world, "Admitted")
    world.finish("w1")
    await world.settle()
    assert local(world)["status"]["succeeded"] == 1
    assert is_true(world, "Finished")


async def test_a_check_put_back_later_is_ready_again_with_nothing_started_over() -> None:
    world = await running()
    uid = world.workers["w1"].find(kinds.JOBS, JOB)
    checks(world)
    await world.settle()
    assert world.status().get("admissionChecks", []) == []
    checks(world, CHECK)
    await world.settle()
    assert [(c["name"], c["state"]) for c in world.status()["admissionChecks"]] == [(CHECK, "Ready")]
    assert (world.runs_on(), world.workers["w1"].find(kinds.JOBS, JOB)) == (["w1"], uid)


@pytest.mark.parametrize("lost", [True, False], ids=["its worker is lost", "its worker evicts it"])
async def test_what_loses_its_worker_afterwards_gives_its_quota_back_and_says_why_nobody_runs_it(lost: bool) -> None:
    world = await running()
    checks(world)
    await world.settle()
    is_lost_on(world, "w1") if lost else world.evict("w1")
    await world.settle()
    assert not is_true(world, "Admitted")
    assert not is_true(world, "QuotaReserved")
    assert local(world)["spec"]["suspend"] is True
    assert world.workload()["spec"]["active"] is False
    assert any(reason == "Undispatchable" and "has no MultiKueue check" in text for reason, text in world.said())


async def test_what_no_worker_has_admitted_yet_waits_without_quota_until_the_check_is_back() -> None:
    world = await nominated()
    checks(world)
    await world.settle()
    assert world.copies() == []
    assert not is_true(world, "Admitted")
    assert not is_true(world, "QuotaReserved")
    assert local(world)["spec"]["suspend"] is True
    checks(world, CHECK)
    await world.settle()
    world.admit("w2")
    await world.settle()
    assert world.runs_on() == ["w2"]


@pytest.mark.parametrize("is_answered", [True, False], ids=["", "whose creation gets no answer"])
async def test_a_job_that_is_made_in_that_moment_stays_too(is_answered: bool) -> None:
    """After the request for the job, and before the win is recorded."""
    world = await nominated()

    def removes_at_once(verb: str, plural: str) -> Exception | None:
        if (verb, plural) != ("create", "jobs"):
            return None
        checks(world)
        return None if is_answered else ClusterUnreachable("w1", "no answer")

    world.workers["w1"].lose_answer = removes_at_once
    world.admit("w1")
    await world.settle()

    assert (world.runs_on(), world.copies(), world.status()["clusterName"]) == (["w1"], ["w1"], "w1")
    assert world.workload()["spec"].get("active", True)
    world.finish("w1")
    await world.settle()
    assert local(world)["status"]["succeeded"] == 1
    assert is_true(world, "Finished")


async def test_a_job_submitted_meanwhile_waits_for_the_check_too() -> None:
    world = table()
    checks(world)
    world.submit()
    await world.settle()
    assert not is_true(world, "QuotaReserved")
    checks(world, CHECK)
    await world.settle()
    assert len(world.copies()) == 3


async def beside() -> tuple[Table, Core]:
    world = table(roles=BESIDE_KUEUE)
    core = Core(world)
    await core.submit()
    world.admit("w1")
    await core.settle()
    world.run("w1")
    await core.settle()
    return world, core


async def test_beside_kueue_what_runs_stays_though_kueue_drops_the_check() -> None:
    world, core = await beside()
    checks(world)
    core.drop_checks()
    await core.settle()
    assert (world.runs_on(), world.copies(), world.status()["clusterName"]) == (["w1"], ["w1"], "w1")
    world.finish("w1")
    await core.settle()
    assert core.job()["status"]["succeeded"] == 1
    assert is_true(world, "Finished")


async def test_beside_kueue_what_loses_its_worker_afterwards_is_evicted() -> None:
    world, core = await beside()
    checks(world)
    core.drop_checks()
    await core.settle()
    world.evict("w1")
    await core.settle()
    evicted = world.condition("Evicted")
    assert evicted is not None
    assert (evicted["status"], evicted["reason"]) == ("True", "AdmissionCheck")
