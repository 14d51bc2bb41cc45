"""What the cluster has, and who uses what of it, as in Kueue's pkg/cache (quota-engine 1.7).

The quota tree, the reservations, the objects that configure queues with what is wrong with them, what LocalQueues used of
late. `cache` holds it all together. Who waits is above, in `queueing`; who gets what, in `scheduler`.
"""
