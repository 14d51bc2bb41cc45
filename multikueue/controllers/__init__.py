"""One small reconcile function per concern: ask the store, decide, apply, say when to look again.

What each of them uses is in `reconcile`. `workloads` and `quota` are the manager cluster's, `workers` the connections
and what is written through them; `job_kinds`, `serving`, `leader_election` and `metrics` are about the process itself,
and `reload` applies changes of the settings file. The pure rooms make the decisions; the code here awaits, catches and
writes. `roles` chooses the controllers, `manager` wires and starts them. Joining a worker is `registration`, which none
needs.
"""
