"""Lease (coordination.k8s.io/v1), as candidates for leadership read and write it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from multikueue.api.meta import Int64, Object, Time, Value, decoder

__all__ = ["Lease", "LeaseSpec", "record_of", "render_micro_time"]


class LeaseSpec(Value):
    """The holder of a lease; none if `holder_identity` is empty. The times are for people: no decision rests on
    them."""

    holder_identity: str = ""
    lease_duration_seconds: Int64 = 0
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int64 = 0


class Lease(Object):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_decode_spec = decoder(LeaseSpec)


def record_of(lease: Lease | None) -> LeaseSpec:
    """The spec of a lease. One that cannot be decoded counts as empty, and an empty one has no holder."""
    if lease is None:
        return LeaseSpec()
    try:
        return _decode_spec(lease.spec)
    except msgspec.DecodeError:
        return LeaseSpec()


def render_micro_time(when: datetime) -> str:
    """RFC 3339 with six digits and a Z, as Kubernetes writes metav1.MicroTime."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
