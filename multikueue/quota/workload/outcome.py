"""Decisions of the scheduler about a workload, until its status shows them: a verdict, or an eviction."""

from __future__ import annotations

from enum import Enum

import msgspec

from multikueue.api.kueue.unadmitted import PENDING
from multikueue.api.kueue.workload import PodSetRequest
from multikueue.api.meta import ObjectKey


class Verdict(msgspec.Struct, frozen=True):
    """Why a pending workload has no quota, and what it asked for: the text and figures of its status. `reason` is that
    of QuotaReserved=False. `is_gated`: a preemption gate keeps it from what it needs."""

    message: str
    resource_requests: tuple[PodSetRequest, ...] = ()
    reason: str = PENDING
    is_gated: bool = False


class Cause(Enum):
    """Why a workload is preempted: the reason of its condition Preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"
    MIGRATION = "FlavorMigration"
    """No preemption: a variant makes room for one of its siblings (KEP 8691)."""


class Eviction(msgspec.Struct, frozen=True):
    """The eviction of a workload: the reason of its condition Preempted, and the message. `by` is the ClusterQueue of
    the preemptor."""

    key: ObjectKey
    cause: Cause
    message: str
    by: str
