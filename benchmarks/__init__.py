"""Measures ours beside Kueue's own manager, on one testbed, in one run: `make bench`.

`bench` is the order of events, `sides` the managers that are compared, `driver` the user and the kubelet of both, `wire`
and `events` the driver's requests and watches, `meters` its figures from /proc. `timeline`, `calls`, `figures`
and `report` are pure: from records to figures, targets and tables. `ceiling` is the script that decides nothing,
`profiled` runs ours under a profiler. `faults` measures the cost of a sick worker for the others, `micro` single rooms
of the product without a cluster, `start` the cost of a start.
"""
