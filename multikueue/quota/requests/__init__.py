"""What the pods of a workload request, exactly, and on which nodes they may run (quota-engine 1.6).

Resources with what limits, LimitRanges and RuntimeClasses make of them, selectors, taints and topologies. Everything else
of quota stands on it; it knows none of it.
"""
