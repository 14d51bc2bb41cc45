"""Decisions of the scheduler about a workload, until its status shows them: a verdict, or an eviction; and their reasons."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from multikueue.api.kueue.unadmitted import PENDING
from multikueue.api.kueue.workload import PodSetRequest
from multikueue.api.meta import ObjectKey

LOST = "Workload no longer fits after processing another workload"
OVERLAPPING = "Workload has overlapping preemption targets with another workload"

_NO_FLAVORS = "couldn't assign flavors to pod set"
_SHORT = re.compile(r"(?:, )?insufficient unused quota for \S+ in flavor \S+, \S+ more needed")
_USED = re.compile(r"(?<=previously considered podsets requests )\(\S+\)")
_TARGETS = re.compile(r"(?<=Pending the preemption of )\d+")
_NOTHING_ELSE = re.compile(rf"{_NO_FLAVORS} \S+: *(?:; |(?=\. )|$)")


class Verdict(msgspec.Struct, frozen=True):
    """Why a pending workload has no quota, and what it asked for: the text and figures of its status. `reason` is that
    of QuotaReserved=False."""

    message: str
    resource_requests: tuple[PodSetRequest, ...] = ()
    reason: str = PENDING

    def is_news_after(self, told: Verdict | None) -> bool:
        """Whether it decides something else than an earlier verdict on the same workload; see `is_news`."""
        if told is None or self.reason != told.reason:
            return True
        return self.resource_requests != told.resource_requests or is_news(self.message, told.message)


def is_news(message: str, told: str) -> bool:
    """Whether the message of a verdict says something that lasts, and that was not `told`.

    How much of the quota is in use changes with each end of a job, and with it how much of which resource is missing, in
    which flavor, for which pod set. As news it would be written into each workload that waits, at each end. That quota is
    missing at all is news, and that a flavor has a taint, or can never hold so much.
    """
    if message == told or (message in (LOST, OVERLAPPING) and told.startswith(_NO_FLAVORS)):
        return False
    return _gist(message) != _gist(told)


def _gist(message: str) -> str:
    """What of a message no end of a job changes: `couldn't assign flavors to pod set main: insufficient unused quota for cpu
    in flavor a, 4 more needed, untolerated taint in flavor b` keeps the taint."""
    if not message.startswith(_NO_FLAVORS):
        return message
    rest = _SHORT.sub("", _TARGETS.sub("", _USED.sub("", message))).replace(": , ", ": ")
    return f"{_NO_FLAVORS} {_NOTHING_ELSE.sub('', rest).rstrip('; ')}"


class Cause(Enum):
    """Why a workload is preempted: the reason of its condition Preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


class Eviction(msgspec.Struct, frozen=True):
    """The eviction of a workload: the reason of its condition Preempted, and the message. `by` is the ClusterQueue of
    the preemptor."""

    key: ObjectKey
    cause: Cause
    message: str
    by: str


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons of QuotaReserved=False and Admitted=False.

    With `is_granular` the former say why, and the latter is reported of each workload of which the former is. With
    `is_explicit` as well, both are reported before a cycle has looked at the workload, which costs it a write.
    """

    is_granular: bool = False
    is_explicit: bool = False

    def of(self, reason: str, *, before: str = PENDING) -> str:
        """That granular reason, or what is said in its place where reasons are as they were `before`."""
        return reason if self.is_granular else before


AS_BEFORE = Reasons()
