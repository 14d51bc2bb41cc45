"""What the scheduler decided about a workload, until its status shows it: why it waits, or why it has to go."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from multikueue.api.meta import ObjectKey
from multikueue.api.workload import PodSetRequest

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
    """What a workload that has to go is told: why, in a word for its condition Preempted, and in a sentence. It goes for
    a workload of the ClusterQueue `by`."""

    key: ObjectKey
    cause: Cause
    message: str
    by: str
