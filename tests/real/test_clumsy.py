"""Clumsy admins, and workers that say odd things: what runs goes on, and what waits is taken by who is sound."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from testbed.client import ApiError, eventually
from testbed.objects import ADMISSION_CHECK, CLUSTER_QUEUE, MULTIKUEUE_CONTROLLER, WORKLOAD, job
from tests.real.harness import Team, starts

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("calm"),
]


async def give_checks(crew: Team, *names: str) -> None:
    strategy = {"admissionChecks": [{"name": name} for name in names]} if names else None
    await crew.manager.patch(CLUSTER_QUEUE, crew.namespace, {"spec": {"admissionChecksStrategy": strategy}})


async def listed(crew: Team, *names: str) -> bool:
    checks = (await crew.workload())["status"].get("admissionChecks") or []
    assert [check["name"] for check in checks] == list(names)
    return True


@pytest.mark.parametrize("put_back", [False, True], ids=["", "and put back"])
async def test_what_runs_stays_when_the_check_is_taken_out_of_its_queue(crew: Team, put_back: bool) -> None:
    async with starts(crew) as record:
        await crew.submit()
        worker = await record.first()
        await eventually(lambda: crew.is_true("Admitted"))
        uid = (await crew.remote_jobs())[worker]["metadata"]["uid"]
        await give_checks(crew)
        await eventually(lambda: listed(crew))
        if put_back:
            await give_checks(crew, crew.namespace)
            await eventually(lambda: listed(crew, crew.namespace))
        await anyio.sleep(2)  # whatever would be done to it now
        assert {w: body["metadata"]["uid"] for w, body in (await crew.remote_jobs()).items()} == {worker: uid}
        await crew.complete(worker)
        assert (await crew.finished())["status"]["succeeded"] == 1
        assert not (await record.settled()).twice()


async def test_what_waits_for_a_worker_gives_its_quota_back_until_the_check_is_there_again(crew: Team) -> None:
    await crew.stop()
    await crew.submit()
    await crew.waiting()
    await give_checks(crew)
    await eventually(lambda: without_quota(crew))
    await crew.clean()
    assert (await crew.job())["spec"]["suspend"] is True
    await give_checks(crew, crew.namespace)
    await crew.go()
    worker = await crew.winner(timeout=30)
    await eventually(lambda: crew.is_true("Admitted"))
    await crew.complete(worker)
    await crew.finished()


async def without_quota(crew: Team) -> bool:
    workload = await crew.workload()
    assert workload["spec"].get("active") is False
    assert not await crew.is_true("QuotaReserved")
    assert not await crew.is_true("Admitted")
    return True


# What a worker says of a copy.

INADMISSIBLE = {"type": "QuotaReserved", "status": "False", "reason": "Inadmissible"}
ODD = {
    "a message as long as the API takes it": {"message": "x" * 32768, "lastTransitionTime": "2026-01-01T00:00:00Z"},
    "the end of the calendar": {"message": "x", "lastTransitionTime": "9999-12-31T23:59:59Z"},
    "its beginning": {"message": "x", "lastTransitionTime": "0001-01-01T00:00:00Z"},
}


@asynccontextmanager
async def saying(crew: Team, worker: str, condition: dict[str, str]) -> AsyncIterator[None]:
    """Says it of its copy, again and again: its Kueue says something else."""
    name = (await crew.workload())["metadata"]["name"]

    async def say() -> None:
        while True:
            with suppress(ApiError):
                await crew.clients[worker].patch_status(WORKLOAD, name, {"conditions": [condition]}, crew.namespace)
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say)
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("words", ODD.values(), ids=ODD.keys())
async def test_whatever_a_worker_says_of_its_copy_the_next_one_gets_its_turn(crew: Team, words: dict[str, str]) -> None:
    options = {
        "multikueue.dev/strategy": "incremental",
        "multikueue.dev/strategy-options": json.dumps({"step": 1, "round_length": "6s"}),
    }
    await crew.manager.patch(ADMISSION_CHECK, crew.namespace, {"metadata": {"annotations": options}})
    await crew.stop("worker1", "worker3")
    await crew.submit()
    await crew.waiting(1)
    assert sorted(await crew.copies()) == ["worker1"]
    async with saying(crew, "worker1", INADMISSIBLE | words):
        worker = await crew.winner(timeout=20)
    assert worker == "worker2"
    await crew.complete(worker)
    await crew.finished()


async def test_a_job_with_a_port_a_secret_an_alias_and_a_variable_twice_runs(crew: Team) -> None:
    """The API server takes these in a Job, and refuses them in a Workload; Kueue there compares containers."""
    body = job("job", crew.namespace, managed_by=MULTIKUEUE_CONTROLLER)
    spec = body["spec"]["template"]["spec"]
    spec["containers"][0] |= {
        "ports": [{"containerPort": 8080, "name": name} for name in ("first", "last")],
        "env": [{"name": "A", "value": value} for value in ("1", "2")],
    }
    spec["imagePullSecrets"] = [{"name": "s"}, {"name": "s"}]
    spec["hostAliases"] = [{"ip": "10.0.0.1", "hostnames": [name]} for name in ("a", "b")]
    async with starts(crew) as record:
        await crew.manager.create(body)
        worker = await record.first()
        await eventually(lambda: crew.is_true("Admitted"))
        await anyio.sleep(2)  # the worker's Kueue would call the copy out of sync
        pods = (await crew.remote_jobs())[worker]["spec"]["template"]["spec"]
        assert [alias["hostnames"] for alias in pods["hostAliases"]] == [["a"], ["b"]]
        assert [port["name"] for port in pods["containers"][0]["ports"]] == ["last"]
        await crew.complete(worker)
        assert (await crew.finished())["status"]["succeeded"] == 1
        assert not (await record.settled()).twice()
