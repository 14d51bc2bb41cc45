"""Jobs without nodes: a substitute for the job controller, the kubelets and the nodes of one cluster.

It uses only the Kubernetes API. Its decisions are in `runs`; here it watches jobs, writes their statuses when they are
due, and deletes finished jobs after their time to live.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import anyio
from anyio.abc import TaskStatus

from multikueue.api.jobs.job import Job
from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey
from multikueue.errors import Conflict, NotFound
from multikueue.jobs.trees.templates import merge_patch
from multikueue.kube.cluster_client import WatchingClient
from multikueue.runtime import DONE, Result, WorkQueue, run_controller
from multikueue.store.caches.cache import Cache
from multikueue_simulator.workers.jobs.pods import PodObjects
from multikueue_simulator.workers.jobs.runs import NO_PODS, Life, Pods, Status, Sync, status_of, sync, vanishes_at
from multikueue_simulator.workers.watching import reflect, retries

__all__ = ["FAIL_ANNOTATION", "RUN_SECONDS_ANNOTATION", "JobRunner", "Lives", "annotated", "drawn"]

RUN_SECONDS_ANNOTATION = "sandbox.multikueue.dev/run-seconds"
"""On a Job: the duration of each of its pods in seconds, as a decimal number."""

FAIL_ANNOTATION = "sandbox.multikueue.dev/fail"
"""On a Job: the number of its pods that fail before one succeeds; `true`: all."""

_ALL = 2**31

Lives = Callable[[Job], Life]
"""The life of a job's pods. Each call for the same job must return the same."""


def annotated(lives: Lives | Life = Life()) -> Lives:  # noqa: B008  # a frozen value
    """The life in a job's annotations, with `lives` for missing or invalid ones."""

    def life(job: Job) -> Life:
        told = lives if isinstance(lives, Life) else lives(job)
        annotations = job.metadata.annotations
        seconds, failures = annotations.get(RUN_SECONDS_ANNOTATION), annotations.get(FAIL_ANNOTATION)
        if seconds is not None and _is_number(seconds):
            told = replace(told, lasts=timedelta(seconds=float(seconds)))
        if failures is not None and (failures == "true" or failures.isdecimal()):
            told = replace(told, failures=_ALL if failures == "true" else int(failures))
        return told

    return life


def drawn(seed: int, *, shortest: timedelta, longest: timedelta, failing: float = 0.0) -> Lives:
    """Durations uniformly from `shortest` to `longest`; a share `failing` (0 to 1) of the jobs fails for good."""

    def life(job: Job) -> Life:
        luck = random.Random(f"{seed}/{job.metadata.uid}")  # noqa: S311  # not a secret
        lasts = shortest + (longest - shortest) * luck.random()
        return Life(lasts=lasts, failures=_ALL if luck.random() < failing else 0)

    return life


def _is_number(text: str) -> bool:
    return len(text) < 20 and text.replace(".", "", 1).isdecimal()


@dataclass(frozen=True, slots=True)
class _Nodes:
    """A job's pods on the nodes."""

    job: Job
    pods: Pods


class JobRunner:
    """Runs the jobs of a cluster during `run`. Owner of the pods, which exist only in its memory.

    `lives` decides how long pods run, and may be replaced at any time. With `pods` each pod also appears as a Pod
    object, for people. `rng` spreads retries.
    """

    def __init__(
        self,
        client: WatchingClient,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        lives: Lives | None = None,
        pods: bool = False,
        workers: int = 4,
    ) -> None:
        self.lives: Lives = lives or annotated()
        self._client, self._now, self._rng, self._workers = client, now, rng, workers
        self._jobs: Cache[Job] = Cache(self._changed)
        self._nodes: dict[ObjectKey, _Nodes] = {}
        self._objects = PodObjects(client, now=now) if pods else None
        self._queue: WorkQueue[ObjectKey] = WorkQueue(retries=retries(rng))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled; started once all jobs are listed."""
        async with anyio.create_task_group() as tasks:
            await reflect(tasks, self._client, [(JOBS, self._jobs)], rng=self._rng)
            task_status.started()
            await run_controller("job-runner", self._queue, self._reconcile, workers=self._workers)

    def _changed(self, old: Job | None, new: Job | None) -> None:
        touched = new or old
        assert touched is not None
        self._queue.add(touched.key)

    async def _reconcile(self, key: ObjectKey) -> Result:
        job, nodes = self._jobs.get(key), self._nodes.get(key)
        if nodes is not None and (job is None or job.metadata.uid != nodes.job.metadata.uid):
            await self._clear(nodes)
            nodes = None
        if job is None:
            return DONE
        expiry = vanishes_at(job)
        if expiry is not None and expiry <= self._now():
            await self._delete(job)
            return DONE
        outcome = sync(job, nodes.pods if nodes else None, self.lives(job), self._now())
        try:
            await self._perform(job, nodes.pods if nodes else NO_PODS, outcome)
        except NotFound:
            return DONE  # deleted meanwhile; the watch will report it
        due = outcome.due or expiry
        return DONE if due is None else Result(max(timedelta(), due - self._now()))

    async def _perform(self, job: Job, before: Pods, outcome: Sync) -> None:
        """Write the new statuses. The pods change with the first status that counts them, so that each is counted
        once."""
        for status in outcome.statuses[:1]:
            job = await self._write(job, status)
        if outcome.pods == NO_PODS:
            self._nodes.pop(job.key, None)
        else:
            self._nodes[job.key] = _Nodes(job, outcome.pods)
        if self._objects is not None:
            await self._objects.show(job, before, outcome)
        for status in outcome.statuses[1:]:
            job = await self._write(job, status)

    async def _clear(self, nodes: _Nodes) -> None:
        """Remove the pods of a deleted job."""
        del self._nodes[nodes.job.key]
        if self._objects is not None:
            await self._objects.clear(nodes.job, nodes.pods)

    async def _write(self, job: Job, status: Status) -> Job:
        meta = {"resourceVersion": job.metadata.resource_version}
        patch = {"metadata": meta, "status": merge_patch(status_of(job), status)}
        answer = await self._client.merge_patch(JOBS, job.key, patch, subresource="status")
        self._jobs.upsert(answer)
        return answer

    async def _delete(self, job: Job) -> None:
        """Delete a finished job as Kubernetes' TTL controller does: its pods go first."""
        with suppress(NotFound, Conflict):
            await self._client.delete(JOBS, job.key, uid=job.metadata.uid, propagation="Foreground")
