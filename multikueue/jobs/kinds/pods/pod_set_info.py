"""The pod set info of Pods that start on their own cluster, in the same patch that removes their scheduling gate.

Nothing is ever restored: a Pod that ran cannot be gated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import PodGroup
from multikueue.api.kueue.workload import Workload
from multikueue.jobs.framework.pod_set_info import PodSetInfo, placed
from multikueue.jobs.kinds.pods.roles import role_of
from multikueue.jobs.trees.canonical import merge_patch
from multikueue.jobs.trees.templates import part, tree_of

__all__ = ["GROUP_POD_SET_INFO", "POD_POD_SET_INFO", "GroupPodSetInfoWriter", "PodPodSetInfoWriter"]

Tree = dict[str, Any]


class PodPodSetInfoWriter:
    """Pod set info of one Pod; has no state."""

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        place = next(iter(places.values()), None)
        return _placed(job, patch, place) if place is not None else patch

    def stop_patch(self, job: AnyJob, patch: Tree, workload: Workload | None) -> Tree:  # noqa: ARG002
        return patch

    def pod_set_info_of(self, job: AnyJob) -> str:  # noqa: ARG002
        return ""

    def restoration(self, job: AnyJob, workload: Workload | None) -> None:  # noqa: ARG002
        return None


class GroupPodSetInfoWriter(PodPodSetInfoWriter):
    """Pod set info of a group: each member gets that of its role; if there is only one for all, that one."""

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        members = job.members if isinstance(job, PodGroup) else ()
        only = next(iter(places.values())) if len(places) == 1 else None
        found = dict(patch.get("members", {}))
        for member in members:
            name, place = member.metadata.name, only or places.get(role_of(member))
            if name in found and place is not None:
                found[name] = _placed(member, found[name], place)
        return patch | {"members": found} if found else patch


POD_POD_SET_INFO = PodPodSetInfoWriter()
GROUP_POD_SET_INFO = GroupPodSetInfoWriter()


def _placed(pod: AnyJob, patch: Tree, place: PodSetInfo) -> Tree:
    meta = {"labels": pod.metadata.labels, "annotations": pod.metadata.annotations}
    before = {"metadata": {key: text for key, text in meta.items() if text}, "spec": tree_of(pod.spec)}
    change = merge_patch(before, placed(before, place))
    return patch | {name: part(patch, name) | part(change, name) for name in ("metadata", "spec") if name in change}
