"""The queue and quota engine: who may use how much of what, and who comes next. Kueue's scheduler, pure.

Here belong the quota tree, the queues of waiting workloads, the choice of flavors, the scheduling cycle and whom it
evicts for whom, fair shares, the rules of a workload's life (reserve, admit, evict, release, requeue) and the figures in
the queues' status; and how much a ClusterQueue is to have, by what the workers have. Not here: writing any of it
(controllers), dispatch to workers, and jobs. Time is always an argument.

`Engine.observe` is the way in for all that is seen. Behind it are Kueue's parts, a room each: `cache` (what the cluster has,
who uses what), `queueing` (who waits) and `scheduler` (a cycle over the heads), with `preemption` and `requests`. `view`
answers those who only ask; `workload.lifecycle` turns the outcome of a cycle into one new status per workload.
"""
