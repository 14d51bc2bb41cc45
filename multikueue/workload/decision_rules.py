"""The settings that decisions read, as one value beside the case.

And how long the copy of a finished workload stays on its worker: by the settings, or by an annotation of the user.
"""

from __future__ import annotations

from datetime import timedelta
from zlib import crc32

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.workload import SLICE_REPLACED, SUCCEEDED, Workload
from multikueue.api.meta import Condition, Int64, Object, Value, decoder
from multikueue.api.values.foreign import answer_or
from multikueue.durations import parse_duration
from multikueue.quota.workload.outcome import AS_BEFORE, Reasons

__all__ = [
    "COPY_RETENTION",
    "LONGEST",
    "NO_RETENTION",
    "CopyRetention",
    "DecisionRules",
    "RequeueBackoff",
    "WaitForPodsReady",
    "asked_retention",
    "copy_retention",
    "copy_retention_problem",
    "time_to_live",
]

JITTER = 0.0001
"""The largest addition to a back-off, as a part of it. Workloads that were evicted together should not return in the same
instant; each addition follows from UID and attempt, so it is the same in every process."""

_LONGEST = 62
"""Doublings; more would only make a larger number above any cap."""


class RequeueBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """The wait of an evicted workload before its next attempt (quota-engine 5.2): `first`, doubled with each attempt, `cap`
    at most."""

    first: timedelta
    cap: timedelta

    def after(self, tried: int, uid: str) -> timedelta:
        """The wait of the workload with that UID after `tried` attempts, with its jitter."""
        seconds = min(self.first.total_seconds() * 2.0 ** min(tried, _LONGEST), self.cap.total_seconds())
        return timedelta(seconds=seconds * (1 + JITTER * crc32(f"{uid}/{tried}".encode()) / 2**32))


class WaitForPodsReady(msgspec.Struct, frozen=True, kw_only=True):
    """How long pods may take: `timeout` from admission on, `recovery_timeout` from the failure of a pod that was ready;
    None: no limit. A workload that was late `limit` times already is given up; None: never."""

    timeout: timedelta
    recovery_timeout: timedelta | None = None
    limit: int | None = None


class CopyRetention(msgspec.Struct, frozen=True):
    """How long the copy of a finished workload stays on its worker, counted from the workload's end."""

    succeeded: timedelta = timedelta()
    failed: timedelta = timedelta()

    def of(self, finished: Condition) -> timedelta:
        """That of a workload with this Finished condition. A slice that was replaced leaves its job to the next one."""
        if finished.reason == SLICE_REPLACED:
            return timedelta()
        return self.succeeded if finished.reason == SUCCEEDED else self.failed

    def within(self, limit: timedelta | None) -> CopyRetention:
        """The same, `limit` at most."""
        return self if limit is None else CopyRetention(min(self.succeeded, limit), min(self.failed, limit))


NO_RETENTION = CopyRetention()


class DecisionRules(msgspec.Struct, frozen=True, kw_only=True):
    """What this process decides, and the settings for it.

    - `has_life`: quota and checks are ours to keep, so the rules of a workload's life hold. False beside Kueue.
    - `is_dispatcher_only`: Kueue's own MultiKueue does the dispatch, and only the nomination is decided here.
    - `origin`: what our copies bear as their origin.
    - `lost_after`: how long a worker may be out of reach before what runs there counts as lost.
    - `is_preemption_sequential`: workers may preempt for a workload one at a time only.
    - `compatibility`: the release of Kueue whose messages and decisions are followed.
    - `wait_for_pods_ready`: how long pods may take; None: nothing waits for them.
    - `requeue`: the back-off after an eviction by a check that asked for a retry, or for late pods; None: none.
    - `should_check_gates`: admission gates hold work back.
    - `may_be_non_preemptible`: workloads may ask not to be preempted.
    - `reasons`: what the status of a workload without quota says.
    - `copies`: how long the copy of a finished workload stays where it ran, unless it asks for another time.
    - `most_copies`: how many such copies of a namespace stay on a worker.
    """

    has_life: bool = False
    is_dispatcher_only: bool = False
    origin: str = "multikueue"
    lost_after: timedelta = timedelta(minutes=15)
    is_preemption_sequential: bool = False
    compatibility: Compatibility = NEWEST
    wait_for_pods_ready: WaitForPodsReady | None = None
    requeue: RequeueBackoff | None = None
    should_check_gates: bool = True
    may_be_non_preemptible: bool = False
    reasons: Reasons = AS_BEFORE
    copies: CopyRetention = NO_RETENTION
    most_copies: int = 100


COPY_RETENTION = "multikueue.dev/copy-retention"
"""Annotation of a Workload or its job: a duration, as `12h`. The Workload's goes before the job's."""

LONGEST = timedelta(days=1)
"""The longest that an annotation may ask for, unless all copies stay longer: a user must not fill a worker with what is
over."""


def asked_retention(local: Workload, job: Object | None) -> str:
    """The annotation's text; empty without one."""
    own = local.metadata.annotations.get(COPY_RETENTION, "")
    return own if own or job is None else job.metadata.annotations.get(COPY_RETENTION, "")


def copy_retention(asked: str, rules: DecisionRules) -> CopyRetention:
    """The retention of one workload. An annotation that is no duration counts as absent; a longer time than allowed counts
    as the longest allowed."""
    wanted = parse_duration(asked)
    if wanted is None:
        return rules.copies
    allowed = min(wanted, _longest(rules))
    return CopyRetention(succeeded=allowed, failed=allowed)


class _RunPolicy(Value, frozen=True):
    ttl_seconds_after_finished: Int64 | None = None


class _Lasting(Value, frozen=True):
    ttl_seconds_after_finished: Int64 | None = None
    run_policy: _RunPolicy = _RunPolicy()


def time_to_live(job: AnyJob) -> timedelta | None:
    """How long after its end the manager cluster deletes a job, with which its copy goes; None: it does not."""

    def seconds() -> timedelta | None:
        spec = decoder(_Lasting)(job.spec)
        own = spec.ttl_seconds_after_finished
        found = spec.run_policy.ttl_seconds_after_finished if own is None else own
        return None if found is None else timedelta(seconds=found)

    return answer_or(seconds, otherwise=None)


def copy_retention_problem(asked: str, rules: DecisionRules) -> str:
    """The problem of the annotation; empty if it is good."""
    wanted, longest = parse_duration(asked), _longest(rules)
    if wanted is None:
        return (
            f"annotation {COPY_RETENTION}: expected a duration as 12h or 30m, got {asked[:60]!r}; it counts as absent"
        )
    if wanted > longest:
        return f"annotation {COPY_RETENTION}: {asked} is more than {longest}, the longest that is allowed"
    return ""


def _longest(rules: DecisionRules) -> timedelta:
    return max(rules.copies.succeeded, rules.copies.failed, LONGEST)
