"""Maps error answers of an API server to our exceptions, by one table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime

import msgspec

from multikueue.api.values.foreign import excerpt
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from multikueue.kube.decode import UNREADABLE

__all__ = ["BY_REASON", "BY_STATUS", "LONGEST_RETRY_AFTER", "Status", "error_from_answer", "error_from_status"]

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
