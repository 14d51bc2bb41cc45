"""The release of Kueue on a worker: read once a strategy wants it, and what follows from it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import anyio
import pytest

from multikueue.controllers.workers.connection import releases
from multikueue.controllers.workers.connection.releases import ReleaseReads
from multikueue.errors import ClusterUnreachable
from multikueue.store.caches.on_demand import OnDemand
from multikueue.store.workers.worker import WorkerView
from tests.cli.cluster import Cluster, Fake
from tests.controllers.table import table
from tests.kube.test_definitions import PLAIN, documents

pytestmark = pytest.mark.anyio

DEPLOYMENT = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
CAREFUL = {"name": "composed", "options": {"filters": ["versions"], "scorers": ["order"], "patience": None}}


def runs(image: str) -> dict[str, dict[str, Any]]:
    return {DEPLOYMENT: {"spec": {"template": {"spec": {"containers": [{"image": "sidecar:v1"}, {"image": image}]}}}}}


async def until(worker: WorkerView, kueue: str) -> None:
    with anyio.fail_after(5):
        while worker.kueue != kueue:  # noqa: ASYNC110  # what is waited for is another task's call
            await anyio.sleep(0.002)


async def test_nothing_is_read_before_a_strategy_wants_it() -> None:
    worker, wanted = WorkerView("w1"), OnDemand()
    cluster = Cluster("w1", documents=runs("registry.k8s.io/kueue/kueue:v0.20.3"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ReleaseReads(wanted, worker).run, Fake(cluster))
        await anyio.wait_all_tasks_blocked()
        assert cluster.requests == []
        wanted.want()
        await until(worker, "0.20.3")
        tasks.cancel_scope.cancel()


async def test_a_worker_that_does_not_show_its_deployment_tells_by_its_definitions() -> None:
    worker, wanted = WorkerView("w1"), OnDemand()
    wanted.want()
    async with anyio.create_task_group() as tasks:
        cluster = Cluster("w1", documents=documents({*PLAIN, "preemptionGates"}, 10))
        tasks.start_soon(ReleaseReads(wanted, worker).run, Fake(cluster))
        await until(worker, "0.18")
        tasks.cancel_scope.cancel()


async def test_a_call_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "RETRY", timedelta(milliseconds=5))
    answers: list[bytes | ClusterUnreachable] = [
        ClusterUnreachable("w1", "gone"),
        json.dumps(runs("kueue:v0.19.2")[DEPLOYMENT]).encode(),
    ]

    class Flaky(Fake):
        async def request(self, *_words: object, **_more: object) -> bytes:
            answer = answers.pop(0)
            if isinstance(answer, ClusterUnreachable):
                raise answer
            return answer

    worker, wanted = WorkerView("w1"), OnDemand()
    wanted.want()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ReleaseReads(wanted, worker).run, Flaky(Cluster("w1")))
        await until(worker, "0.19.2")
        tasks.cancel_scope.cancel()


async def test_a_copy_leaves_a_worker_whose_release_turns_out_to_be_refused() -> None:
    made = table(workers=2, strategy=CAREFUL)
    made.submit("job-a")
    await made.settle()
    assert made.store.releases.is_wanted
    assert made.copies("job-a") == ["w1"]
    made.store.worker("w1").runs("0.20.3")
    await made.settle()
    assert made.copies("job-a") == ["w2"]
    assert (
        "refused: w1 (Kueue 0.20.3 is excluded)"
        in (made.condition("multikueue.dev/Nominated", "job-a") or {})["message"]
    )
