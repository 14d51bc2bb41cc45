from __future__ import annotations

import random
from datetime import timedelta

import anyio

from multikueue.api import kinds
from multikueue.api.jobs.job import Job
from multikueue.api.kubernetes.builtins import Namespace
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from multikueue.store.caches.cache import Cache
from multikueue_simulator.workers.watching import reflect, retries
from multikueue_simulator.world.transport import over
from tests.simulator.bench import Bench, on_bench


def test_retries_are_drawn_from_the_luck_they_are_given() -> None:
    one, same, other = (retries(random.Random(seed)) for seed in (1, 1, 2))
    waits = [backoff.delay(1) for backoff in (one, same, other)]
    assert waits[0] == waits[1] != waits[2]
    assert timedelta(milliseconds=100) <= waits[0] <= timedelta(milliseconds=200)


@on_bench
async def test_caches_are_full_at_once_and_follow_then(worker: Bench) -> None:
    worker.submit("first")
    jobs: Cache[Job] = Cache()
    namespaces: Cache[Namespace] = Cache()
    transport = over(worker.network.line("watcher"))
    async with (
        Client.connect(Credentials(server="http://worker"), cluster="worker", transport=transport) as client,
        anyio.create_task_group() as tasks,
    ):
        await reflect(tasks, client, [(kinds.JOBS, jobs), (kinds.NAMESPACES, namespaces)], rng=random.Random(1))
        assert [job.metadata.name for job in jobs] == ["first"]
        assert "default" in {namespace.metadata.name for namespace in namespaces}
        worker.submit("second")
        await anyio.sleep(1)
        assert [job.metadata.name for job in jobs] == ["first", "second"]
        tasks.cancel_scope.cancel()
    worker.submit("third")
    await anyio.sleep(1)
    assert len(jobs) == 2
