from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.controllers.admission import Admission
from multikueue.controllers.standby import Touch, look_at_all
from multikueue.controllers.world import Queues
from tests.controllers.table import CHECK, NAMESPACE, QUEUE, Table

pytestmark = pytest.mark.anyio


@dataclass
class Notes:
    """What is to be looked at."""

    taken: set[tuple[str, Any]] = field(default_factory=set)

    def workload(self, key: ObjectKey) -> None:
        self.taken.add(("workload", str(key)))

    def job(self, key: JobKey) -> None:
        self.taken.add(("job", str(key)))

    def queue(self, cluster_queue: str, local_queue: ObjectKey | None) -> None:
        self.taken.add(("queue", (cluster_queue, str(local_queue))))

    def cohort(self, name: str) -> None:
        self.taken.add(("cohort", name))

    def check(self, name: str) -> None:
        self.taken.add(("check", name))

    def flavor(self, name: str) -> None:
        self.taken.add(("flavor", name))

    def cluster(self, name: str) -> None:
        self.taken.add(("cluster", name))

    def admission(self) -> None:
        self.taken.add(("admission", None))


async def test_a_standby_looks_after_its_connections_and_notes_nothing_else() -> None:
    queues = Queues()
    touch = Touch(queues, Admission(), acting=False)
    touch.workload(ObjectKey("ns", "w"))
    touch.job(JobKey("Job.batch", "ns", "j"))
    touch.queue("main", ObjectKey("ns", "q"))
    touch.cohort("all")
    touch.check("mk")
    touch.flavor("default")
    touch.admission()
    assert [len(queue) for queue in queues.all()] == [0] * len(queues.all())

    touch.cluster("w1")
    assert len(queues.clusters) == 1

    touch.acting = True
    touch.workload(ObjectKey("ns", "w"))
    assert len(queues.workloads) == 1


async def test_who_takes_over_looks_at_everything_once() -> None:
    table = Table(workers=2)
    local = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"namespace": NAMESPACE, "name": "w"},
    }
    table.manager.put(kinds.WORKLOADS, local | {"spec": {"queueName": QUEUE, "podSets": []}})
    left = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    orphan = local | {"metadata": {"namespace": NAMESPACE, "name": "orphan", "labels": left}}
    table.workers["w2"].put(kinds.WORKLOADS, orphan | {"spec": {"queueName": QUEUE, "podSets": []}})
    notes = Notes()

    look_at_all(table.store, notes)

    assert notes.taken >= {
        ("workload", f"{NAMESPACE}/w"),
        ("workload", f"{NAMESPACE}/orphan"),
        ("check", CHECK),
        ("cluster", "w1"),
        ("cluster", "w2"),
        ("admission", None),
    }
    assert any(kind == "queue" and key[1] != "None" for kind, key in notes.taken)
    assert any(kind == "queue" and key[1] == "None" for kind, key in notes.taken)
