"""A Kubernetes API server in Python, in memory: for tests of controllers, in the same process or over HTTPS.

Storage, validation, watches, patches, server-side apply, garbage collection, admission webhooks, RBAC and tables behave
as in kube-apiserver 1.37. `cluster.Cluster` is a server, `front_end.http.FrontEnd` serves it, `network` connects clients in the
same process.
"""
