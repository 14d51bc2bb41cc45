"""Workloads' names that somebody else has: no job waits for ever because of a name."""

from __future__ import annotations

from hashlib import sha1
from itertools import count

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey, ObjectMeta
from multikueue.jobs.framework.workloads import free_name, workload_name
from tests.controllers.table import NAMESPACE, QUEUE, Table, job_body, table

pytestmark = pytest.mark.anyio

LONG = "a-training-run-of-many-whose-names-only-differ-at-the-end"


def colliding(uid: str) -> str:
    """Another UID of a job by the long name for which its Workload would have the same name."""

    def digits(other: str) -> str:
        return sha1(f"Job\nbatch\n{LONG}-2\n{other}".encode(), usedforsecurity=False).hexdigest()[:5]

    wanted = sha1(f"Job\nbatch\n{LONG}-1\n{uid}".encode(), usedforsecurity=False).hexdigest()[:5]
    return next(each for each in map(str, count()) if digits(each) == wanted)


def submit(world: Table, name: str, uid: str) -> None:
    body = job_body(name)
    world.manager.put(kinds.JOBS, body | {"metadata": body["metadata"] | {"uid": uid}})


def squat(world: Table, name: str) -> None:
    """Somebody makes a Workload by hand under that name."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1000"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": QUEUE, "podSets": [pod_set]}
    world.manager.put(kinds.WORKLOADS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


def owned(world: Table, job: str) -> list[str]:
    """The names of the Workloads that a job owns."""
    owners = [
        (w["metadata"]["name"], w["metadata"].get("ownerReferences", [])) for w in world.manager.all(kinds.WORKLOADS)
    ]
    return [name for name, refs in owners if any(ref["name"] == job for ref in refs)]


async def test_a_job_whose_name_gives_that_of_anothers_workload_is_dispatched_like_it() -> None:
    world = table()
    submit(world, f"{LONG}-1", "1")
    submit(world, f"{LONG}-2", colliding("1"))

    await world.settle()

    (first,), (second,) = owned(world, f"{LONG}-1"), owned(world, f"{LONG}-2")
    assert first != second
    assert len(second) <= 63
    assert len(world.copies(f"{LONG}-1")) == len(world.copies(f"{LONG}-2")) == 3
    assert ("WorkloadNameTaken", f"the Workload {first} is not the job's, which gets {second}") in world.said()
    assert not world.errors


async def test_after_a_restart_the_job_still_has_that_workload_and_no_other() -> None:
    world = table()
    submit(world, f"{LONG}-1", "1")
    submit(world, f"{LONG}-2", colliding("1"))
    await world.settle()
    before = owned(world, f"{LONG}-2")
    world.start()
    await world.settle()
    assert owned(world, f"{LONG}-2") == before


@pytest.mark.parametrize("seen", [True, False], ids=["seen before", "told by the refusal"])
async def test_who_takes_the_names_of_a_job_in_advance_does_not_keep_it_waiting(seen: bool) -> None:
    world = table()
    wanted = workload_name(kinds.JOBS, ObjectMeta(name="job", uid="1"))
    names = [wanted]
    while len(names) < 5:
        names.append(free_name(wanted, "1", names.__contains__))
    submit(world, "job", "1")
    if seen:
        for name in names:
            squat(world, name)
    else:
        with world.manager.unheard():
            for name in names:
                squat(world, name)

    await world.settle()

    (found,) = owned(world, "job")
    assert found not in names
    assert len(world.copies("job")) == 3
    assert not world.errors


async def test_a_taken_name_that_becomes_free_moves_nobody() -> None:
    world = table()
    wanted = workload_name(kinds.JOBS, ObjectMeta(name="job", uid="1"))
    squat(world, wanted)
    submit(world, "job", "1")
    await world.settle()
    before = owned(world, "job")
    world.manager.drop(kinds.WORKLOADS, ObjectKey(NAMESPACE, wanted))
    await world.settle()
    assert owned(world, "job") == before
