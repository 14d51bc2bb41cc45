"""Every error we raise on purpose, as a tree by what the caller can do about it.

MultiKueueError
├── ConfigurationError        stop at start, exit code 2
├── StrategyError             this workload waits, others go on
├── InvalidObject             an object of the user breaks a rule; names object, field, expectation
├── InvariantBroken           our bug: never retried, ends the process
├── NotKept                   the API server accepted a write, and stored something else
├── NotLeading                another process leads: nothing was sent
├── ClusterUnreachable        no answer: the connection to this cluster is suspect, no other one
│   └── TooLarge              the answer exceeds our limit: the same request would give the same answer
└── ApiError                  the API server refused
    ├── Unauthorized (401)    credentials must be refreshed
    ├── Forbidden (403)       a permission is missing
    ├── NotFound (404)
    ├── Conflict (409)        look again
    ├── AlreadyExists (409)   reason AlreadyExists
    ├── Expired (410)         list again
    ├── Invalid (400, 422)    what we sent is refused; never retried as it is
    ├── Throttled (429)       wait for `after`
    └── ServerError (5xx)     retried
"""

from __future__ import annotations


class MultiKueueError(Exception):
    """Root of the tree."""


class ConfigurationError(MultiKueueError):
    """The configuration cannot work; the message names the place, the value and the expectation."""


class StrategyError(MultiKueueError):
    """A strategy raised, or named clusters that are not in its fleet."""


class InvalidObject(MultiKueueError):
    """An object breaks a rule of its kind: `object`, `field`, what was expected, what to do."""

    def __init__(self, obj: str, field: str, expected: str, got: object = None) -> None:
        shown = "" if got is None else f", got {got!r:.100}"
        super().__init__(f"{obj}: {field}: expected {expected}{shown}")
        self.object, self.field, self.expected = obj, field, expected


class InvariantBroken(MultiKueueError):
    """A bug of ours: an invariant does not hold. Going on could do harm, so no handler swallows it."""


class NotKept(MultiKueueError):
    """A write was accepted, and the answer lacks what was written: a policy, a webhook or another definition changes it."""


class NotLeading(MultiKueueError):
    """A write was not sent, because this process has no mandate, or no longer."""


class ClusterUnreachable(MultiKueueError):
    """No usable answer: refused, reset, timed out, or the connection is known to be down.

    `was_sent` is False if the request surely was not sent, so that it has no effect.
    """

    def __init__(self, cluster: str, why: str, *, was_sent: bool = True) -> None:
        super().__init__(f"cluster {cluster or 'manager'} is unreachable: {why}")
        self.cluster, self.why, self.was_sent = cluster, why, was_sent


class TooLarge(ClusterUnreachable):
    """The client abandoned an answer larger than its limit."""


class ApiError(MultiKueueError):
    """The API server answered with an error status.

    `status` is the HTTP code, `reason` Kubernetes' word for it, `after` the seconds of a Retry-After header, if any.
    """

    def __init__(self, status: int, reason: str, message: str, *, call: str = "", after: float | None = None) -> None:
        super().__init__(f"{call}: {status} {reason}: {message}" if call else f"{status} {reason}: {message}")
        self.status, self.reason, self.message, self.after = status, reason, message, after


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: another write came first, or a precondition does not hold."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists: the name is taken."""


class Expired(ApiError):
    """410: the resource version is too old."""


class Invalid(ApiError):
    """400 or 422: the server refuses what we sent."""


class Throttled(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx."""
