"""The pod template of a batch Job in its Workload and in its copy on a worker (quota-engine 6.2, contract 1.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, job_spec
from multikueue.api.kueue.workload import PodSet
from multikueue.api.meta import decoder
from multikueue.jobs.framework import workloads
from multikueue.jobs.kinds.batch_job.size import fewest_pods, pods_count
from multikueue.jobs.trees.templates import (
    is_same_template,
    part,
    tree_of,
    with_comparable_containers,
    with_single_entries,
)

__all__ = ["is_same_pod_set", "pod_set", "remote_spec"]

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
