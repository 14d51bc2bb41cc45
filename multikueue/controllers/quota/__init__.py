"""Quota on the manager cluster: cycles, queues, nominal quotas. Decided in `multikueue.quota`, written here.

`admission` runs the scheduler's cycles, `queue_status` writes the statuses of queues and Cohorts, `finalizers` keeps what is in
use; `capacity` lets nominal quotas follow what the workers have, `ceilings` reads what a worker can hold at most.
"""
