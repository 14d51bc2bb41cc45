"""Pending workloads: their order, and the inadmissible ones that wait for a change (quota-engine 2).

`queue_manager` is the entry point: it has the queue of each ClusterQueue (`pending_queue`; `admission_fair_sharing`
where LocalQueues are ordered by usage), and `requeueing` says when inadmissible workloads are looked at again. It tells the
cache which trees are worth another look; the scheduler takes the heads.
"""
