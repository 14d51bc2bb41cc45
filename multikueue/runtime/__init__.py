"""Generic controller machinery over keys: work queue, controller loop, supervisor, back-off, clock, mandate.

Here belongs what keeps any work going. Nothing here knows Kubernetes, and no domain decision is made here. The room
imports `telemetry` and `errors` only. `controllers` write the reconcile functions that it runs, `manager` starts the
loops and the supervisors, `kube` borrows back-off and clock.

Two of the four places that may catch every `Exception` are here: the controller loop and the supervisor. The others are
a cache that takes in an object, and the call of a strategy. Both here let cancellation and `InvariantBroken` pass.
"""

from multikueue.runtime.backoff import Backoff
from multikueue.runtime.clock import Clock, SystemClock
from multikueue.runtime.controller import AGAIN, DONE, Result, run_controller
from multikueue.runtime.deadline_pool import DeadlineExceeded, DeadlinePool, PoolSaturated
from multikueue.runtime.files import watch_files
from multikueue.runtime.mandate import Mandate
from multikueue.runtime.queue import Closed, Depth, QueuePriority, WorkQueue
from multikueue.runtime.race import first
from multikueue.runtime.supervisor import supervise
from multikueue.runtime.turnstile import Turnstile

__all__ = [
    "AGAIN",
    "DONE",
    "Backoff",
    "Clock",
    "Closed",
    "DeadlineExceeded",
    "DeadlinePool",
    "Depth",
    "Mandate",
    "PoolSaturated",
    "QueuePriority",
    "Result",
    "SystemClock",
    "Turnstile",
    "WorkQueue",
    "first",
    "run_controller",
    "supervise",
    "watch_files",
]
