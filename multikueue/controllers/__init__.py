"""One small reconcile function per concern: ask the store, decide, apply, say when to look again.

`admission` runs the quota cycle, `workloads` writes what quota and dispatch decided about one workload, `outbox` performs
one worker's actions, `jobs` keeps the local job and its workload in step, `clusters` holds the connections, `checks` and
`queues` keep statuses true, `capacity` lets nominal quotas follow the workers, `events` tells people, `webhooks` keeps
the admission webhook in place and `visibility` the visibility API, `registration` joins a worker. `observer` looks on, to
count and to log, and `figures` is what a scrape reads. Decisions are made in the pure rooms; what is here awaits, catches
and writes. `manager` wires and starts it all.
"""
