"""Maps error answers of an API server to our exceptions, by one table; which failed requests are retried, by another.

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

from collections.abc import Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime

import msgspec

from multikueue.api.values.foreign import excerpt
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    MultiKueueError,
    NotFound,
    ServerError,
    Throttled,
    TooLarge,
    Unauthorized,
)
from multikueue.kube.decode import UNREADABLE

__all__ = [
    "BY_REASON",
    "BY_STATUS",
    "LONGEST_RETRY_AFTER",
    "MAX_RETRIES",
    "Status",
    "error_from_answer",
    "error_from_status",
    "is_repeatable",
    "wait_before_retry",
]

BY_STATUS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Throttled,
}
"""Exception class by HTTP status. 5xx is ServerError; any other status is a plain ApiError."""

BY_REASON: Mapping[str, type[ApiError]] = {"AlreadyExists": AlreadyExists, "Expired": Expired, "Gone": Expired}
"""Exception class by reason. It takes precedence over the status, which is less specific."""

LONGEST_RETRY_AFTER = timedelta(minutes=2)
"""Upper limit of a Retry-After. A longer one is cut to this."""

_LONGEST_REASON = 64

_SHOWN = 200
"""Bytes of an unknown body that a message shows."""


class _Details(msgspec.Struct, gc=False):
    retry_after_seconds: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class Status(msgspec.Struct, gc=False):
    """The fields of metav1.Status that an error needs. All are optional: servers and proxies leave some out."""

    kind: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


def error_from_answer(status: int, headers: Mapping[str, str], body: bytes, *, call: str) -> ApiError:
    """The exception for an HTTP answer with an error status.

    `headers` is aiohttp's case-insensitive mapping; `call` names the request in the message. A body that is no Status
    (a proxy's HTML page, an empty body) is an error as well, and the message shows its beginning.
    """
    answer = _status_of(body) or Status(message=_shown(headers.get("Content-Type", ""), body))
    return _error(status, answer, call=call, after=_retry_after(headers, answer))


def error_from_status(raw: bytes | msgspec.Raw, *, call: str) -> ApiError:
    """The exception for a watch event of type ERROR. An unreadable event gives a ServerError with status 500."""
    answer = _status_of(raw) or Status(message=_shown("", bytes(raw)))
    return _error(answer.code or 500, answer, call=call, after=_details_after(answer))


def _error(status: int, answer: Status, *, call: str, after: float | None) -> ApiError:
    reason = answer.reason or ""
    kind = BY_REASON.get(reason) or BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)
    message = excerpt(answer.message or "no message")
    return kind(status, excerpt(reason, _LONGEST_REASON) or kind.__name__, message, call=call, after=after)


def _status_of(body: bytes | msgspec.Raw) -> Status | None:
    try:
        answer = _decode_status(body)
    except UNREADABLE:
        return None
    return answer if answer.kind == "Status" or answer.reason or answer.message else None


def _shown(content_type: str, body: bytes) -> str:
    if not body:
        return "empty body"
    what = content_type.partition(";")[0] or "unknown content"
    return f"{what} instead of a Status: {body[:_SHOWN].decode(errors='replace')!r}"


def _retry_after(headers: Mapping[str, str], answer: Status) -> float | None:
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return min(float(text), LONGEST_RETRY_AFTER.total_seconds())
    return _seconds_until(text, headers.get("Date", "")) if text else _details_after(answer)


def _seconds_until(when: str, date: str) -> float | None:
    """Seconds of a Retry-After that is a date, by the clock of the server that sent it."""
    try:
        wait = (parsedate_to_datetime(when) - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, wait), LONGEST_RETRY_AFTER.total_seconds())


def _details_after(answer: Status) -> float | None:
    seconds = answer.details.retry_after_seconds if answer.details else None
    return min(seconds, LONGEST_RETRY_AFTER.total_seconds()) if seconds and seconds > 0 else None


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
