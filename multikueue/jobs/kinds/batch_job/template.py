"""The pods of a batch Job: how many, their template in its Workload and in its copy on a worker, and their pod set info.

Rules: quota-engine 6.2, contract 1.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, job_spec, job_status
from multikueue.api.kueue.workload import PodSet, Workload, workload_spec
from multikueue.api.meta import decoder
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.actions import PatchJob, PatchJobStatus
from multikueue.jobs.framework.pod_set_info import PodSetInfo, mark_of, may_be_marked, originals, placed, restored
from multikueue.jobs.framework.webhook import COMPLETIONS_ANNOTATION, TRUE
from multikueue.jobs.trees.templates import (
    is_same_template,
    merge_patch,
    part,
    tree_of,
    with_comparable_containers,
    with_single_entries,
)

__all__ = [
    "BATCH_POD_SET_INFO",
    "BatchPodSetInfoWriter",
    "fewest_pods",
    "is_partially_admitted",
    "is_same_pod_set",
    "of_size",
    "pod_set",
    "pods_count",
    "remote_spec",
    "resized",
]


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


Tree = dict[str, Any]

_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
# Kueue keeps the prefixed name label in the Workload. We do too, or the templates would differ.
_LABELS_NOT_IN_WORKLOAD = frozenset((*_UID_LABELS, "job-name"))
_NOT_FOR_REMOTE = ("managedBy", "suspend", "ttlSecondsAfterFinished")


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    manual_selector: bool = False


_selector: Callable[[msgspec.Raw], _Selector] = decoder(_Selector)
_fields: Callable[[msgspec.Raw], dict[str, msgspec.Raw]] = decoder(dict[str, msgspec.Raw])


def pod_set(job: AnyJob) -> Tree:
    template = tree_of(job_spec(job).template)
    meta = part(template, "metadata")
    fewest = fewest_pods(job)
    return {
        "name": "main",
        "count": pods_count(job),
        **({"minCount": fewest} if fewest is not None else {}),
        "template": _workload_template(template),
        "topologyRequest": workloads.topology_request(meta.get("annotations") or {}, pod_index_label=_COMPLETION_INDEX),
    }


def _workload_template(template: Tree) -> Tree:
    """The template as Kueue puts it into a Workload: without generated labels, and with each entry of a list
    once."""
    labels = part(part(template, "metadata"), "labels")
    kept = {name: value for name, value in labels.items() if name not in _LABELS_NOT_IN_WORKLOAD}
    return _with_labels(template, kept) | (
        {"spec": with_single_entries(template["spec"])} if "spec" in template else {}
    )


def _with_labels(template: Tree, labels: Tree) -> Tree:
    meta = {key: value for key, value in part(template, "metadata").items() if key != "labels"}
    return template | {"metadata": meta | ({"labels": labels} if labels else {})}


def is_same_pod_set(job: AnyJob, pod_set: PodSet, *, should_ignore_tolerations: bool) -> bool:
    if pod_set.min_count != fewest_pods(job):
        return False
    ours, theirs = bytes(job_spec(job).template), bytes(pod_set.template)
    return is_same_template(ours, theirs, should_ignore_tolerations)


def remote_spec(job: AnyJob) -> Tree:
    """The spec of the copy, suspended, so that the worker's Kueue starts it.

    All of the user's fields are copied, except managedBy (the worker's own controller runs the copy),
    ttlSecondsAfterFinished (else the result can vanish before it is read, CX-15), and the selector and labels that the
    manager's API server generated.
    """
    fields = _fields(job.spec)
    manual = _selector(job.spec).manual_selector
    dropped = _NOT_FOR_REMOTE if manual else (*_NOT_FOR_REMOTE, "selector", "manualSelector")
    spec: Tree = {key: value for key, value in fields.items() if key not in dropped}
    if "template" in fields:
        spec["template"] = _remote_template(fields["template"], {} if manual else _generated_labels(job))
    return spec | {"suspend": True}


def _generated_labels(job: AnyJob) -> dict[str, str]:
    return dict.fromkeys(_NAME_LABELS, job.metadata.name) | dict.fromkeys(_UID_LABELS, job.metadata.uid)


def _remote_template(raw: msgspec.Raw, generated: dict[str, str]) -> Tree | msgspec.Raw:
    """The template without the labels generated for this very job: the worker's API server generates its own."""
    template = tree_of(raw)
    labels = part(part(template, "metadata"), "labels")
    kept = {name: value for name, value in labels.items() if generated.get(name) != value}
    spec = part(template, "spec")
    compared = with_comparable_containers(spec)
    if kept == labels and compared == spec:
        return raw
    labelled = template if kept == labels else _with_labels(template, kept)
    return labelled if compared == spec else labelled | {"spec": compared}


GENERATED_LABELS = (
    "job-name",
    "controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
)


class BatchPodSetInfoWriter:
    """Pod set info of batch/v1 Job; has no state.

    The API server lets a template change only while the Job is suspended and has no startTime, so a stop takes three
    writes: suspend, clear startTime, restore. The Job itself shows which are left, whichever controller began.
    """

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
