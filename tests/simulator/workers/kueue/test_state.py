"""Who looks after which change: no more than must, and never too few."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import Workload
from multikueue.runtime import WorkQueue
from multikueue_simulator.time import run
from multikueue_simulator.workers.kueue.state import Look, Seen
from tests.builders import NOW, WorkloadBuilder, cluster_queue, flavor, job, local_queue, namespace
from tests.jobs.builders import become, with_status, workload_of

HELD = job("j").queue("lq").request(cpu=1).suspended().build()
PENDING = workload_of(HELD)
ADMITTED = become(PENDING, lambda w: w.reserved("cq").admitted())


class Bench:
    """A cluster with one queue as Kueue sees it; `looks` is who has to look after what was seen last."""

    def __init__(self, *, held_back: bool = False, figures: timedelta | None = None) -> None:
        self.queue: WorkQueue[Look] = WorkQueue()
        self.seen = Seen(self.queue, now=lambda: NOW, is_held_back=lambda _w: held_back, figures=figures)
        self.seen.namespaces.upsert(namespace("default").build())
        self.seen.flavors.upsert(flavor("default").build())
        self.seen.cluster_queues.upsert(cluster_queue("cq").quota("default", cpu=4).build())
        self.seen.local_queues.upsert(local_queue("lq", "cq").build())

    async def looks(self) -> set[str]:
        found: set[str] = set()
        while len(self.queue):
            look = await self.queue.get()
            self.queue.done(look)
            found.add(look.what)
        return found


def newer(item: Any, **meta: Any) -> Any:
    """The object as it is after another write."""
    version = str(int(item.metadata.resource_version or "1") + 100)
    changed = msgspec.structs.replace(item.metadata, resource_version=version, **meta)
    return msgspec.structs.replace(item, metadata=changed)


def played(play: Callable[[Bench], Any], **options: Any) -> set[str]:
    """Who looks after `play`, which gets a bench where nobody has to look, and a job with its admitted workload."""

    async def main() -> set[str]:
        bench = Bench(**options)
        bench.seen.workloads.upsert(ADMITTED)
        bench.seen.jobs.upsert(HELD)
        await bench.looks()
        play(bench)
        return await bench.looks()

    return run(main)


def test_a_new_workload_is_looked_at_and_queued() -> None:
    other = msgspec.structs.replace(PENDING, metadata=msgspec.structs.replace(PENDING.metadata, name="w2", uid="u2"))
    assert played(lambda bench: bench.seen.workloads.upsert(other)) == {"workload", "job", "cycle"}


def test_one_that_is_held_back_is_not_queued() -> None:
    other = msgspec.structs.replace(PENDING, metadata=msgspec.structs.replace(PENDING.metadata, name="w2", uid="u2"))
    assert played(lambda bench: bench.seen.workloads.upsert(other), held_back=True) == {"workload", "job"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda w: w.evicted(), {"workload", "job"}, id="evicted"),
        pytest.param(lambda w: w.check("check"), {"workload"}, id="a check was added"),
    ],
)
def test_a_status_of_others_is_looked_at(
    change: Callable[[WorkloadBuilder], WorkloadBuilder], expected: set[str]
) -> None:
    assert played(lambda bench: bench.seen.workloads.upsert(newer(become(ADMITTED, change)))) == expected


def test_a_status_that_is_being_written_is_news_for_the_job_alone() -> None:
    evicted: Workload = newer(become(ADMITTED, lambda w: w.evicted()))

    def play(bench: Bench) -> None:
        with bench.seen.expecting(ADMITTED.key, evicted.status):
            bench.seen.workloads.upsert(evicted)

    assert played(play) == {"job"}


def test_what_came_with_it_is_news_all_the_same() -> None:
    evicted: Workload = newer(become(ADMITTED, lambda w: w.evicted()), generation=2)

    def play(bench: Bench) -> None:
        with bench.seen.expecting(ADMITTED.key, evicted.status):
            bench.seen.workloads.upsert(evicted)

    assert played(play) == {"workload", "job"}


def test_afterwards_it_would_be_news() -> None:
    evicted: Workload = newer(become(ADMITTED, lambda w: w.evicted()))

    def play(bench: Bench) -> None:
        with bench.seen.expecting(ADMITTED.key, evicted.status):
            pass
        bench.seen.workloads.upsert(evicted)

    assert played(play) == {"workload", "job"}


RUNNING = newer(with_status(HELD, {"active": 1}))
READY = newer(with_status(RUNNING, {"active": 1, "ready": 1}))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([RUNNING], set(), id="a pod runs"),
        pytest.param([RUNNING, READY], set(), id="a pod is ready"),
        pytest.param([RUNNING, newer(with_status(READY, {}))], {"job", "workload"}, id="no pod runs any more"),
        pytest.param([newer(HELD, generation=2)], {"job", "workload"}, id="its spec changed"),
        pytest.param(
            [newer(with_status(HELD, {"conditions": [{"type": "Complete", "status": "True"}]}))],
            {"job", "workload"},
            id="it is complete",
        ),
    ],
)
def test_a_job_is_looked_at_when_it_matters(states: list[Job], expected: set[str]) -> None:
    def play(bench: Bench) -> None:
        for state in states:
            bench.seen.jobs.upsert(state)

    assert played(play) == expected


def test_a_job_that_is_gone_is_looked_at() -> None:
    assert played(lambda bench: bench.seen.jobs.remove(HELD)) == {"job", "workload"}


def test_the_status_of_a_queue_is_no_news() -> None:
    queue = newer(cluster_queue("cq").quota("default", cpu=4).build())
    status = msgspec.structs.replace(queue.status, pending_workloads=3)
    changed = msgspec.structs.replace(queue, status=status)
    assert played(lambda bench: bench.seen.cluster_queues.upsert(changed)) == set()


def test_a_changed_queue_is_news_for_all_in_it() -> None:
    changed = newer(cluster_queue("cq").quota("default", cpu=4).build(), generation=7)
    assert played(lambda bench: bench.seen.cluster_queues.upsert(changed)) >= {
        "cluster_queue",
        "local_queue",
        "workload",
    }


def test_a_job_is_known_by_its_uid_and_not_by_its_name() -> None:
    async def main() -> None:
        bench = Bench()
        bench.seen.jobs.upsert(HELD)
        assert bench.seen.owner(ADMITTED) == HELD
        bench.seen.jobs.upsert(newer(HELD, uid="another"))
        assert bench.seen.owner(ADMITTED) is None

    run(main)
