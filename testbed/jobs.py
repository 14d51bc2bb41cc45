"""Jobs without nodes and pods: a test decides when a Job has run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from testbed.client import ApiError, Client
from testbed.objects import JOB, Object

__all__ = ["complete_job", "fail_job", "start_job"]

# Kubernetes counts pods in these fields. A finished Job may have none that run, and none whose end is not counted yet.
NO_PODS: Object = {
    "active": None,
    "ready": 0,
    "terminating": 0,
    "uncountedTerminatedPods": {"succeeded": None, "failed": None},
}


async def start_job(client: Client, namespace: str, name: str) -> Object:
    """Write the status of a Job whose pods all run and are ready."""
    return await _patch(client, namespace, name, _running)


async def complete_job(client: Client, namespace: str, name: str) -> Object:
    """Write the status of a Job that has succeeded.

    The API server's validation accepts it with a kube-controller-manager and without: a start time that is there stays
    (it may not change while a Job runs), and no pod is left that runs or waits to be counted.
    """
    return await _patch(client, namespace, name, _succeeded)


async def fail_job(client: Client, namespace: str, name: str) -> Object:
    """Write the status of a Job that has failed for good."""
    return await _patch(client, namespace, name, _failed)


async def _patch(client: Client, namespace: str, name: str, status: Callable[[Object], Object]) -> Object:
    """Patch the status, made from the present object; again when the Job controller was quicker."""
    while True:
        body = await client.get(JOB, name, namespace)
        patch = {"metadata": {"resourceVersion": body["metadata"]["resourceVersion"]}, "status": status(body)}
        try:
            return await client.patch(JOB, name, patch, namespace, subresource="status")
        except ApiError as error:
            if error.reason != "Conflict":
                raise


def _running(body: Object) -> Object:
    pods = body["spec"].get("parallelism", 1)
    return {"startTime": _start(body), "active": pods, "ready": pods, "terminating": 0}


def _succeeded(body: Object) -> Object:
    return {
        **NO_PODS,
        "startTime": _start(body),
        "completionTime": _now(),
        "succeeded": body["spec"].get("completions") or body["spec"].get("parallelism", 1),
        "conditions": _conditions(
            body, ("SuccessCriteriaMet", "Complete"), "CompletionsReached", "Reached expected number of succeeded pods"
        ),
    }


def _failed(body: Object) -> Object:
    return {
        **NO_PODS,
        "startTime": _start(body),
        "failed": body["spec"].get("backoffLimit", 6) + 1,
        "conditions": _conditions(
            body, ("FailureTarget", "Failed"), "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        ),
    }


def _conditions(body: Object, names: Collection[str], reason: str, message: str) -> list[dict[str, Any]]:
    # A merge patch replaces the list, so other conditions are kept in it (Suspended, for example).
    kept = [entry for entry in body.get("status", {}).get("conditions") or [] if entry["type"] not in names]
    stamps = {"lastProbeTime": _now(), "lastTransitionTime": _now()}
    new = [{"type": name, "status": "True", "reason": reason, "message": message, **stamps} for name in names]
    return [*kept, *new]


def _start(body: Object) -> str:
    noted = body.get("status", {}).get("startTime")
    return str(noted) if noted else _now(-timedelta(seconds=1))


def _now(offset: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + offset).strftime("%Y-%m-%dT%H:%M:%SZ")
