"""One workload, as the commands about it see it.

`lookup` finds the workload by name, `session` follows it from cluster to cluster, `view` shows what runs of it there, and
`related_objects` finds its copy, job and pods on a worker; `following` follows a collection. `description` puts its state
into words, `prospects` the answer of each worker.
"""
