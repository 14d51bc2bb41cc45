"""Pod set info: what the flavors and admission checks of an admitted job demand of its pods (quota-engine 6.4).

The controller that starts a job on its own cluster writes these demands into the pod templates, and restores the
templates when it stops the job: the Workload holds the originals. Kueue does both with a PodSetInfo (pkg/podset).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kubernetes.printed import CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL, POD_SET_LABEL, WORKLOAD_ANNOTATION
from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FAILED_TO_START,
    Finish,
    PodSetAssignment,
    Workload,
    queue_of,
    workload_spec,
)
from multikueue.api.meta import encode
from multikueue.jobs.framework.actions import PatchJob, PatchJobStatus
from multikueue.jobs.trees.templates import part, tree_of

__all__ = [
    "BadPodSetInfo",
    "PodSetInfo",
    "PodSetInfoWriter",
    "PodSetInfos",
    "failed_start",
    "mark_of",
    "originals",
    "placed",
    "placement",
    "restored",
    "start_patch",
]

Tree = dict[str, Any]

QUEUES = frozenset({LOCAL_QUEUE_LABEL, CLUSTER_QUEUE_LABEL})
MARKS = frozenset({POD_SET_LABEL, WORKLOAD_ANNOTATION}) | QUEUES
"""What a start leaves in a template, and its restoration takes away."""

LONGEST_LABEL = 63

_MARK = f'"{WORKLOAD_ANNOTATION}"'.encode()
"""In each template with pod set info: the template alone shows what to restore, whichever controller wrote it."""


class BadPodSetInfo(Exception):  # no error of ours: its text is for the user
    """Two demands on the pods of a job contradict each other; the text says which."""


class _Update(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of the podSetUpdates of an admission check."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Tree] = []


_updates: Callable[[msgspec.Raw], list[_Update]] = msgspec.json.Decoder(list[_Update]).decode


class PodSetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Demands on the pods of one pod set, and the number of pods it may run."""

    count: int
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Tree, ...] = ()


class PodSetInfos(msgspec.Struct, frozen=True, kw_only=True):
    """The pod set infos of a job by pod set; or the name of an unknown flavor; or why there can be none."""

    places: Mapping[str, PodSetInfo] = {}
    missing: str = ""
    problem: str = ""


class PodSetInfoWriter(Protocol):
    """Writes pod set info into jobs of a kind and restores their templates. Pure, as the adapter is.

    Pod sets whose templates the job does not have itself are left as they are.
    """

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        """The starting patch with the pod set infos in it. Raises BadPodSetInfo if the job contradicts them."""
        ...

    def stop_patch(self, job: AnyJob, patch: Tree, workload: Workload | None) -> Tree:
        """The suspending patch, with the restoration in it where both may be one write."""
        ...

    def pod_set_info_of(self, job: AnyJob) -> str:
        """The name of the Workload whose pod set info the job still has; empty if it has none."""
        ...

    def restoration(self, job: AnyJob, workload: Workload | None) -> PatchJob | PatchJobStatus | None:
        """The next step in restoring a suspended job; None if there is none. Without its Workload only the marks are
        removed: the originals are unknown."""
        ...


# --- the demands of an admission -------------------------------------------------------------------------------------


