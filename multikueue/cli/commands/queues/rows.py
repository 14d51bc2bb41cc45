"""A queue as a row of a list."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from multikueue.cli.terminal.output import Column, age

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.kueue.queues import ClusterQueue, LocalQueue

__all__ = ["LOCAL", "NAMESPACE", "columns", "row_of", "state_of"]

COUNTS = (Column("PENDING"), Column("RESERVING"), Column("ADMITTED"), Column("STATE"), Column("AGE"))
NAMESPACE = Column("NAMESPACE")
LOCAL = (Column("NAME"), Column("CLUSTERQUEUE"), *COUNTS, Column("MESSAGE", is_wide=True))
CLUSTER = (Column("NAME"), Column("COHORT"), *COUNTS, Column("MESSAGE", is_wide=True))


def columns(kind: Kind[Any], where: str) -> tuple[Column, ...]:
    if not kind.namespaced:
        return CLUSTER
    return LOCAL if where else (NAMESPACE, *LOCAL)


def row_of(queue: LocalQueue | ClusterQueue, moment: datetime) -> tuple[str, ...]:
    state = queue.status
    counts = state.pending_workloads, state.reserving_workloads, state.admitted_workloads
    parent = getattr(queue.spec, "cluster_queue", "") or getattr(queue.spec, "cohort_name", "")
    made = age(queue.metadata.creation_timestamp, moment)
    return queue.metadata.name, parent, *map(str, counts), state_of(queue), made, _message(queue)


def state_of(queue: LocalQueue | ClusterQueue) -> str:
    """The state in one word: from the stop policy, else from the condition Active."""
    from multikueue.api.meta import find_condition

    if queue.spec.stop_policy != "None":
        return "Held" if queue.spec.stop_policy == "Hold" else "Drained"
    active = find_condition(queue.status.conditions, "Active")
    if active is None:
        return "Unknown"
    return "Active" if active.status == "True" else active.reason or "Inactive"


def _message(queue: LocalQueue | ClusterQueue) -> str:
    from multikueue.api.meta import find_condition

    active = find_condition(queue.status.conditions, "Active")
    return active.message if active else "no manager has looked at it yet"
