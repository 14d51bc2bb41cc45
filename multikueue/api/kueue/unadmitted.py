"""Reasons of the conditions QuotaReserved=False and Admitted=False of a workload.

Kueue has two sets of them. The few that it always had say that a workload waits or cannot be admitted; those of KEP 10852
(0.19, the gate UnadmittedWorkloadsObservability) say why.
"""

from __future__ import annotations

INADMISSIBLE = "Inadmissible"

# Since KEP 10852.
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"

NEVER_ADMITTED = (INADMISSIBLE, MISCONFIGURED, SUSPENDED)
"""QuotaReserved=False with one of these: no cycle looks at the workload until somebody changes it or its queues."""
