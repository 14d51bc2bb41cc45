"""The admission webhook for Pods with a queue (contract 1.7), which adds a scheduling gate."""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.jobs.pod import (
    ADMISSION_GATE,
    GROUP_ANNOTATION,
    GROUP_COUNT_ANNOTATION,
    GROUP_FAST_ANNOTATION,
    GROUP_LABEL,
    GROUP_SERVING_ANNOTATION,
    MANAGED_LABEL,
    OVER,
    PARENT_ANNOTATION,
    POD_FINALIZER,
    POD_INDEX_LABEL,
    POD_INDEX_LABEL_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    STATEFUL_SET,
    TOPOLOGY_GATE,
    SchedulingGate,
)
from multikueue.api.kinds import STATEFUL_SETS
from multikueue.api.kueue.workload import PREBUILT_ANNOTATION, PREBUILT_LABEL
from multikueue.api.meta import OwnerReference
from multikueue.jobs.framework.webhook import Metadata, Patch, SubmittedObject, is_name, prebuilt_marks, refusal_of_any
from multikueue.jobs.framework.workloads import positive, stateful_set_workload_name
from multikueue.jobs.kinds.pods.members import role_hash
from multikueue.jobs.trees.templates import tree_of

__all__ = ["SubmittedPod", "default_pod", "read_pod", "refusal"]


