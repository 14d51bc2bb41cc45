"""The jobs of a chaotic run, and their ends."""

from __future__ import annotations

import random

from testbed import objects
from testbed.chaos.stage import NAMESPACE, PRIORITIES
from testbed.client import Client, Kind
from testbed.jobs import complete_job
from testbed.objects import JOB, Object

__all__ = ["JOBSET", "complete", "submission"]

JOBSET = Kind("jobset.x-k8s.io/v1alpha2", "JobSet")


def submission(chance: random.Random, number: int) -> Object:
    """A job of one of ten sizes and two priorities; each fifth is a JobSet."""
    priority = chance.choices(list(PRIORITIES), weights=(4, 1))[0]
    body = objects.job(
        f"job-{number:04d}",
        NAMESPACE,
        parallelism=chance.randint(1, 10),
        requests={"cpu": "1"},
        managed_by=objects.MULTIKUEUE_CONTROLLER,
        priority_class=priority,
    )
    return body if chance.random() < 0.8 else _as_job_set(body)


def _as_job_set(job: Object) -> Object:
    spec = job["spec"]
    inner = {key: spec[key] for key in ("parallelism", "completions", "template")}
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": job["metadata"],
        "spec": {
            "suspend": True,
            "managedBy": spec["managedBy"],
            "replicatedJobs": [{"name": "main", "replicas": 1, "template": {"spec": inner}}],
        },
    }


async def complete(client: Client, kind: Kind, name: str) -> None:
    if kind == JOB:
        await complete_job(client, NAMESPACE, name)
        return
    done = {
        "type": "Completed",
        "status": "True",
        "reason": "AllJobsCompleted",
        "message": "jobset completed successfully",
    }
    stamp = {"lastTransitionTime": "2026-01-01T12:00:00Z"}
    status = {"conditions": [done | stamp], "terminalState": "Completed"}
    await client.patch_status(kind, name, status, NAMESPACE)
