"""How many pods a batch Job has at a time, and how few will do."""

from __future__ import annotations

from multikueue.api.job import AnyJob, job_spec
from multikueue.jobs.framework import workloads

__all__ = ["fewest_pods", "pods_count"]


def pods_count(job: AnyJob) -> int:
    """How many pods run at a time: the parallelism, or the completions if they are fewer."""
    spec = job_spec(job)
    return spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)


def fewest_pods(job: AnyJob) -> int | None:
    """The fewest pods that will do; None when all are needed, or if the annotation makes no sense."""
    fewest = workloads.positive(job.metadata.annotations.get(workloads.MIN_PARALLELISM_ANNOTATION, ""))
    return fewest if fewest is not None and fewest <= pods_count(job) else None
