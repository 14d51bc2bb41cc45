"""Configuration of queues and usage of quota, as in Kueue's pkg/cache (quota-engine 1.7).

The quota tree, the shares by which queues are compared, the reservations, the objects that configure queues and their
problems, the consumed resources of LocalQueues. `cache` holds it all together. Pending workloads are above, in `queueing`,
and decisions in `scheduler`.
"""
