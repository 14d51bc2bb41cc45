"""The decision of the jobs controller, for jobs of any kind, as in the reconciler of Kueue's jobframework.

`decide` is the way in. Its branches: a job has one Workload (`ensure_workload`), runs (`run`), changes its size (`elastic`).
They ask `case`, which is what is known of a job, and write `updates`; `labels` says which labels of the job its Workload gets.
"""
