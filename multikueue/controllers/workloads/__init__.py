"""Workloads of the manager cluster and their jobs: one reconcile per key.

`workloads` decides and writes one status (`status_writes`), `jobs` keeps a job and its Workload in step, `retention` removes
what has been over for long. What is decided about a worker is left to its outbox in `workers`.
"""
