"""Jobs of users: what a Workload for one looks like, its copy for a worker, and what its status may say at home.

Here belong one adapter per job kind (`batch_job`; the table is `table`), what all kinds share (`workloads`,
`priority`, `canonical`), the decision of the jobs controller (`decide`, `actions`), and the defaults that the
admission webhook gives a new job (`defaulting`). Everything is pure: values in, values out. Who wins, and when a copy
is made, is `dispatch`; who gets quota is `quota`. Called by `controllers` and `web`.
"""
