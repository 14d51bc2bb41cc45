"""Do the ranges of estimates hold? `python -m tests.console.history.coverage` counts, in minutes, on traces that are drawn
after published ones, of which the true starts are known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from benchmarks.mixes.traces import MIXES, PARTS, Cluster, Job, drawn
from multikueue.api.meta import Object, ObjectKey
from multikueue.testing import NOW
from multikueue_console.history.outlook import PLAYS, Forecast, PlayedJob, forecast, play
from multikueue_console.history.run_times import JobShape, RunTimes, size_class
from multikueue_console.history.runs import Outcome, Run
from tests.builders import cluster_queue, flavor, local_queue, namespace

CLUSTER = Cluster("one", 16 * PARTS, "a", 1.0)
DAYS, LOAD, LOOKS = 1.0, 0.9, 4
SEEDS = range(12)


def objects(*, is_strict: bool) -> list[Object]:
    queue = cluster_queue("cq").quota("default", cpu=CLUSTER.parts)
    queue = queue.strict_fifo() if is_strict else queue
    return [namespace("default").build(), flavor().build(), queue.build(), local_queue("lq", "cq").build()]


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def played(job: Job) -> PlayedJob:
    """A CPU stands for a part of a GPU: quota counts both alike."""
    return PlayedJob(
        key=ObjectKey("default", job.name),
        queue="lq",
        shape=JobShape("cq", job.user, size_class(0, job.parts / PARTS)),
        amounts={"cpu": 1000 * job.parts},
        created=at(job.at),
    )


def run_of(job: Job, start: datetime, now: datetime) -> Run:
    end = start + timedelta(seconds=job.seconds)
    has_ended = end <= now
    return Run(
        workload=job.name,
        attempt="one",
        namespace="default",
        name=job.name,
        cluster_queue="cq",
        user=job.user,
        gpu=job.parts / PARTS,
        started_at=start,
        ended_at=end if has_ended else None,
        outcome=Outcome.SUCCEEDED if has_ended else "",
    )


def told_and_true(mix: str, seed: int, *, is_strict: bool, plays: int = PLAYS) -> Iterator[tuple[Forecast, datetime]]:
    """Of a job that waits, at some moments of a day: its forecast of so many plays, and when it did start."""
    trace = {job.name: job for job in drawn(MIXES[mix], (CLUSTER,), days=DAYS, load=LOAD, seed=seed) if not job.local}
    jobs = [played(job) for job in trace.values()]
    fixed = objects(is_strict=is_strict)
    truth = play(fixed, [], lambda job, _: trace[job.key.name].seconds, NOW, arrivals=jobs, horizon=timedelta(days=300))
    luck = random.Random(seed)
    for look in range(LOOKS):
        yield from _look(fixed, trace, jobs, truth, at(86_400 * DAYS * (0.3 + 0.65 * look / LOOKS)), luck, plays)


def _look(
    fixed: list[Object],
    trace: Mapping[str, Job],
    jobs: list[PlayedJob],
    truth: Mapping[ObjectKey, datetime],
    now: datetime,
    luck: random.Random,
    plays: int,
) -> Iterator[tuple[Forecast, datetime]]:
    past = [job for job in jobs if job.created <= now]
    starts = {job.key: truth[job.key] for job in past if truth[job.key] <= now}
    runs = [run_of(trace[key.name], start, now) for key, start in starts.items()]
    going = {run.name for run in runs if run.ended_at is None}
    present = [
        replace(job, started=starts[job.key], flavors={"cpu": "default"}) if job.key in starts else job
        for job in past
        if job.key not in starts or job.key.name in going
    ]
    found = forecast(fixed, present, RunTimes(runs, now), now, luck, past=past, plays=plays)
    known = sorted(key for key, told in found.items() if told is not None)
    for key in luck.sample(known, min(1, len(known))):  # those of one line wait for the same jobs
        told = found[key]
        assert told is not None
        yield told, truth[key]


def main() -> None:
    for is_strict in (True, False):
        order = "StrictFIFO" if is_strict else "BestEffortFIFO"
        for mix in ("openb", "pai"):
            found = [each for seed in SEEDS for each in told_and_true(mix, seed, is_strict=is_strict)]
            held = sum(told.low <= start <= told.high for told, start in found)
            late = sum(start > told.high for told, start in found)
            print(f"{mix:<8}{order:<16}{held} of {len(found)} within, {late} later", flush=True)


if __name__ == "__main__":
    main()
