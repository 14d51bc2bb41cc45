"""One workload, for the commands about it.

`lookup` finds the workload by name, `session` follows it from cluster to cluster, `view` reads its pods, events and logs
there, `related_objects` finds its copy, job and pods on a worker. `description` puts its state into words, `prospects` the
answer of each worker; `explanation` is the manager's own, `quota` what is known of quota without it. `repairs` and
`activation` change it.
"""
