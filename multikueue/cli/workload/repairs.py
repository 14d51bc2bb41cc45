"""The remedy for each reason why a workload does not run, as one table. Pure.

A repair names commands that can be run as they stand (QUEUE is the user's choice), and a test runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from multikueue.api.kueue.workload import (
    EVICTED,
    FINISHED,
    FITS_NO_WORKER,
    MAX_EXEC_TIME_LABEL,
    OUT_OF_TIME,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    Workload,
    any_owner_of,
    workload_spec,
)
from multikueue.api.meta import find_condition

__all__ = ["REPAIRS", "repair"]


class _Repair(NamedTuple):
    """`reason` names the case; `words` have the fields `name`, `namespace` and `queue` in braces."""

    reason: str
    is_applicable: Callable[[Workload], bool]
    words: str


def _message_of(workload: Workload, type_: str) -> str:
    """Reason and message of a condition."""
    condition = find_condition(workload.status.conditions, type_)
    return f"{condition.reason}: {condition.message}" if condition else ""


def _is_held(workload: Workload) -> bool:
    return not workload_spec(workload).active


def _is_waiting(workload: Workload, words: str) -> bool:
    return not workload.has(QUOTA_RESERVED) and words in _message_of(workload, QUOTA_RESERVED)


REPAIRS: tuple[_Repair, ...] = (
    _Repair("finished", lambda workload: workload.has(FINISHED), ""),
    _Repair(
        "cannot be dispatched",
        lambda workload: UNDISPATCHABLE_ANNOTATION in workload.metadata.annotations,
        "`multikueue workloads cancel -n {namespace} {name}`, then create the job again as it says.",
    ),
    _Repair(
        "out of time",
        lambda workload: _is_held(workload) and OUT_OF_TIME in _message_of(workload, EVICTED),
        f"Raise its label {MAX_EXEC_TIME_LABEL}, then `multikueue workloads release -n {{namespace}} {{name}}`.",
    ),
    _Repair("held", _is_held, "To queue it again: `multikueue workloads release -n {namespace} {name}`."),
    _Repair(
        "no LocalQueue",
        lambda workload: _is_waiting(workload, "LocalQueue") and _is_waiting(workload, "doesn't exist"),
        "`multikueue queues list -n {namespace}` has the queues that there are,"
        " `multikueue workloads move -n {namespace} {name} --to QUEUE` takes it there.",
    ),
    _Repair(
        "LocalQueue stopped",
        lambda workload: (
            _is_waiting(workload, f"LocalQueue {workload_spec(workload).queue_name} is")
            or (not workload.has(QUOTA_RESERVED) and "LocalQueueStopped" in _message_of(workload, EVICTED))
        ),
        "`multikueue queues show -n {namespace} {queue}` says why;"
        " one that is held goes on with `multikueue queues resume -n {namespace} {queue}`.",
    ),
    _Repair(
        "ClusterQueue stopped",
        lambda workload: _is_waiting(workload, "is inactive") or _is_waiting(workload, "is stopped"),
        "`multikueue queues list -n {namespace} -o wide` has its ClusterQueue, `multikueue queues show clusterqueue/QUEUE`"
        " says why it is not active.",
    ),
    _Repair(
        "fits no worker",
        lambda workload: workload.has(FITS_NO_WORKER),
        "Ask for less, or have a worker enlarged: `multikueue clusters capacity` has what there is.",
    ),
)
"""In order: the first that holds is shown. Empty words: the user has nothing to do."""


def repair(workload: Workload) -> str:
    """The remedy, as a sentence; empty where waiting suffices."""
    found = next((each.words for each in REPAIRS if each.is_applicable(workload)), "")
    owner = any_owner_of(workload)
    name = f"{owner.kind.lower()}/{owner.name}" if owner else workload.metadata.name
    return found.format(name=name, namespace=workload.metadata.namespace, queue=workload_spec(workload).queue_name)
