"""The pods of a simulated run as Pod objects, for people and programs. No decision depends on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha1
from typing import Any

from multikueue.api.jobs.job import Job, job_spec
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS
from multikueue.api.meta import Object, ObjectKey, decoder, render_time
from multikueue.errors import AlreadyExists, NotFound
from multikueue.jobs.framework.workloads import owner_reference
from multikueue.kube.cluster_client import WatchingClient
from multikueue_simulator.workers.jobs.runs import Pod, Pods, Sync

__all__ = ["PODS", "PodObjects", "pod_body", "pod_name", "pod_status"]

Tree = dict[str, Any]

PODS = Kind("", "v1", "pods", "Pod", True, Object)

_INDEX = "batch.kubernetes.io/job-completion-index"
_NAMES = ("batch.kubernetes.io/job-name", "job-name")
_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PHASES = {"running": "Running", "succeeded": "Succeeded", "failed": "Failed"}


class PodObjects:
    """Creates and updates Pod objects with the pods of jobs. Garbage collection deletes the ended ones."""

    def __init__(self, client: WatchingClient, *, now: Callable[[], datetime]) -> None:
        self._client, self._now = client, now

    async def show(self, job: Job, before: Pods, outcome: Sync) -> None:
        """Update the objects from `before`, their last state, to `outcome`."""
        old, new = _by_number(before), _by_number(outcome.pods)
        for pod in outcome.over:
            await self._report(job, pod, "failed" if pod.fails else "succeeded")
        for pod in [old[number] for number in old if number not in new and old[number] not in outcome.over]:
            await self._remove(job, pod)
        for pod in [new[number] for number in new if number not in old]:
            with suppress(AlreadyExists):
                await self._client.create(PODS, job.metadata.namespace, pod_body(job, pod))
            await self._report(job, pod, "running")

    async def clear(self, job: Job, pods: Pods) -> None:
        """Delete the pods that still ran when their job was deleted, as no kubelet would."""
        for pod in pods.running:
            await self._remove(job, pod)

    async def _remove(self, job: Job, pod: Pod) -> None:
        with suppress(NotFound):
            await self._client.request("DELETE", PODS.path(_key(job, pod)), body={"gracePeriodSeconds": 0})

    async def _report(self, job: Job, pod: Pod, state: str) -> None:
        body = {"status": pod_status(job, pod, state, self._now())}
        with suppress(NotFound):
            await self._client.merge_patch(PODS, _key(job, pod), body, subresource="status")


def pod_name(job: Job, pod: Pod) -> str:
    """The name as Kubernetes makes it: the job's name, the index if there is one, five letters."""
    digest = sha1(f"{job.metadata.uid}/{pod.number}".encode(), usedforsecurity=False).digest()
    letters = "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])
    index = "" if pod.index is None else f"-{pod.index}"
    return f"{job.metadata.name[: 63 - 6 - len(index)]}{index}-{letters}"


def pod_body(job: Job, pod: Pod) -> Tree:
    """The Pod to create, on a fictitious node."""
    template = _tree(job_spec(job).template)
    meta = template.get("metadata") or {}
    generated = dict.fromkeys(_NAMES, job.metadata.name) | dict.fromkeys(_UIDS, job.metadata.uid)
    index = {} if pod.index is None else {_INDEX: str(pod.index)}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": pod_name(job, pod),
            "namespace": job.metadata.namespace,
            "labels": (meta.get("labels") or {}) | generated | index,
            "annotations": (meta.get("annotations") or {}) | index,
            "ownerReferences": [owner_reference(JOBS, job.metadata)],
        },
        "spec": {"nodeName": "sandbox", **(template.get("spec") or {})},
    }


def pod_status(job: Job, pod: Pod, state: str, now: datetime) -> Tree:
    """The status of a pod that is `running`, `succeeded` or `failed`."""
    began, at, runs = render_time(pod.began), render_time(now), state == "running"
    containers = (_tree(job_spec(job).template).get("spec") or {}).get("containers") or []
    conditions = {"PodScheduled": True, "Initialized": True, "ContainersReady": runs, "Ready": runs}
    return {
        "phase": _PHASES[state],
        "startTime": began,
        "conditions": [
            {"type": name, "status": str(is_so), "lastTransitionTime": at} for name, is_so in conditions.items()
        ],
        "containerStatuses": [_container(c, state, began=began, at=at) for c in containers],
    }


def _container(container: Mapping[str, Any], state: str, *, began: str, at: str) -> Tree:
    code, reason = (1, "Error") if state == "failed" else (0, "Completed")
    end = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": at}
    return {
        "name": container.get("name", ""),
        "image": container.get("image", ""),
        "imageID": "",
        "ready": state == "running",
        "restartCount": 0,
        "state": {"running": {"startedAt": began}} if state == "running" else {"terminated": end},
    }


_tree: Callable[[Any], Tree] = decoder(dict[str, Any])


def _by_number(pods: Pods) -> dict[int, Pod]:
    return {pod.number: pod for pod in pods.running}


def _key(job: Job, pod: Pod) -> ObjectKey:
    return ObjectKey(job.metadata.namespace, pod_name(job, pod))
