"""A job is deleted at home, by the UID that was seen; the manager removes what there is of it on workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multikueue.api.kueue.workload import any_owner_of
from multikueue.api.meta import ObjectKey
from multikueue.cli.workload.related_objects import RelatedObjects

if TYPE_CHECKING:
    from multikueue.answers.seen import SeenJob
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["delete_job", "delete_job_alone"]


async def delete_job(client: ClusterClient, workload: Workload) -> None:
    """Delete the job of a Workload, or a Workload that has none. Raises NotFound, Forbidden, and Conflict if another job has
    its name by now."""
    owner = any_owner_of(workload)
    path = await RelatedObjects(client, workload).path()
    await _delete(client, path, owner.uid if owner else workload.metadata.uid)


async def delete_job_alone(client: ClusterClient, job: SeenJob) -> None:
    """Delete a job of a known kind that has no Workload. Raises the same."""
    from multikueue.jobs.integrations.frameworks import FRAMEWORKS

    kind = next(each.kind for each in FRAMEWORKS.values() if each.kind.kind == job.kind)
    await _delete(client, kind.path(ObjectKey(job.meta.namespace, job.meta.name)), job.meta.uid)


async def _delete(client: ClusterClient, path: str, uid: str) -> None:
    body = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
    await client.request("DELETE", path, body=body)
