"""How a command gets to its clusters: to the manager's by a kubeconfig, to a worker by what the manager knows of it.

`connection` has the options that choose the manager cluster, `worker_clusters` the manager's list of workers, and
`worker_access` the credentials by which a user reaches one of them.
"""
