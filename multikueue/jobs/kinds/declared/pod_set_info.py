"""The pod set info of jobs of a declared kind that run on their own cluster, and the restoration of their templates.

Patches replace the templates at the declared paths. Merge patches replace lists whole, so each patch has the resource
version as precondition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.actions import PatchJob
from multikueue.jobs.framework.pod_set_info import PodSetInfo, mark_of, may_be_marked, originals, placed, restored
from multikueue.jobs.kinds.declared.pod_sets import PodsOf
from multikueue.jobs.trees.canonical import merge_patch
from multikueue.jobs.trees.templates import part, tree_of

__all__ = ["DeclaredPodSetInfoWriter"]

Tree = dict[str, Any]


class DeclaredPodSetInfoWriter(msgspec.Struct, frozen=True):
    """The pod set info of a kind with these pods."""

    pods: tuple[PodsOf, ...]

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        change = self._change(job, lambda name, each: placed(each, places[name]) if name in places else each)
        return _deep(patch, {"spec": change} if change else {})

    def stop_patch(self, job: AnyJob, patch: Tree, workload: Workload | None) -> Tree:
        change = self._restoring(job, workload)
        return _deep(patch, workloads.precisely(job) | {"spec": change}) if change else patch

    def pod_set_info_of(self, job: AnyJob) -> str:
        marks = (mark_of(each) for _, each in self._templates(_tree(job))) if may_be_marked(job.spec) else ()
        return next(filter(None, marks), "")

    def restoration(self, job: AnyJob, workload: Workload | None) -> PatchJob | None:
        change = self._restoring(job, workload)
        return PatchJob(workloads.precisely(job) | {"spec": change}) if change else None

    def _restoring(self, job: AnyJob, workload: Workload | None) -> Tree:
        """The restoring change; only marked templates have pod set info."""
        if not self.pod_set_info_of(job):
            return {}
        known = originals(workload)
        return self._change(job, lambda name, each: restored(each, known.get(name)) if mark_of(each) else each)

    def _change(self, job: AnyJob, new: Callable[[str, Tree], Tree]) -> Tree:
        """The merge patch of the spec that replaces its templates."""
        changed = _tree(job)
        for name, template in self._templates(changed):
            made = dict(new(name, template))
            template.clear()
            template.update(made)
        return merge_patch(tree_of(job.spec), changed["spec"])

    def _templates(self, tree: Tree) -> Iterator[tuple[str, Tree]]:
        for pods in self.pods:
            yield from pods.templates(tree)


def _tree(job: AnyJob) -> Tree:
    return {"metadata": {"name": job.metadata.name}, "spec": tree_of(job.spec)}


def _deep(one: Tree, other: Tree) -> Tree:
    """One merge patch of two that touch different fields."""
    both = {key: _deep(part(one, key), part(other, key)) for key in one if part(one, key) and part(other, key)}
    return one | other | both
