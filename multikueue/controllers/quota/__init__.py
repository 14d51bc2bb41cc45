"""Quota on the manager cluster: cycles, queues, nominal quotas. Decided in `multikueue.quota`, written here.

`admission` runs the scheduler's cycles, `queue_status` writes the statuses of queues and Cohorts, and keeps objects in use;
`capacity` lets nominal quotas follow those of the workers, which `worker_queues` reads, `ceilings` reads how much a worker
can hold at most.
"""
