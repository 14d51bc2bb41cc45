"""What was measured of Kueue 0.16.2's MultiKueue manager under faults: the figures that the model plays.

One manager and three workers, each a real kube-apiserver with a real Kueue, on two cores with other loads. Most scenarios ran
once. The names (F1, F2, ...) are those of the scenarios in `docs/simulation.md`.
"""

from __future__ import annotations

__all__ = [
    "ADMISSIONS_PER_SECOND",
    "EVICTED_AFTER",
    "LONGEST_PAUSE",
    "RECONNECT_SHARE",
    "STARTED_ELSEWHERE_AFTER",
]

ADMISSIONS_PER_SECOND = 1.27
"""Workloads admitted on workers without a fault (control of F1 and F2)."""

LONGEST_PAUSE = 65.0
"""Seconds without any admission while one of three workers hangs (F2): a read of one cluster stops the pass of all."""

EVICTED_AFTER = 0.2
"""Seconds from the moment in which a worker's port is closed until its jobs are evicted (F11), whatever
`workerLostTimeout` says."""

STARTED_ELSEWHERE_AFTER = 2.7
"""Seconds from then until they start on another worker (F11)."""

RECONNECT_SHARE = 0.45
"""Time from the return of a worker until the manager reaches it again, as a share of its absence: 45 s after 100 s (F11). Its
back-off doubles, so other absences are taken to be alike."""
