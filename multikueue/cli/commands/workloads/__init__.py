"""`multikueue workloads`: `group` has the list, the details, and the commands that have a file of their own.

These are `pods`, `logs` and `events`. `cluster_view` is what the details show of each cluster.
"""
