"""A Kubernetes API server in Python, in memory: for tests of controllers, in the same process or over HTTPS.

It stores and validates, watches, patches, applies, collects garbage, asks webhooks, enforces roles and prints tables as
kube-apiserver 1.35 does. `cluster.Cluster` is one, `face.http.Face` serves it, `network` carries calls in the same process.
"""
