"""Workloads of the manager cluster and their jobs: one reconcile per key.

`workloads` decides and writes one status, `jobs` keeps a job and its Workload in step, `retention` removes finished objects
after their time. Actions on a worker are left to its outbox in `workers`.
"""
