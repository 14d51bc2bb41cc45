"""Reasons of the conditions QuotaReserved=False and Admitted=False of a workload.

Kueue has two sets of them. The few that it always had say that a workload waits or cannot be admitted; those of KEP 10852
(0.19, the gate UnadmittedWorkloadsObservability) say why.
"""

from __future__ import annotations

# QuotaReserved=False, always.
PENDING = "Pending"
INADMISSIBLE = "Inadmissible"
WAITING = "Waiting"
ADMISSION_GATED = "AdmissionGated"

# QuotaReserved=False, since KEP 10852; besides these, AdmissionGated and Deactivated.
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
WAITING_FOR_QUOTA = "WaitingForQuota"
WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
WAITING_FOR_PODS_READY = "WaitingForPodsReady"
PENDING_EVALUATION = "PendingEvaluation"

# Admitted=False.
NO_RESERVATION = "NoReservation"
NO_RESERVATION_UNSATISFIED_CHECKS = "NoReservationUnsatisfiedChecks"
"""Not since KEP 10852."""
UNSATISFIED_ADMISSION_CHECKS = "UnsatisfiedAdmissionChecks"
PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"

OF_CYCLES = (
    NO_MATCHING_FLAVOR,
    EXCEEDS_MAX_QUOTA,
    WAITING_FOR_QUOTA,
    WAITING_FOR_PREEMPTED_WORKLOADS,
    WAITING_FOR_PODS_READY,
    PENDING_EVALUATION,
)
"""QuotaReserved=False with one of these granular reasons: a cycle found that, or has still to look at the workload."""

NEVER_ADMITTED = (INADMISSIBLE, MISCONFIGURED, SUSPENDED)
"""QuotaReserved=False with one of these: no cycle looks at the workload until it or its queues change."""
