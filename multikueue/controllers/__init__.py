"""One small reconcile function per concern: ask the store, decide, apply, say when to look again.

What each of them uses is in `reconcile`. `workloads` and `quota` are the manager cluster's, `workers` the connections and
what is written through them; `job_kinds`, `serving`, `leader_election` and `metrics` are about the process itself, and
`reload` has its settings follow their file. Decisions are made in the pure rooms; what is here awaits, catches and writes.
`roles` chooses who runs, `manager` wires and starts it all. Joining a worker is `registration`, which no controller needs.
"""
