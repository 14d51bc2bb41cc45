"""The part that all kinds of jobs share, as in Kueue's pkg/controller/jobframework.

`adapter` is the contract of a kind, `default_adapter` its default implementation. Beside them: the Workload made for a
job, its priority, its pod set info (Kueue's pkg/podset), the webhook's rules, nested jobs, and the actions that the
reconciler decides on.
"""
