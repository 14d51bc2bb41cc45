"""A command's access to clusters: to the manager's by a kubeconfig, to a worker by the user's context, else a Secret.

`connection` has the options that choose the manager cluster, `worker_clusters` the manager's list of workers, and
`worker_access` the credentials by which a user reaches one of them.
"""
