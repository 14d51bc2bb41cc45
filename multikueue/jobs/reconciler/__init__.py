"""The decision of the jobs controller, for jobs of any kind, as in the reconciler of Kueue's jobframework.

`decide` is the entry point. Its branches: a job has one Workload (`ensure_workload`), runs (`run`), and changes its
size if it is elastic. They read `case`, the state of one job, and write `updates`.
"""
