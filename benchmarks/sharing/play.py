"""Runs submissions under a policy: a manager, workers with a simulated Kueue, and their job runners.

Nothing is cut short: the manager is the one that runs in production, and its calls take time. Only the clock is virtual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import anyio

from benchmarks.sharing.crowd import Crowd, Submission
from benchmarks.sharing.figures import Record
from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kueue.workload import JOB_UID_LABEL
from multikueue.settings import Cluster, Dispatch, InForce, Quota, Settings
from multikueue_simulator.time import EPOCH, VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World

__all__ = ["POLICIES", "WORKERS", "Policy", "Stuck", "play"]

WORKERS = (40, 32, 28)
"""GPUs of each worker, of a hundred."""

LOOK = 60.0
"""Seconds between two checks for unfinished jobs."""

PATIENCE = 14 * 24 * 3600.0
"""Maximum virtual seconds of a run."""

EVERYBODY = "everybody"


class Stuck(Exception):
    """Some jobs do not finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A way to share the GPUs: one ClusterQueue for all users, or one for each user (`per_user`) in one cohort."""

    title: str
    queueing: str = "BestEffortFIFO"
    per_user: bool = False
    fair: bool = False
    preemption: Object | None = None


POLICIES = {
    "fifo": Policy(title="one queue, first come first served", queueing="StrictFIFO"),
    "best-effort": Policy(title="one queue, who does not fit is passed by"),
    "quota": Policy(title="quota per user, what is idle is lent", per_user=True),
    "fair": Policy(title="the same, and who uses least comes first (fair sharing)", per_user=True, fair=True),
    "reclaim": Policy(
        title="the same, and running jobs give way for a fair share (preemption)",
        per_user=True,
        fair=True,
        preemption={"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    ),
}


def play(submissions: Sequence[Submission], policy: Policy, *, crowd: Crowd, seed: int) -> list[Record]:
    """Run the submissions under a policy; returns their records in the same order. Raises Stuck."""
    return run(lambda: _play(submissions, policy, crowd, seed))


async def _play(submissions: Sequence[Submission], policy: Policy, crowd: Crowd, seed: int) -> list[Record]:
    world = World(_layout(crowd), clock=VirtualClock(), seed=seed)
    world.apply_fixtures()
    _furnish(world, policy, crowd)
    async with anyio.create_task_group() as tasks:
        await world.start(tasks)
        manager = world.add_manager("manager", InForce(_settings(world, policy)))
        await manager.begin(tasks).wait()
        start = anyio.current_time()
        await _submit(world, submissions, start)
        await _until_finished(world, len(submissions), start)
        records = _records(world, submissions, start)
        tasks.cancel_scope.cancel()
    return records


def _layout(crowd: Crowd) -> Layout:
    shares = [share * crowd.gpus // 100 for share in WORKERS[:-1]]
    shares.append(crowd.gpus - sum(shares))
    workers = tuple(Share(f"worker{number}", share) for number, share in enumerate(shares, 1))
    return Layout(queues=(), workers=workers)


def _furnish(world: World, policy: Policy, crowd: Crowd) -> None:
    """Create the queues: on each cluster a LocalQueue per user."""
    users = crowd.names()
    if not policy.per_user:
        world.manager.create(kinds.CLUSTER_QUEUES, _cluster_queue(EVERYBODY, crowd.gpus, policy))
    for number, user in enumerate(users):
        if policy.per_user:
            share = crowd.gpus // len(users) + (number < crowd.gpus % len(users))
            world.manager.create(kinds.CLUSTER_QUEUES, _cluster_queue(user, share, policy, cohort=EVERYBODY))
        queue = user if policy.per_user else EVERYBODY
        world.manager.create(kinds.LOCAL_QUEUES, objects.local_queue(user, NAMESPACE, cluster_queue=queue))
        for worker in world.workers.values():
            worker.site.create(kinds.LOCAL_QUEUES, objects.local_queue(user, NAMESPACE, cluster_queue=worker.name))


def _cluster_queue(name: str, gpus: int, policy: Policy, *, cohort: str = "") -> Object:
    body = objects.cluster_queue(name, cpu=gpus, checks=(objects.CHECK,))
    body["spec"]["queueingStrategy"] = policy.queueing
    if cohort:
        body["spec"]["cohortName"] = cohort
    if policy.preemption is not None:
        body["spec"]["preemption"] = policy.preemption
    return body


def _settings(world: World, policy: Policy) -> Settings:
    """Settings with rare heartbeats: no cluster fails here."""
    minute = timedelta(minutes=1)
    dispatch = Dispatch(heartbeat_interval=minute, gc_interval=timedelta())
    return Settings(
        cluster=Cluster(namespace=world.layout.secrets), dispatch=dispatch, quota=Quota(fair_sharing=policy.fair)
    )


async def _submit(world: World, submissions: Sequence[Submission], start: float) -> None:
    for each in submissions:
        await anyio.sleep(start + each.at - anyio.current_time())
        job = objects.job(each.name, NAMESPACE, queue=each.user, cpu=1, parallelism=each.gpus, seconds=each.seconds)
        world.manager.create(kinds.JOBS, job)


async def _until_finished(world: World, jobs: int, start: float) -> None:
    while True:
        done = sum("completionTime" in body.get("status", ()) for body in world.manager.all(kinds.JOBS))
        if done == jobs:
            return
        if anyio.current_time() - start > PATIENCE:
            raise Stuck(f"{jobs - done} of {jobs} jobs did not finish within {PATIENCE / 3600:.0f} hours")
        await anyio.sleep(LOOK)


def _records(world: World, submissions: Sequence[Submission], start: float) -> list[Record]:
    """Records of finished jobs, with times counted from `start`."""
    jobs = {body["metadata"]["name"]: body for body in world.manager.all(kinds.JOBS)}
    workloads = {body["metadata"]["labels"][JOB_UID_LABEL]: body for body in world.manager.all(kinds.WORKLOADS)}
    return [_record(each, jobs[each.name], workloads, start) for each in submissions]


def _record(submission: Submission, job: Object, workloads: Mapping[str, Object], start: float) -> Record:
    """`workloads` are by the UID of their job."""
    evictions = workloads[job["metadata"]["uid"]]["status"].get("schedulingStats", {}).get("evictions", ())
    return Record(
        user=submission.user,
        gpus=submission.gpus,
        submitted=submission.at,
        started=_seconds(job["status"]["startTime"]) - start,
        ended=_seconds(job["status"]["completionTime"]) - start,
        runs=1 + sum(each["count"] for each in evictions),
    )


def _seconds(text: str) -> float:
    return (datetime.fromisoformat(text) - EPOCH).total_seconds()
