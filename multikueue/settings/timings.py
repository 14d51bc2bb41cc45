"""Times that are no settings: nobody has a reason to change them in production. Tests and the simulator do."""

from __future__ import annotations

from datetime import timedelta

import msgspec

__all__ = ["Timings"]


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one process. What a user may have a reason to change is a setting instead."""

    call_timeout: timedelta = timedelta(seconds=10)
    """How long one API call may take: as long as an API server waits for a webhook by default."""

    heartbeat_timeout: timedelta = timedelta(seconds=2)
    """How long a worker may take to answer a heartbeat, on a new connection too."""

    suspect_after: timedelta = timedelta(seconds=2)
    """How long a worker fails until it is suspect: it gets no new copies, those it has stay. A moment
    of trouble, such as a watch that is opened again, is over by then and not shown."""

    isolate_after: timedelta = timedelta(seconds=5)
    """How long a worker fails until it is isolated: calls to it fail at once until it answers a heartbeat. Each call
    before that may take `call_timeout`, and holds one of the calls that may be under way."""

    retry_first: timedelta = timedelta(milliseconds=200)
    """The wait after the first failure of a key; doubles with each further one."""

    retry_cap: timedelta = timedelta(minutes=5)
    """The longest wait after a failure of a key, so also the longest it lags when a cause goes away unseen."""

    reconnect_first: timedelta = timedelta(seconds=1)
    """The longest wait before the first new attempt to connect to a worker; doubles with each further one."""

    reconnect_cap: timedelta = timedelta(seconds=30)
    """The longest wait between two attempts to connect, so also the longest a worker that is back goes unnoticed."""

    strategy_timeout: timedelta = timedelta(seconds=1)
    """How long a strategy that is not ours may think about one workload, and the wait after its first failure. It
    decides over values in memory; one that asks somebody else belongs beside the manager, as a dispatcher."""
