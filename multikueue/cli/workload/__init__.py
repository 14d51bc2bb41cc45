"""One workload, as the commands about it see it.

`lookup` finds the workload by name, `session` follows it from cluster to cluster, and `related_objects` finds its copy,
job and pods on a worker. `description` puts its state into words, `prospects` the answer of each worker.
"""