class OwnedMetadata(Metadata, frozen=True, rename="camel"):
    name: str | None = None
    finalizers: list[str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_gates: list[SchedulingGate] | None = None


class _Status(msgspec.Struct, frozen=True):
    phase: str | None = None


class SubmittedOwned(SubmittedObject, frozen=True):
    """An object that may have a controller; a controller that is a job exempts it from the queue."""

    metadata: OwnedMetadata = OwnedMetadata()

    @property
    def is_managed_by_default(self) -> bool:
        """False: Pods have no managedBy to default."""
        return False

    @property
    def is_part(self) -> bool:
        return True


class SubmittedPod(SubmittedOwned, frozen=True):
    """A Pod as an admission request shows it."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _Status = _Status()

    @property
    def stateful_set(self) -> str:
        """The name of the StatefulSet that controls the Pod, if that is in a queue."""
        if (self.metadata.annotations or {}).get(PARENT_ANNOTATION) != STATEFUL_SET:
            return ""
        kind, owner = STATEFUL_SETS, self.metadata.controller
        is_set = owner is not None and (owner.api_version, owner.kind) == (kind.api_version, kind.kind)
        return owner.name if owner is not None and is_set else ""

    @property
    def controller(self) -> OwnerReference | None:
        """None for a StatefulSet's Pod: a StatefulSet has no field that suspends it, so each Pod is gated."""
        return None if self.stateful_set else self.metadata.controller

    @property
    def group(self) -> str:
        return self._group_annotation or self.labels.get(GROUP_LABEL, "")

    @property
    def role(self) -> str:
        return (self.metadata.annotations or {}).get(ROLE_HASH_ANNOTATION, "")

    @property
    def group_place(self) -> str:
        """Where its group is named, or should be."""
        return f"annotations[{GROUP_ANNOTATION}]" if self._group_annotation else f"labels[{GROUP_LABEL}]"

    @property
    def _group_annotation(self) -> str:
        return (self.metadata.annotations or {}).get(GROUP_ANNOTATION, "")

    @property
    def gates(self) -> list[str]:
        return [gate.name for gate in _read_spec(self.spec).scheduling_gates or ()]

    @property
    def is_suspended(self) -> bool:
        return ADMISSION_GATE in self.gates or self.status.phase in OVER


class LabelledPod(SubmittedPod, frozen=True):
    """A Pod of which only a label names the group, as before Kueue 0.18."""

    @property
    def _group_annotation(self) -> str:
        return ""


_MARKS_IN_STATEFUL_SET = {
    GROUP_FAST_ANNOTATION: "true",
    GROUP_SERVING_ANNOTATION: "true",
    ROLE_HASH_ANNOTATION: "main",  # the one pod set of the Workload
}

_read = msgspec.json.Decoder(SubmittedPod).decode
_read_labelled = msgspec.json.Decoder(LabelledPod).decode
_read_spec = msgspec.json.Decoder(_Spec).decode


def read_pod(raw: bytes | msgspec.Raw, *, has_identifier_annotations: bool = True) -> SubmittedPod:
    """Decodes a Pod; raises msgspec.DecodeError if it is none."""
    return _read(raw) if has_identifier_annotations else _read_labelled(raw)


def default_pod(pod: SubmittedPod) -> list[Patch]:
    """The JSON patch that gates and labels a new Pod, and adds the finalizer that keeps it until its end was seen.
    Empty without a queue.

    A StatefulSet's Pod becomes a member of the group that has the StatefulSet's Workload, and gets no finalizer: it is
    replaced.
    """
    if not pod.queue:
        return []
    labels, annotations = pod.labels | {MANAGED_LABEL: "true"}, pod.metadata.annotations or {}
    if POD_INDEX_LABEL_ANNOTATION in annotations:
        labels[POD_INDEX_LABEL] = labels.get(annotations[POD_INDEX_LABEL_ANNOTATION], "")
    marks, finalizers, gates = {ROLE_HASH_ANNOTATION: _role(pod)}, pod.metadata.finalizers or [], pod.gates
    kept = list(dict.fromkeys((*finalizers, POD_FINALIZER)))
    if pod.stateful_set:
        name = stateful_set_workload_name(pod.stateful_set)
        labels |= {GROUP_LABEL: name, PREBUILT_LABEL: name}
        # An annotation of the template would go first.
        named = {each: name for each in (GROUP_ANNOTATION, PREBUILT_ANNOTATION) if each in annotations}
        marks, kept = _MARKS_IN_STATEFUL_SET | named, finalizers
    wanted: dict[str, tuple[Any, Any]] = {
        "/metadata/labels": (pod.labels, labels),
        "/metadata/annotations": (annotations, annotations | marks),
        "/metadata/finalizers": (finalizers, kept),
        "/spec/schedulingGates": (gates, list(dict.fromkeys((*gates, ADMISSION_GATE, TOPOLOGY_GATE)))),
    }
    changed = {path: new for path, (old, new) in wanted.items() if old != new}
    if "/spec/schedulingGates" in changed:
        changed["/spec/schedulingGates"] = [{"name": name} for name in changed["/spec/schedulingGates"]]
    # "add" also replaces an existing value.
    return [{"op": "add", "path": path, "value": value} for path, value in changed.items()]


def _role(pod: SubmittedPod) -> str:
    """The hash of what the Pod asks for, whatever it says itself: those of one role are counted by one of them. A Pod of
    another object in a queue, such as a LeaderWorkerSet, has the role that this gave it."""
    annotations = pod.metadata.annotations or {}
    is_anothers = annotations.get(PARENT_ANNOTATION) and pod.metadata.controller is not None
    given = annotations.get(ROLE_HASH_ANNOTATION) if is_anothers else None
    return given or role_hash(tree_of(pod.spec))


def refusal(pod: SubmittedPod, old: SubmittedPod | None = None) -> str | None:
    """Why the Pod, new or changed from `old`, is refused; None if it is allowed. All reasons at once, joined by `;`."""
    problems = [problem for problem in (refusal_of_any(pod, old), *_problems(pod), *_group_problems(pod)) if problem]
    if old is not None and old.group and pod.group != old.group:
        problems.append(f"metadata.{pod.group_place}: immutable")
    if old is not None and old.group and old.role and pod.role != old.role:
        problems.append(f"metadata.annotations[{ROLE_HASH_ANNOTATION}]: immutable")
    return "; ".join(problems) or None


def _problems(pod: SubmittedPod) -> list[str]:
    managed = pod.labels.get(MANAGED_LABEL, "true")
    return [f"metadata.labels[{MANAGED_LABEL}]: expected 'true', got {managed!r}"] if managed != "true" else []


def _group_problems(pod: SubmittedPod) -> list[str]:
    """A group needs a name that a Workload may have, and the total number of its Pods."""
    if pod.stateful_set:
        return []
    total = (pod.metadata.annotations or {}).get(GROUP_COUNT_ANNOTATION)
    if not pod.group:
        return [] if total is None else [f"metadata.{pod.group_place}: required with {GROUP_COUNT_ANNOTATION}"]
    found = []
    if not is_name(pod.group):
        found.append(f"metadata.{pod.group_place}: expected a DNS subdomain name, got {pod.group!r}")
    if total is None or positive(total) is None:
        found.append(f"metadata.annotations[{GROUP_COUNT_ANNOTATION}]: expected a number greater than 0, got {total!r}")
    named = [where for where, name in prebuilt_marks(pod) if name]
    return found + [f"metadata.{where}: a group has the Workload that is made for it" for where in named]
