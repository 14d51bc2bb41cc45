"""Access of a command to its clusters: to a worker by the user's own context, else by the manager's Secret.

`connection` has the options that choose the manager cluster, `worker_clusters` the manager's list of workers, and
`worker_access` the credentials by which a user reaches one of them.
"""
