from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.controllers.leader_election.standby import Enqueuer, look_at_all
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.controllers.reconcile.context import WorkQueues
from multikueue.quota.engine import Engine
from multikueue.runtime import WorkQueue
from multikueue.store.store import Store
from tests.builders import NOW, job, workload
from tests.store.known import stored

pytestmark = pytest.mark.anyio


async def test_a_standby_looks_after_its_connections_and_notes_nothing_else() -> None:
    queues = WorkQueues()
    enqueuer = Enqueuer(queues, SchedulerLoop(), is_acting=False)
    enqueuer.add("workloads", ObjectKey("ns", "w"))
    enqueuer.add("jobs", JobKey("Job.batch", "ns", "j"))
    enqueuer.add("cluster_queues", "main")
    enqueuer.add("local_queues", ObjectKey("ns", "q"))
    enqueuer.add("cohorts", "all")
    enqueuer.add("checks", "mk")
    enqueuer.add("flavors", "default")
    enqueuer.add("admission", "")
    assert [len(queue) for queue in queues.all()] == [0] * len(queues.all())

    enqueuer.add("clusters", "w1")
    assert len(queues.clusters) == 1

    enqueuer.is_acting = True
    enqueuer.add("workloads", ObjectKey("ns", "w"))
    assert len(queues.workloads) == 1


async def test_who_takes_over_looks_at_everything_once() -> None:
    store, noted = stored()
    store.worker("w2").workloads.upsert(workload("orphan").origin().build())
    noted.keys.clear()

    look_at_all(store)

    assert sorted(noted.keys) == [
        "check mk",
        "cluster w1",
        "cluster w2",
        "job job",
        "queue cq",
        "queue cq",
        "workload orphan",
        "workload wl",
    ]
    assert noted.admissions


async def test_what_ended_while_nobody_looked_goes_before_what_is_only_looked_at_again() -> None:
    queues = WorkQueues()
    store = Store(Engine(), Enqueuer(queues, SchedulerLoop()), lambda: NOW)
    for name, is_over in (("over", False), ("over-here-too", True), ("runs", False)):
        local = workload(name).owner_job(name).condition("Finished", "True" if is_over else "False")
        copy = workload(name).origin().condition("Finished", "False" if name == "runs" else "True")
        store.jobs.upsert(job(name).build())
        store.workloads.upsert(local.build())
        store.worker("w1").workloads.upsert(copy.build())
    both: tuple[WorkQueue[Any], ...] = (queues.workloads, queues.jobs)
    for queue in both:
        for _ in range(len(queue)):
            queue.done(await queue.get())

    look_at_all(store)

    queues.workloads.add(ObjectKey("default", "news"))
    queues.jobs.add(JobKey("Job.batch", "default", "news"))
    for queue in both:
        taken = [(await queue.get()).name for _ in range(len(queue))]
        assert taken[:2] == ["over", "news"]
        assert sorted(taken[2:]) == ["over-here-too", "runs"]
