"""Slices of elastic jobs on workers: which worker one goes to, what it takes over, and how a copy is scaled down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from multikueue.api.canonical import terse
from multikueue.api.workload import REPLACES_ANNOTATION, Workload

__all__ = ["NO_SLICE", "Slice", "scale_down_patch"]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """How a workload is joined to the others of its job, if that is `elastic`.

    `stays` is the worker of the slice that it replaced, where the job runs: it goes there and nowhere else. While it is
    `too_early`, that slice has its quota still. `heir` are the workers on which what this one left belongs to a later
    slice: it is finished or gone, and the job is not.
    """

    elastic: bool = False
    stays: str = ""
    too_early: bool = False
    heir: tuple[str, ...] = ()


NO_SLICE = Slice()


def scale_down_patch(local: Workload, remote: Workload) -> Tree | None:
    """A merge patch that gives a copy the lower counts of its original; None if they differ in anything else.

    A worker's Kueue compares a job with the Workload it names each time that one of them changes, and ends the Workload
    where the two differ; and they cannot change as one. A slice that replaces another is not compared, so from its first
    scaling on a copy that does not says that it replaces itself, which means nothing else to Kueue.
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


def _pod_sets(workload: Workload) -> list[Tree]:
    found: list[Tree] = msgspec.json.decode(workload.spec).get("podSets") or []
    return found


def _is_scaled_down(ours: Tree, theirs: Tree) -> bool:
    same = terse(_without_count(ours)) == terse(_without_count(theirs))
    return same and int(ours.get("count", 1)) <= int(theirs.get("count", 1))


def _without_count(pod_set: Tree) -> Tree:
    return {name: value for name, value in pod_set.items() if name != "count"}


def _with_counts(pod_sets: list[Tree], counted: list[Tree]) -> Iterator[Tree]:
    """In their own words, for while quota is reserved nothing but a count may change."""
    for pod_set, other in zip(pod_sets, counted, strict=True):
        yield pod_set | {"count": other.get("count", 1)}
