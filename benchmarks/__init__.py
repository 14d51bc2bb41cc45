"""Measures ours beside Kueue's own manager, on one testbed, in one run: `make bench`.

`bench` is the order of events, `sides` the managers that are compared, `driver` the user and the kubelet of both, `wire`
and `events` what the driver speaks to API servers with, `meters` what it reads from /proc. `timeline`, `calls`, `figures`
and `report` are pure: from what was noted to figures, targets and tables. `ceiling` is the script that decides nothing,
`profiled` runs ours under a profiler. `faults` measures what a sick worker costs the others, `micro` single rooms of the
product without a cluster, `start` what it costs to begin.
"""
