"""The life of a workload on the manager cluster: quota, checks, pods, eviction, requeue, end. A file for each subject.

`life` is the status in the making, `rules` the order of the rules and the ends, `transitions` their steps from one status to
the next.
"""
