"""The number of pods that a batch Job runs at a time, and the minimum it accepts."""

from __future__ import annotations

from typing import Any

from multikueue.api.jobs.job import AnyJob, job_spec
from multikueue.jobs.framework import workloads

__all__ = ["fewest_pods", "pods_count", "resized"]


def pods_count(job: AnyJob) -> int:
    """The number of pods that run at a time: the parallelism, or the completions if they are fewer."""
    spec = job_spec(job)
    return spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)


def fewest_pods(job: AnyJob) -> int | None:
    """The minimum number of pods, for partial admission; None if all are needed, or the annotation is invalid."""
    fewest = workloads.positive(job.metadata.annotations.get(workloads.MIN_PARALLELISM_ANNOTATION, ""))
    return fewest if fewest is not None and fewest <= pods_count(job) else None


def resized(job: AnyJob, remote: AnyJob) -> dict[str, Any]:
    """The patch of the remote spec. With indexes, completions change along with the parallelism. In any other Job the API
    server keeps completions immutable, so they never differ."""
    ours, theirs = job_spec(job), job_spec(remote)
    pairs = (
        ("parallelism", ours.parallelism, theirs.parallelism),
        ("completions", ours.completions, theirs.completions),
    )
    return {name: wanted for name, wanted, found in pairs if wanted != found}
