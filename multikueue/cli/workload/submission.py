"""A job on its way into a queue: what of it is checked before it is sent, and the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from multikueue.api.kinds import LOCAL_QUEUES
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload.lookup import refuse_unknown
from multikueue.cli.workload.related_objects import collection_of

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["JobSubmission", "job_name", "submission"]

Tree = dict[str, Any]


class JobSubmission(msgspec.Struct, frozen=True):
    """`tree`: the object to be made, with the label of its LocalQueue."""

    tree: Tree
    queue: str
    namespace: str

    async def send(self, client: ClusterClient, *, dry_run: bool = False) -> Tree:
        """Create the job; the object as the server has it. With `dry_run` the server only checks it.

        Raises CommandFailed if the LocalQueue or the kind does not exist, and ApiError if the server refuses the job.
        """
        await refuse_unknown(client, LOCAL_QUEUES, self.queue, self.namespace)
        path = await collection_of(client, self.tree["apiVersion"], self.tree["kind"], self.namespace)
        params = {"dryRun": "All"} if dry_run else None
        made: Tree = json.loads(await client.request("POST", path, body=self.tree, params=params))
        return made


def submission(job: Mapping[str, Any], queue: str, namespace: str | None, default: str) -> JobSubmission:
    """The job for a queue; an empty one is the queue that its label names. `default`: the namespace of a job that names none,
    where `namespace` does not either.

    Raises CommandFailed for what is no job, for a job without a queue, and for one of another namespace.
    """
    name = job_name(job)
    if not _may_be_job(job["apiVersion"], job["kind"]):
        raise CommandFailed(
            f"{name} is no job, and has no queue: create it with `kubectl apply`, and where jobs need it, on the workers"
        )
    meta = dict(job.get("metadata") or {})
    labels = {**(meta.get("labels") or {}), **({QUEUE_LABEL: queue} if queue else {})}
    into, there = labels.get(QUEUE_LABEL, ""), namespace or meta.get("namespace") or default
    if meta.get("namespace") not in (None, there):
        raise CommandFailed(f"{name} is of namespace {meta['namespace']}, and not of {there}")
    if not into:
        raise CommandFailed(f"{name} names no queue: give --queue, or the label {QUEUE_LABEL}")
    return JobSubmission({**job, "metadata": {**meta, "labels": labels}}, into, there)


def job_name(job: Mapping[str, Any]) -> str:
    """KIND/NAME, as commands take it; of one that has no name yet, the beginning of it."""
    meta = job.get("metadata") or {}
    return f"{job['kind'].lower()}/{meta.get('name') or meta.get('generateName', '')}"


def _may_be_job(api_version: str, kind: str) -> bool:
    """Whether the kind is a known kind of job, or of a group that is neither of Kubernetes nor of Kueue: maybe declared."""
    from multikueue.jobs.integrations.frameworks import FRAMEWORKS, TEMPLATES

    known = {(each.kind.api_version, each.kind.kind) for each in (*FRAMEWORKS.values(), *TEMPLATES.values())}
    group = api_version.rpartition("/")[0]
    return (api_version, kind) in known or not ("." not in group or group.endswith((".k8s.io", "kueue.x-k8s.io")))
