"""Decisions of the scheduler about a workload, until its status shows them: a verdict, or an eviction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from multikueue.api.kueue.workload import PodSetRequest
from multikueue.api.meta import ObjectKey

PENDING = "Pending"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pending workload has no quota, and what it asked for: the text and figures of its status."""

    message: str
    resource_requests: tuple[PodSetRequest, ...] = ()
    reason: str = PENDING


class Cause(Enum):
    """Why a workload is preempted: the reason of its condition Preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


@dataclass(frozen=True, slots=True)
class Eviction:
    """The eviction of a workload: the reason of its condition Preempted, and the message. `by` is the ClusterQueue of
    the preemptor."""

    key: ObjectKey
    cause: Cause
    message: str
    by: str
