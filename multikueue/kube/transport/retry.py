"""The rule which failed requests are retried, and after which wait.

| failure                         | a read, or a write guarded by version or UID | any other write                    |
|---------------------------------|----------------------------------------------|------------------------------------|
| no answer                       | retry                                        | never: it may have succeeded       |
| an answer that is too large     | never                                        | never                              |
| 429 or 503 with Retry-After     | retry                                        | retry: the server did not begin it |
| any other 5xx                   | retry                                        | never                              |
| all else, 409 Conflict included | never                                        | never                              |

The retry of a guarded write that succeeded without an answer gives Conflict or NotFound: the caller reconciles again.
"""

from __future__ import annotations

import msgspec

from multikueue.errors import ApiError, ClusterUnreachable, MultiKueueError, ServerError, Throttled, TooLarge

__all__ = ["MAX_RETRIES", "is_repeatable", "wait_before_retry"]

MAX_RETRIES = 2
_FIRST_WAIT = 0.2
"""Longest wait before the first retry, in seconds; doubled for the second."""


class _Metadata(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Preconditions(msgspec.Struct, gc=False):
    uid: str | None = None
    resource_version: str | None = msgspec.field(name="resourceVersion", default=None)


class _Guarded(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None
    preconditions: _Preconditions | None = None


_decode_guarded = msgspec.json.Decoder(_Guarded).decode


def is_repeatable(method: str, body: bytes) -> bool:
    """Whether the request is idempotent: a read, or a write that names resource version or UID."""
    if method == "GET":
        return True
    if method == "POST" or not body:
        return False
    try:
        return _has_precondition(body)
    except msgspec.DecodeError:
        return False


def _has_precondition(body: bytes) -> bool:
    guarded = _decode_guarded(body)
    if guarded.metadata is not None and guarded.metadata.resource_version:
        return True
    wanted = guarded.preconditions
    return wanted is not None and bool(wanted.uid or wanted.resource_version)


def wait_before_retry(failure: MultiKueueError, *, is_repeatable: bool, attempt: int, chance: float) -> float | None:
    """Seconds to wait before the retry after failure number `attempt` (from 1); None: no retry.

    `chance` in [0, 1) is the jitter. A Retry-After is a lower bound.
    """
    if attempt > MAX_RETRIES or isinstance(failure, TooLarge):
        return None
    wait = _FIRST_WAIT * attempt * (0.5 + chance / 2)
    if isinstance(failure, ApiError) and failure.status in (429, 503) and failure.after is not None:
        return failure.after + wait
    if isinstance(failure, Throttled) or not is_repeatable:
        return None
    if isinstance(failure, ServerError):
        return max(wait, failure.after or 0.0)
    return wait if isinstance(failure, ClusterUnreachable) else None
