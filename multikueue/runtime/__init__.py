"""Generic controller machinery over keys: work queue, controller loop, supervisor, back-off, clock.

Here belongs what keeps work going whatever it is about; nothing here knows Kubernetes, and no decision of the domain is
made here. The room imports `errors` only. `controllers` write the reconcile functions that this room runs, `manager`
starts the loops and the supervisors, `kube` borrows back-off and clock.

Two of the three places that may catch every `Exception` are here: the controller loop and the supervisor (the third is
the call of a strategy). Both let cancellation and `InvariantBroken` pass.
"""

from multikueue.runtime.backoff import Backoff
from multikueue.runtime.clock import Clock, SystemClock
from multikueue.runtime.controller import DONE, Result, Terminal, run_controller
from multikueue.runtime.queue import Closed, Depth, Priority, WorkQueue
from multikueue.runtime.supervisor import Failure, supervise

__all__ = [
    "DONE",
    "Backoff",
    "Clock",
    "Closed",
    "Depth",
    "Failure",
    "Priority",
    "Result",
    "SystemClock",
    "Terminal",
    "WorkQueue",
    "run_controller",
    "supervise",
]
