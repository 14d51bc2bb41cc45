"""What keeps workloads from being preempted, beyond Kueue's rules: annotations, read where something allows them."""

from __future__ import annotations

from multikueue.api.workload import NON_PREEMPTIBLE_ANNOTATION, Workload

INVALID_ANNOTATION = "InvalidAnnotation"
"""The reason of the event that says which annotation cannot be followed."""


def is_non_preemptible(workload: Workload) -> bool:
    """Whether it asks not to be evicted for the sake of others."""
    return workload.metadata.annotations.get(NON_PREEMPTIBLE_ANNOTATION) == "true"


def non_preemptible_problem(workload: Workload) -> str:
    """What is wrong with its annotation, which then counts as absent; empty: nothing."""
    value = workload.metadata.annotations.get(NON_PREEMPTIBLE_ANNOTATION, "false")
    if value in ("true", "false"):
        return ""
    name = workload.key
    return f'Workload {name}: annotation {NON_PREEMPTIBLE_ANNOTATION}: expected "true" or "false", got "{value}"'
