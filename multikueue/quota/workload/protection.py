"""Protection from preemption, beyond Kueue's rules: an annotation, which counts only where a setting allows it."""

from __future__ import annotations

from multikueue.api.kueue.workload import NON_PREEMPTIBLE_ANNOTATION, Workload

INVALID_ANNOTATION = "InvalidAnnotation"
"""The reason of the event about an invalid annotation."""


def is_non_preemptible(workload: Workload) -> bool:
    """Whether the workload asks not to be preempted."""
    return workload.metadata.annotations.get(NON_PREEMPTIBLE_ANNOTATION) == "true"


def non_preemptible_problem(workload: Workload) -> str:
    """The error in its annotation, which then counts as absent; empty if there is none."""
    value = workload.metadata.annotations.get(NON_PREEMPTIBLE_ANNOTATION, "false")
    if value in ("true", "false"):
        return ""
    name = workload.key
    return f'Workload {name}: annotation {NON_PREEMPTIBLE_ANNOTATION}: expected "true" or "false", got "{value}"'
