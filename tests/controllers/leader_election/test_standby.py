from __future__ import annotations

import pytest

from multikueue.api.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.controllers.leader_election.standby import Touch, look_at_all
from multikueue.controllers.quota.admission import Admission
from multikueue.controllers.reconcile.context import Queues
from multikueue.testing import workload
from tests.store.known import stored

pytestmark = pytest.mark.anyio


async def test_a_standby_looks_after_its_connections_and_notes_nothing_else() -> None:
    queues = Queues()
    touch = Touch(queues, Admission(), acting=False)
    touch.add("workloads", ObjectKey("ns", "w"))
    touch.add("jobs", JobKey("Job.batch", "ns", "j"))
    touch.add("cluster_queues", "main")
    touch.add("local_queues", ObjectKey("ns", "q"))
    touch.add("cohorts", "all")
    touch.add("checks", "mk")
    touch.add("flavors", "default")
    touch.add("admission", "")
    assert [len(queue) for queue in queues.all()] == [0] * len(queues.all())

    touch.add("clusters", "w1")
    assert len(queues.clusters) == 1

    touch.acting = True
    touch.add("workloads", ObjectKey("ns", "w"))
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
