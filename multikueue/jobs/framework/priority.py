"""The priority of a job's Workload, and the class it comes from (quota-engine 6.2)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from multikueue.api.kubernetes.builtins import PriorityClass
from multikueue.api.kueue.queues import WorkloadPriorityClass
from multikueue.api.kueue.workload import CLASS_VALUE_ANNOTATION, PriorityClassRef

_WORKLOAD_CLASS = ("kueue.x-k8s.io", "WorkloadPriorityClass")
_POD_CLASS = ("scheduling.k8s.io", "PriorityClass")

_OF_SYSTEM = "system-"
"""PriorityClasses whose names begin so belong to Kubernetes, which lets no user make others of them. Their values are above any
that an administrator may give, and any pod of any namespace may name them."""


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
    should_count_system_classes: bool = False,
) -> Priority | str:
    """The priority of a job that names these classes (empty: none), or a text that says which class is missing.

    Order of precedence: WorkloadPriorityClass, the pods' PriorityClass, the cluster's default PriorityClass. Of several
    defaults (a race in Kubernetes allows that) the smallest counts. A PriorityClass of the system counts as none, unless it
    should count: else a tenant's job outranks all others.
    """
    if workload_class:
        found = classes.get(workload_class)
        return (
            Priority(found.value, workload_class_ref(workload_class))
            if found
            else _missing(_WORKLOAD_CLASS, workload_class)
        )
    if pod_class and (should_count_system_classes or not pod_class.startswith(_OF_SYSTEM)):
        given = pod_classes.get(pod_class)
        return Priority(given.value, _ref(_POD_CLASS, pod_class)) if given else _missing(_POD_CLASS, pod_class)
    defaults = [(c.value, c.metadata.name) for c in pod_classes.values() if c.global_default]
    if not defaults:
        return Priority()
    value, name = min(defaults)
    return Priority(value, _ref(_POD_CLASS, name))


def class_marks(priority: Priority) -> dict[str, str]:
    """The annotations of a Workload with this priority."""
    return {CLASS_VALUE_ANNOTATION: str(priority.value)} if is_workload_class(priority.class_ref) else {}


def workload_class_ref(name: str) -> PriorityClassRef:
    return _ref(_WORKLOAD_CLASS, name)


def is_workload_class(ref: PriorityClassRef | None) -> bool:
    return ref is not None and ref.kind == _WORKLOAD_CLASS[1]


def _ref(kind: tuple[str, str], name: str) -> PriorityClassRef:
    return PriorityClassRef(group=kind[0], kind=kind[1], name=name)


def _missing(kind: tuple[str, str], name: str) -> str:
    return f'{kind[1]} "{name}" not found: create it, or name another'
