"""One workload, as the commands about it see it.

`lookup` finds the one that is meant, `session` stays with it from cluster to cluster, `view` shows what runs of it there,
and `related_objects` finds its copy, job and pods on a worker; `following` follows a collection. `description` puts its
state into words, `prospects` what each worker answers to it.
"""
