"""Kinds of jobs whose CustomResourceDefinition is not there, comes, or may not be seen: on the manager and on a worker."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from fakekube.schemas import notation
from fakekube.schemas.notation import Version, defined, record
from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import OwnerReference
from multikueue.controllers.job_kinds.availability import JobKinds
from multikueue.errors import Forbidden, MultiKueueError, ServerError
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, Adapters
from multikueue.quota.engine import Engine
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.store.views import Views
from tests.builders import NOW, job, workload
from tests.cluster import Cluster
from tests.controllers.table import table
from tests.jobs.gadgets import GADGETS, WITH_GADGETS, gadget

pytestmark = pytest.mark.anyio

GADGET = JobKey("Gadget.example.com", "default", "g")
BODY = {"metadata": {"name": "g", "namespace": "default", "uid": "u"}}
RUNTIME = {"metadata": {"name": "torch", "uid": "r"}, "spec": {}}


def definition(kind: Kind[Any]) -> dict[str, Any]:
    """A CustomResourceDefinition with room for anything."""
    version = Version(name=kind.version, storage=True, schema=record(spec=record()))
    return defined(
        notation.Kind(
            group=kind.group, kind=kind.kind, plural=kind.plural, namespaced=kind.namespaced, versions=(version,)
        )
    )


GADGETS_DEFINED = definition(GADGETS)


def store(adapters: Adapters = WITH_GADGETS) -> Store:
    return Store(
        Engine(),
        NoQueues(),
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


def manager(refusal: MultiKueueError | None = None) -> Cluster:
    """The manager cluster, which has no gadgets; `refusal` is all it says."""
    cluster = Cluster("manager", lambda: NOW)
    cluster.fault = lambda _verb, _plural: refusal
    return cluster


def install(cluster: Cluster) -> None:
    """It has gadgets now, and says what there is."""
    cluster.server.install([GADGETS_DEFINED])
    cluster.put(GADGETS, BODY)
    cluster.fault = lambda _verb, _plural: None


def job_kinds(known: Store, cluster: Cluster, **how: Any) -> JobKinds:
    return JobKinds(replace(table().world, store=known, manager=cluster), sleep=at_once, **how)


async def until(condition: Any) -> None:
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in a server, not in an event of ours
            await anyio.sleep(0.002)


async def at_once(_seconds: float) -> None:
    await anyio.sleep(0.001)


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (None, "the cluster has no kind Gadget (example.com/v1)"),
        (Forbidden(403, "Forbidden", "you may not"), "you may not"),
    ],
    ids=["it is not installed", "we may not see it"],
)
async def test_a_kind_that_is_not_there_is_off_with_one_line_and_on_once_it_is(
    refusal: MultiKueueError | None, why: str
) -> None:
    known, cluster = store(), manager(refusal)
    with capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            kinds = job_kinds(known, cluster)
            tasks.start_soon(kinds.run)
            with anyio.fail_after(5):
                await kinds.known()
            await until(lambda: len(cluster.calls) > 5)
            assert known.jobs.kinds == (JOBS,)
            (off,) = [entry for entry in logs if entry["event"] == "jobs.kind_off"]
            assert why in off["why"]
            install(cluster)
            await until(lambda: known.jobs.get(GADGET) is not None)
            tasks.cancel_scope.cancel()
    assert [entry["kind"] for entry in logs if entry["event"] == "jobs.kind_on"] == ["Gadget.example.com"]


@pytest.mark.parametrize("may_make_workloads", [True, False], ids=["who makes Workloads", "who makes none"])
async def test_jobs_that_name_a_runtime_are_on_once_the_runtimes_are(may_make_workloads: bool) -> None:
    adapter = FRAMEWORKS["trainer.kubeflow.org/trainjob"]
    assert adapter.runtimes is not None
    known, cluster = store(Adapters((FRAMEWORKS["batch/job"], adapter))), manager()
    cluster.server.install([definition(adapter.kind)])
    async with anyio.create_task_group() as tasks:
        kinds = job_kinds(known, cluster, may_make_workloads=may_make_workloads)
        tasks.start_soon(kinds.run)
        with anyio.fail_after(5):
            await kinds.known()
        await until(lambda: len(cluster.calls) > 1)
        assert (adapter.kind in known.jobs.kinds) is not may_make_workloads
        cluster.server.install(definition(kind) for kind in adapter.runtimes.kinds)
        cluster.put(adapter.runtimes.kinds[0], RUNTIME)
        await until(lambda: adapter.kind in known.jobs.kinds)
        seen = {
            name for kind in adapter.runtimes.kinds for name in (each.metadata.name for each in known.runtimes.of(kind))
        }
        assert seen == ({"torch"} if may_make_workloads else set())
        tasks.cancel_scope.cancel()


async def test_a_manager_that_does_not_answer_says_nothing_about_its_kinds() -> None:
    known, cluster = store(), manager(ServerError(500, "InternalError", "no"))
    async with anyio.create_task_group() as tasks:
        kinds = job_kinds(known, cluster)
        tasks.start_soon(kinds.run)
        await until(lambda: len(cluster.calls) > 5)
        with anyio.move_on_after(0.05) as waited:
            await kinds.known()
        assert waited.cancelled_caught
        install(cluster)
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
    known.worker("w1").record_watch(GADGETS, "the server has no kind Gadget (example.com/v1)", NOW)
    known.worker("w1").connected()
    shown = Views(known).shown("w1", GADGETS.name, "default")
    assert (shown.usable, shown.why) == (False, "the server has no kind Gadget (example.com/v1)")
    assert Views(known).shown("w1", JOBS.name, "default").usable
    known.worker("w1").record_watch(GADGETS, "", NOW)
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
