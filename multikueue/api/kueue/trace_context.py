"""The identifiers of a workload's trace: they follow from its UID, so each process, and each copy, names the same trace."""

from __future__ import annotations

from hashlib import sha256

__all__ = ["TRACEPARENT_ANNOTATION", "span_id", "trace_id", "traceparent"]

TRACEPARENT_ANNOTATION = "multikueue.dev/traceparent"
"""On a copy: the trace of its workload, as W3C's Trace Context writes it, for what runs there."""

ROOT = "workload"
"""The name of the span that has all others."""


def trace_id(uid: str) -> str:
    """16 bytes in hex."""
    return sha256(uid.encode()).hexdigest()[:32]


def span_id(uid: str, *what: str) -> str:
    """8 bytes in hex, of the span, which these words distinguish from others of the workload."""
    return sha256("/".join((uid, *what)).encode()).hexdigest()[:16]


def traceparent(uid: str) -> str:
    """The header `traceparent` whose parent is the span of the whole workload (version 00, sampled)."""
    return f"00-{trace_id(uid)}-{span_id(uid, ROOT)}-01"
