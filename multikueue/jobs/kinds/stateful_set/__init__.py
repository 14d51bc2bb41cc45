"""StatefulSets: one Workload for all Pods of a StatefulSet, as in Kueue's pkg/controller/jobs/statefulset.

`adapter` builds the Workload and the copy on a worker, refuses, and labels the pod template. The rest is in `pods`.
"""
