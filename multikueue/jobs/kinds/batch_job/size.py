"""The number of pods that a batch Job runs at a time, and the minimum it accepts."""

from __future__ import annotations

from multikueue.api.jobs.job import AnyJob, job_spec
from multikueue.jobs.framework import workloads

__all__ = ["fewest_pods", "pods_count"]


def pods_count(job: AnyJob) -> int:
    """The number of pods that run at a time: the parallelism, or the completions if they are fewer."""
    spec = job_spec(job)
    return spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)


def fewest_pods(job: AnyJob) -> int | None:
    """The minimum number of pods, for partial admission; None if all are needed, or the annotation is invalid."""
    fewest = workloads.positive(job.metadata.annotations.get(workloads.MIN_PARALLELISM_ANNOTATION, ""))
    return fewest if fewest is not None and fewest <= pods_count(job) else None
