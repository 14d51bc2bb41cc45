"""Slices of elastic jobs on workers: the worker of a pinned slice, the job it inherits, the scaling down of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.workload import REPLACES_ANNOTATION, Workload
from multikueue.api.meta import encode
from multikueue.api.values.canonical import terse

__all__ = ["NO_SLICE", "Slice", "scale_down_patch", "with_templates_of"]

Tree = dict[str, Any]


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The relation of a workload to other slices of its job.

    `is_elastic`: the job has slices. `stays` is the worker of the slice that this one replaces, where the job runs: the
    slice is pinned there. `is_too_early`: the replaced slice still has its quota. `heir` are the workers on which the
    remains of this slice belong to a later one: this one is finished or gone, and the job is not.
    """

    is_elastic: bool = False
    stays: str = ""
    is_too_early: bool = False
    heir: tuple[str, ...] = ()


NO_SLICE = Slice()


def scale_down_patch(local: Workload, remote: Workload) -> Tree | None:
    """A merge patch that gives a copy the lower counts of its original; None if they differ in anything else.

    A worker's Kueue compares a job with the Workload it names whenever one of them changes, and finishes the Workload
    if they differ; and the two cannot be changed in one write. A slice that replaces another is not compared. So a copy
    that replaces none is marked, at its first scaling, as replacing itself, which means nothing else to Kueue.
    """
    ours, theirs = (_pod_sets(w) for w in (local, remote))
    if len(ours) != len(theirs) or not all(_is_scaled_down(*each) for each in zip(ours, theirs, strict=True)):
        return None
    meta = remote.metadata
    mark = meta.annotations.get(REPLACES_ANNOTATION) or f"{meta.namespace}/{meta.name}"
    return {
        "metadata": {"resourceVersion": meta.resource_version, "annotations": {REPLACES_ANNOTATION: mark}},
        "spec": {"podSets": list(_with_counts(theirs, ours))},
    }


def with_templates_of(first: Workload, later: Workload) -> Workload:
    """A later slice with the pod templates of the first one.

    Beside Kueue it is made of a job that runs, whose templates have the demands of the manager cluster's flavors by then:
    no worker with other flavors would admit a copy with these. Slices of one job differ in their counts alone. Raises as
    decoding does if one of them is malformed.
    """
    asked = {each["name"]: each["template"] for each in _pod_sets(first)}
    spec = msgspec.json.decode(later.spec)
    known: list[Tree] = spec.get("podSets") or []
    pod_sets = [each | {"template": asked.get(each["name"], each["template"])} for each in known]
    if pod_sets == known:
        return later
    return replace(later, spec=msgspec.Raw(encode(spec | {"podSets": pod_sets})))


def _pod_sets(workload: Workload) -> list[Tree]:
    found: list[Tree] = msgspec.json.decode(workload.spec).get("podSets") or []
    return found


def _is_scaled_down(ours: Tree, theirs: Tree) -> bool:
    same = terse(_without_count(ours)) == terse(_without_count(theirs))
    return same and int(ours.get("count", 1)) <= int(theirs.get("count", 1))


def _without_count(pod_set: Tree) -> Tree:
    return {name: value for name, value in pod_set.items() if name != "count"}


def _with_counts(pod_sets: list[Tree], counted: list[Tree]) -> Iterator[Tree]:
    """The copy's own pod sets with the original's counts: while quota is reserved only a count may change."""
    for pod_set, other in zip(pod_sets, counted, strict=True):
        yield pod_set | {"count": other.get("count", 1)}
