"""The requests of a workload's pods, exactly, and the nodes they may run on (quota-engine 1.6).

Resources under limits, LimitRanges and RuntimeClasses; devices; selectors, taints and topologies. The rest of quota builds
on this room, which knows none of it.
"""
