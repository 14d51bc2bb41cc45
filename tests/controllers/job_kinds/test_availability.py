"""Kinds of jobs whose CustomResourceDefinition is not there, comes, or may not be seen: on the manager and on a worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from multikueue.api.job import AnyJob, JobKey
from multikueue.api.kinds import JOBS
from multikueue.api.meta import OwnerReference
from multikueue.api.workload import Workload
from multikueue.controllers.job_kinds.availability import JobKinds
from multikueue.controllers.reconcile.context import World
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, Adapters
from multikueue.quota.engine import Engine
from multikueue.store.queues import Nowhere
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.testing import NOW, job, workload
from tests.jobs.gadgets import GADGETS, WITH_GADGETS, gadget
from tests.kube.server import Answer, client_of, lists, refuses, streams

pytestmark = pytest.mark.anyio

GADGET = JobKey("Gadget.example.com", "default", "g")
BODY = {"metadata": {"name": "g", "namespace": "default", "uid": "u", "resourceVersion": "5"}}


def store(adapters: Adapters = WITH_GADGETS) -> Store:
    return Store(
        Engine(),
        Nowhere(),
        lambda: NOW,
        adapters=adapters,
    )


def owned(name: str, owner: AnyJob) -> Workload:
    """The Workload of that name that the job controls."""
    kind, bare = WITH_GADGETS.of(owner).kind, workload(name).build()
    meta = msgspec.structs.replace(
        bare.metadata,
        owner_references=(
            OwnerReference(
                api_version=kind.api_version,
                kind=kind.kind,
                name=owner.metadata.name,
                uid=owner.metadata.uid,
                controller=True,
            ),
        ),
    )
    return msgspec.structs.replace(bare, metadata=meta)


class Cluster:
    """Has no gadgets, and says so with `refusal`, until `there`."""

    def __init__(self, refusal: Answer) -> None:
        self.refusal, self.there, self.asked = refusal, False, 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        if not self.there:
            return await self.refusal(request)
        answer = streams(then="silence") if request.query.get("watch") else lists(BODY)
        return await answer(request)


async def until(condition: Any) -> None:
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in a server, not in an event of ours
            await anyio.sleep(0.002)


async def at_once(_seconds: float) -> None:
    await anyio.sleep(0.001)


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (refuses(404, "NotFound"), "the cluster has no kind Gadget (example.com/v1)"),
        (refuses(403, "Forbidden", "you may not"), "you may not"),
    ],
    ids=["it is not installed", "we may not see it"],
)
async def test_a_kind_that_is_not_there_is_off_with_one_line_and_on_once_it_is(refusal: Answer, why: str) -> None:
    known, cluster = store(), Cluster(refusal)
    with capture_logs() as logs:
        async with client_of(cluster) as (client, _), anyio.create_task_group() as tasks:
            kinds = JobKinds(cast("World", SimpleNamespace(store=known, manager=client)), sleep=at_once)
            tasks.start_soon(kinds.run)
            with anyio.fail_after(5):
                await kinds.known()
            await until(lambda: cluster.asked > 5)
            assert known.jobs.kinds == (JOBS,)
            (off,) = [entry for entry in logs if entry["event"] == "jobs.kind_off"]
            assert why in off["why"]
            cluster.there = True
            await until(lambda: known.jobs.get(GADGET) is not None)
            tasks.cancel_scope.cancel()
    assert [entry["kind"] for entry in logs if entry["event"] == "jobs.kind_on"] == ["Gadget.example.com"]


class Trainer:
    """Has TrainJobs, and runtimes once they are `there`."""

    def __init__(self) -> None:
        self.there, self.asked = False, [""]

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        self.asked.append(plural)
        if plural != "trainjobs" and not self.there:
            return await refuses(404, "NotFound")(request)
        runtime = {"metadata": {"name": "torch", "uid": "r", "resourceVersion": "4"}, "spec": {}}
        listed = lists(runtime) if plural == "clustertrainingruntimes" else lists()
        answer = streams(then="silence") if request.query.get("watch") else listed
        return await answer(request)


@pytest.mark.parametrize("makes_workloads", [True, False], ids=["who makes Workloads", "who makes none"])
async def test_jobs_that_name_a_runtime_are_on_once_the_runtimes_are(makes_workloads: bool) -> None:
    adapter = FRAMEWORKS["trainer.kubeflow.org/trainjob"]
    known, cluster = store(Adapters((FRAMEWORKS["batch/job"], adapter))), Trainer()
    async with client_of(cluster) as (client, _), anyio.create_task_group() as tasks:
        world = cast("World", SimpleNamespace(store=known, manager=client))
        kinds = JobKinds(world, makes_workloads=makes_workloads, sleep=at_once)
        tasks.start_soon(kinds.run)
        with anyio.fail_after(5):
            await kinds.known()
        await until(lambda: len(cluster.asked) > 3)
        assert (adapter.kind in known.jobs.kinds) is not makes_workloads
        cluster.there = True
        await until(lambda: adapter.kind in known.jobs.kinds)
        assert adapter.runtimes is not None
        seen = {
            name for kind in adapter.runtimes.kinds for name in (each.metadata.name for each in known.runtimes.of(kind))
        }
        assert seen == ({"torch"} if makes_workloads else set())
        tasks.cancel_scope.cancel()


async def test_a_manager_that_does_not_answer_says_nothing_about_its_kinds() -> None:
    known, cluster = store(), Cluster(refuses(500, "InternalError"))
    async with client_of(cluster, call_timeout=0.05) as (client, _), anyio.create_task_group() as tasks:
        kinds = JobKinds(cast("World", SimpleNamespace(store=known, manager=client)), sleep=at_once)
        tasks.start_soon(kinds.run)
        await until(lambda: cluster.asked > 5)
        with anyio.move_on_after(0.05) as waited:
            await kinds.known()
        assert waited.cancelled_caught
        cluster.there = True
        with anyio.fail_after(5):
            await kinds.known()
        assert known.jobs.get(GADGET) is not None
        tasks.cancel_scope.cancel()


def test_a_kind_is_opened_on_the_workers_that_are_there_and_on_those_that_come() -> None:
    known = store()
    early = known.worker("early")
    known.open_jobs(GADGETS)
    assert early.jobs.kinds == known.worker("late").jobs.kinds == (JOBS, GADGETS)


def test_a_worker_without_the_kind_is_not_usable_for_its_workloads_and_says_why() -> None:
    known = store()
    known.open_jobs(GADGETS)
    known.worker("w1").lacks(GADGETS, "the server has no kind Gadget (example.com/v1)", NOW)
    known.worker("w1").connected()
    shown = Views(known).shown("w1", GADGETS.name, "default")
    assert (shown.usable, shown.why) == (False, "the server has no kind Gadget (example.com/v1)")
    assert Views(known).shown("w1", JOBS.name, "default").usable
    known.worker("w1").lacks(GADGETS, "", NOW)
    assert Views(known).shown("w1", GADGETS.name, "default").usable


def test_a_job_and_its_namesake_of_another_kind_are_each_the_owner_of_their_own_workload() -> None:
    known = store()
    known.open_jobs(GADGETS)
    known.jobs.upsert(gadget("same"))
    known.jobs.upsert(job("same").build())
    mine = owned("a", gadget("same"))
    batch = owned("b", job("same").build())
    assert type(known.local_job(mine)).__name__ == "Gadget"
    assert type(known.local_job(batch)).__name__ == "Job"
