"""The queue and quota engine, Kueue's scheduler without I/O: which workload may use how much quota, and which is next.

Here belong the quota tree, the queues of pending workloads, the choice of flavors, the scheduling cycle, preemption,
fair shares, the figures in the status of queues, and nominal quotas that follow the workers. Not here: what becomes of a
workload's status (`workload.life`), writing any of it (controllers), dispatch to workers, and jobs. Time is always an
argument.

`Engine.observe` is the entry point for all watch events. Behind it are Kueue's parts, a room each: `cache`
(configuration and usage), `queueing` (pending workloads) and `scheduler` (a cycle over the heads), with `preemption`
and `requests`. `visibility` is the read-only side, `capacity` what the workers have, `workload` what is read of one
workload for its quota.
"""
