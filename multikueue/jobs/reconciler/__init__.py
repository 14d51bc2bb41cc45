"""The decision of the jobs controller, for jobs of any kind, as in the reconciler of Kueue's jobframework.

`decide` is the way in; `labels` says which labels of the job its Workload gets.
"""
