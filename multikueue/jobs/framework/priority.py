"""The priority of a job's Workload, and the class it comes from (quota-engine 6.2)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from multikueue.api.kubernetes.builtins import PriorityClass
from multikueue.api.kueue.queues import WorkloadPriorityClass
from multikueue.api.kueue.workload import PriorityClassRef

_WORKLOAD_CLASS = ("kueue.x-k8s.io", "WorkloadPriorityClass")
_POD_CLASS = ("scheduling.k8s.io", "PriorityClass")


class Priority(msgspec.Struct, frozen=True):
    """A number (higher is more urgent), and the class that it comes from, if any."""

    value: int = 0
    class_ref: PriorityClassRef | None = None


def resolve(
    *,
    workload_class: str,
    pod_class: str,
    classes: Mapping[str, WorkloadPriorityClass],
    pod_classes: Mapping[str, PriorityClass],
) -> Priority | str:
    """The priority of a job that names these classes (empty: none), or a text that says which class is missing.

    Order of precedence: WorkloadPriorityClass, the pods' PriorityClass, the cluster's default PriorityClass. Of several
    defaults (a race in Kubernetes allows that) the smallest counts.
    """
    if workload_class:
        found = classes.get(workload_class)
        return (
            Priority(found.value, workload_class_ref(workload_class))
            if found
            else _missing(_WORKLOAD_CLASS, workload_class)
        )
    if pod_class:
        given = pod_classes.get(pod_class)
        return Priority(given.value, _ref(_POD_CLASS, pod_class)) if given else _missing(_POD_CLASS, pod_class)
    defaults = [(c.value, c.metadata.name) for c in pod_classes.values() if c.global_default]
    if not defaults:
        return Priority()
    value, name = min(defaults)
    return Priority(value, _ref(_POD_CLASS, name))


def workload_class_ref(name: str) -> PriorityClassRef:
    return _ref(_WORKLOAD_CLASS, name)


def is_workload_class(ref: PriorityClassRef | None) -> bool:
    return ref is not None and ref.kind == _WORKLOAD_CLASS[1]


def _ref(kind: tuple[str, str], name: str) -> PriorityClassRef:
    return PriorityClassRef(group=kind[0], kind=kind[1], name=name)


def _missing(kind: tuple[str, str], name: str) -> str:
    return f'{kind[1]} "{name}" not found: create it, or name another'