def placement(workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> PodSetInfos:
    """The pod set infos of an admitted workload, given the flavors of the cluster by name."""
    admission = workload.status.admission
    assignments = admission.pod_set_assignments if admission else ()
    missing = next((f for each in assignments for f in each.flavors.values() if f not in flavors), "")
    if missing:
        return PodSetInfos(missing=missing)
    counts = {pod_set.name: pod_set.count for pod_set in workload_spec(workload).pod_sets}
    try:
        return PodSetInfos(places={a.name: _place(workload, a, counts.get(a.name, 0), flavors) for a in assignments})
    except BadPodSetInfo as conflict:
        return PodSetInfos(problem=str(conflict))


def _place(
    workload: Workload, assignment: PodSetAssignment, count: int, flavors: Mapping[str, ResourceFlavor]
) -> PodSetInfo:
    used = [flavors[name] for name in dict.fromkeys(name for _, name in sorted(assignment.flavors.items()))]
    found = PodSetInfo(
        count=count if assignment.count is None else assignment.count,
        labels={POD_SET_LABEL: assignment.name, **dict(_queues(workload))},
        annotations={WORKLOAD_ANNOTATION: workload.metadata.name},
        node_selector={k: v for flavor in reversed(used) for k, v in flavor.spec.node_labels.items()},
        tolerations=_joined(msgspec.to_builtins(each) for flavor in used for each in flavor.spec.tolerations),
    )
    for check, update in _updates_for(workload, assignment.name):
        try:
            found = _updated(found, update)
        except BadPodSetInfo as conflict:
            raise BadPodSetInfo(f'in admission check "{check}": {conflict}') from None
    return found


def _queues(workload: Workload) -> Iterator[tuple[str, str]]:
    """Labels with the names of its queues, unless one is too long to be a label. As Kueue, a ClusterQueue whose name has dots
    is not named."""
    admission = workload.status.admission
    cluster_queue = admission.cluster_queue if admission else ""
    for label, name in (LOCAL_QUEUE_LABEL, queue_of(workload).name), (CLUSTER_QUEUE_LABEL, cluster_queue):
        if name and len(name) <= LONGEST_LABEL and not (label == CLUSTER_QUEUE_LABEL and "." in name):
            yield label, name


def _updates_for(workload: Workload, pod_set: str) -> Iterator[tuple[str, _Update]]:
    for check in workload.status.admission_checks:
        told = check.pod_set_updates
        if isinstance(told, msgspec.Raw) and bytes(told) != b"null":
            yield from ((check.name, update) for update in _updates(told) if update.name == pod_set)


def _updated(place: PodSetInfo, update: _Update) -> PodSetInfo:
    return PodSetInfo(
        count=place.count,
        annotations=_agreed("annotations", place.annotations, update.annotations),
        labels=_agreed("labels", place.labels, update.labels),
        node_selector=_agreed("nodeSelector", place.node_selector, update.node_selector),
        tolerations=_joined((*place.tolerations, *update.tolerations)),
    )


def _agreed(what: str, known: Mapping[str, str], new: Mapping[str, str]) -> Tree:
    """Both merged. Raises BadPodSetInfo, in Kueue's words, if a key has two values."""
    for key in sorted(new):
        if known.get(key, new[key]) != new[key]:
            where = f"conflict for {what}: conflict for key={key}, value1={known[key]}, value2={new[key]}"
            raise BadPodSetInfo(f"invalid admission check PodSetUpdate: {where}")
    return {**known, **new}


def _joined(tolerations: Iterable[Tree]) -> tuple[Tree, ...]:
    """Without duplicates: a missing operator means Equal."""
    return tuple({encode(sorted(({"operator": "Equal"} | each).items())): each for each in tolerations}.values())


def start_patch(
    job: AnyJob, patch: Tree, pod_set_info: PodSetInfoWriter, workload: Workload, flavors: Mapping[str, ResourceFlavor]
) -> Tree | None:
    """The starting patch with the pod set info of the admission; None if a flavor is missing. Raises BadPodSetInfo if
    the job can never start there."""
    found = placement(workload, flavors)
    if found.problem:
        raise BadPodSetInfo(found.problem)
    return None if found.missing else pod_set_info.start_patch(job, patch, found.places)


def failed_start(
    job: AnyJob,
    patch: Tree | None,
    pod_set_info: PodSetInfoWriter,
    workload: Workload,
    flavors: Mapping[str, ResourceFlavor],
) -> Finish | None:
    """The end of a workload whose job can never start where it was admitted; None if it can. `patch` is the starting
    patch, None if the job runs."""
    if patch is None or not workload.has(ADMITTED) or workload.has(EVICTED):
        return None
    try:
        start_patch(job, patch, pod_set_info, workload, flavors)
    except BadPodSetInfo as conflict:
        return Finish(reason=FAILED_TO_START, message=str(conflict))
    return None


# --- templates -------------------------------------------------------------------------------------------------------


def placed(template: Tree, place: PodSetInfo) -> Tree:
    """The template, or Pod, with the demands added to its own. Raises BadPodSetInfo.

    The Workload and the queues it names are never its user's word, but left from another start: who resubmits what a cluster
    shows brings that along.
    """
    meta, spec = part(template, "metadata"), part(template, "spec")
    labels = {key: text for key, text in part(meta, "labels").items() if key not in QUEUES}
    known = spec.get("tolerations") or ()
    said = {
        "annotations": _agreed("annotations", _own(meta, "annotations"), place.annotations),
        "labels": _agreed("labels", labels, place.labels),
    }
    where = {
        "nodeSelector": _agreed("nodeSelector", part(spec, "nodeSelector"), place.node_selector),
        "tolerations": list(_joined((*known, *place.tolerations))) if place.tolerations else list(known),
    }
    return template | {"metadata": _with(meta, **said), "spec": _with(spec, **where)}


def restored(template: Tree, original: Tree | None, *, kept: Iterable[str] = ()) -> Tree:
    """The template before its pod set info, from the `original`; without one the template only loses its marks.

    `kept` are labels that the API server added for good.
    """
    meta, spec = part(template, "metadata"), part(template, "spec")
    then = part(original, "metadata") if original is not None else meta
    before = part(original, "spec") if original is not None else spec
    labels = {key: text for key, text in part(meta, "labels").items() if key in kept}
    said = {
        "annotations": _own(then, "annotations"),
        "labels": _own(then, "labels") | labels,
    }
    where = {name: before.get(name) for name in ("nodeSelector", "tolerations", "schedulingGates")}
    return template | {"metadata": _with(meta, **said), "spec": _with(spec, **where)}


def mark_of(template: Tree) -> str:
    """The name of the Workload whose pod set info the template has; empty if none."""
    return str(part(part(template, "metadata"), "annotations").get(WORKLOAD_ANNOTATION) or "")


def may_be_marked(raw: msgspec.Raw) -> bool:
    """False if no template in the spec has a mark. Checked at each change of each job, so without decoding the spec."""
    return _MARK in bytes(raw)


def originals(workload: Workload | None) -> dict[str, Tree]:
    """The templates of a Workload by pod set."""
    pod_sets = workload_spec(workload).pod_sets if workload is not None else ()
    return {each.name: tree_of(each.template) for each in pod_sets}


def _with(tree: Tree, **new: Any) -> Tree:
    """The tree with these members replaced; empty ones are removed."""
    return {k: v for k, v in tree.items() if k not in new} | {k: v for k, v in new.items() if v}


def _own(meta: Tree, what: str) -> Tree:
    """The labels or annotations without the marks."""
    return {key: text for key, text in part(meta, what).items() if key not in MARKS}
