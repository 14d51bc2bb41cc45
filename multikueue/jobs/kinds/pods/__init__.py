"""Plain Pods and groups of Pods, as in Kueue's pkg/controller/jobs/pod.

`pod` and `group` are the two adapters. Both use the scheduling gate (`webhook`), and from `pod` the status of a copy and
the pod set info; a group has `members`, and each member a role.
"""
