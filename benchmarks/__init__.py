"""Measures our manager beside Kueue's own, on one testbed, in one run: `make bench`.

`bench` is the order of events, `sides` the compared managers, `driver` the user and the kubelet of both, `wire`
and `events` the driver's requests and watches, `meters` its figures from /proc. `timeline`, `calls`, `figures`
and `report` are pure: from records to figures, targets and tables. `ceiling` is the script that decides nothing,
`profiled` runs ours under a profiler. `micro` measures single rooms of the product without a cluster, `start` the cost of a
start.

`work` has a file for each kind of work, `fleet` the programs for more workers and workloads than a machine has control planes
for. `lines` are their results, `plot` and `performance` what becomes of them in the docs.
"""
