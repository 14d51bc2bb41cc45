"""The rules for taking the lease, as pure functions. Two mandates never overlap, unless a release is forged.

- The lease is judged by how long *we* have seen it unchanged, on our clock. The times in it are never compared with
  ours, so clocks may differ as they like; they need only run at about the same speed.
- A holder acts until `renew_deadline` after the start of its last successful renewal. Every other process saw that
  renewal later than that, and waits `lease_duration` from then on, which is longer.
- A lease that was deleted, emptied or made invalid does not prove that its holder has stopped: it counts as held by an
  unknown process. Only the release, the last write of a holder, makes the lease free at once.
- All writes name the version they are based on, so of two candidates at the same instant one gets a Conflict.

Records are those of Kubernetes' own components: `kubectl get lease` shows the holder, and the release is client-go's.
"""

from __future__ import annotations

from datetime import datetime
from math import ceil
from typing import Any

import msgspec

from multikueue.api.kubernetes.builtins import Lease, LeaseSpec, record_of, render_micro_time

__all__ = ["Candidate", "Claim", "Lost", "Observation", "Step", "Wait", "claimed", "observe", "released", "step"]

LONGEST = 3600
"""Seconds. The settings allow no longer lease, so a record with a longer one is invalid."""

RELEASED = 1
"""The duration, in seconds, that client-go and we write into a released lease."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One process that wants the lease; seconds. 0 < retry_period < renew_deadline < lease_duration."""

    identity: str
    lease_duration: float
    renew_deadline: float
    retry_period: float


class Observation(msgspec.Struct, frozen=True):
    """The lease as last seen, None if there was none, and since when (seconds, our clock) it has not changed."""

    lease: Lease | None
    since: float


class Claim(msgspec.Struct, frozen=True):
    """Write our claim over this version of the lease; create the lease if None."""

    over: Lease | None


class Wait(msgspec.Struct, frozen=True):
    """Another process holds the lease, for at least so many seconds."""

    seconds: float


class Lost(msgspec.Struct, frozen=True):
    """We held the lease, and another process does now."""

    to: str


Step = Claim | Wait | Lost


def observe(last: Observation | None, lease: Lease | None, now: float) -> Observation:
    """The observation after a read of the lease; `now` is the time when the answer arrived."""
    return last if last is not None and _version(last.lease) == _version(lease) else Observation(lease, now)


def step(seen: Observation, candidate: Candidate, *, is_leading: bool, now: float) -> Step:
    """The next step with the lease. `is_leading`: our mandate is valid.

    A leader restores a lease that is gone or names no holder: no other process may have taken it meanwhile.
    """
    record = record_of(seen.lease)
    if record.holder_identity == candidate.identity:
        return Claim(seen.lease)
    if is_leading:
        return Lost(record.holder_identity) if record.holder_identity else Claim(seen.lease)
    wait = 0.0 if _is_released(record) else seen.since + _patience(record, candidate) - now
    return Wait(wait) if wait > 0 else Claim(seen.lease)


def claimed(over: Lease | None, candidate: Candidate, now: datetime) -> dict[str, Any]:
    """The spec of our claim as of `now` (wall clock)."""
    record = record_of(over)
    spec = {
        "holderIdentity": candidate.identity,
        "leaseDurationSeconds": ceil(candidate.lease_duration),
        "renewTime": render_micro_time(now),
    }
    if record.holder_identity == candidate.identity:
        return spec
    return spec | {"acquireTime": spec["renewTime"], "leaseTransitions": _transitions(over, record)}


def released(now: datetime) -> dict[str, Any]:
    """The spec that releases the lease: the holder's last write."""
    at = render_micro_time(now)
    return {"holderIdentity": "", "leaseDurationSeconds": RELEASED, "renewTime": at, "acquireTime": at}


def _version(lease: Lease | None) -> tuple[str, str] | None:
    return None if lease is None else (lease.metadata.uid, lease.metadata.resource_version)


def _is_released(record: LeaseSpec) -> bool:
    return not record.holder_identity and record.lease_duration_seconds == RELEASED


def _patience(record: LeaseSpec, candidate: Candidate) -> float:
    """Seconds that the lease must stay unchanged before it is free: its own duration, and never less than ours, since a
    process other than its holder may have written it."""
    asked = record.lease_duration_seconds
    return max(asked, candidate.lease_duration) if 0 < asked <= LONGEST else candidate.lease_duration


def _transitions(over: Lease | None, record: LeaseSpec) -> int:
    return 0 if over is None else max(0, record.lease_transitions) + 1
