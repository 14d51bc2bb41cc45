"""Generic controller machinery over keys: work queue, controller loop, supervisor, back-off, clock, mandate.

`controller` is the loop with its queue, `concurrency` limits what runs at the same time, `process` is about this process.
Here belongs what keeps any work going. Nothing here knows Kubernetes, and no domain decision is made here. The room
imports `telemetry` and `errors` only. `controllers` write the reconcile functions that it runs, `manager` starts the
loops and the supervisors, `kube` borrows back-off and clock.

Two of the four places that may catch every `Exception` are here: the controller loop and the supervisor. The others are
a cache that takes in an object, and the call of a strategy. Both here let cancellation and `InvariantBroken` pass.
"""

from multikueue.runtime.clock import Clock, Mandate, SystemClock
from multikueue.runtime.concurrency import (
    AdaptiveLimit,
    DeadlineExceeded,
    DeadlinePool,
    PoolSaturated,
    Turnstile,
    first,
)
from multikueue.runtime.controller.controller import AGAIN, DONE, Result, run_controller
from multikueue.runtime.controller.queue import Closed, Depth, QueuePriority, WorkQueue
from multikueue.runtime.controller.supervisor import Backoff, supervise
from multikueue.runtime.process.files import watch_files

__all__ = [
    "AGAIN",
    "DONE",
    "AdaptiveLimit",
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
