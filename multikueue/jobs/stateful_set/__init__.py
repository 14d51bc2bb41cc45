"""StatefulSets: one Workload for all Pods of one, as in Kueue's pkg/controller/jobs/statefulset.

`adapter` makes it and the copy on a worker; `webhook` refuses, and marks the pod template. The rest is in `pods`.
"""
