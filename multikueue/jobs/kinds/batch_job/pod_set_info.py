"""The pod set info of a batch Job that runs on its own cluster, and the restoration of its template.

The API server lets a template change only while the Job is suspended and has no startTime, so a stop takes three
writes: suspend, clear startTime, restore. The Job itself shows which are left, whichever controller began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multikueue.api.jobs.job import AnyJob, job_spec, job_status
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.actions import PatchJob, PatchJobStatus
from multikueue.jobs.framework.pod_set_info import PodSetInfo, mark_of, may_be_marked, originals, placed, restored
from multikueue.jobs.framework.webhook import COMPLETIONS_ANNOTATION, TRUE
from multikueue.jobs.kinds.batch_job.size import fewest_pods, pods_count
from multikueue.jobs.trees.canonical import merge_patch
from multikueue.jobs.trees.templates import tree_of

__all__ = ["BATCH_POD_SET_INFO", "BatchPodSetInfoWriter", "is_partially_admitted", "of_size"]

Tree = dict[str, Any]

GENERATED_LABELS = (
    "job-name",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
)


class BatchPodSetInfoWriter:
    """Pod set info of batch/v1 Job; has no state."""

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        template, place = tree_of(job_spec(job).template), next(iter(places.values()), None)
        if place is None:
            return patch
        change = merge_patch(template, placed(template, place))
        fewer = of_size(job, place.count) if fewest_pods(job) is not None and place.count < pods_count(job) else {}
        return patch | {"spec": patch.get("spec", {}) | fewer | ({"template": change} if change else {})}

    def stop_patch(self, job: AnyJob, patch: Tree, workload: Workload | None) -> Tree:  # noqa: ARG002
        return patch

    def pod_set_info_of(self, job: AnyJob) -> str:
        return mark_of(tree_of(job_spec(job).template)) if may_be_marked(job.spec) else ""

    def restoration(self, job: AnyJob, workload: Workload | None) -> PatchJob | PatchJobStatus | None:
        if not self.pod_set_info_of(job) or job_status(job).active:
            return None  # since Kubernetes 1.36 the template of a suspended job changes only without pods (KEP 5440)
        if job_status(job).start_time is not None:
            return PatchJobStatus(workloads.precisely(job) | {"status": {"startTime": None}})
        change = self.restoring(job, workload)
        return PatchJob(workloads.precisely(job) | {"spec": change}) if change else None

    def restoring(self, job: AnyJob, workload: Workload | None) -> Tree:
        """The merge patch of the spec that restores it."""
        template = tree_of(job_spec(job).template)
        original = next(iter(originals(workload).values()), None)
        change = merge_patch(template, restored(template, original, kept=GENERATED_LABELS))
        return _grown(job, workload) | ({"template": change} if change else {})


BATCH_POD_SET_INFO = BatchPodSetInfoWriter()


def is_partially_admitted(job: AnyJob, workload: Workload) -> bool:
    """Whether the job runs with fewer pods than its workload asks for: exactly as many as got quota, if the admission
    is known."""
    pod_set, admission = workload_spec(workload).pod_sets[0], workload.status.admission
    if fewest_pods(job) is None or pod_set.min_count is None or not BATCH_POD_SET_INFO.pod_set_info_of(job):
        return False
    if admission is not None and admission.pod_set_assignments:
        return admission.pod_set_assignments[0].count == pods_count(job) < pod_set.count
    return pod_set.min_count <= pods_count(job) < pod_set.count


def of_size(job: AnyJob, count: int) -> Tree:
    """The change of the spec that gives the job this number of pods after partial admission."""
    follows = job.metadata.annotations.get(COMPLETIONS_ANNOTATION) in TRUE
    return {"parallelism": count} | ({"completions": count} if follows else {})


def _grown(job: AnyJob, workload: Workload | None) -> Tree:
    """The change back to the full number of pods, unless its user chose another number meanwhile."""
    if workload is None or not is_partially_admitted(job, workload):
        return {}
    return of_size(job, workload_spec(workload).pod_sets[0].count)
