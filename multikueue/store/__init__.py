"""What we know now, of all clusters; synchronous; hands out values.

`cache` holds one kind of one cluster, `worker` one worker's side, `store` the manager's side and the questions that need
both: a workload's group, who uses what; `runtimes` has what some jobs only name. Changed only by watch events and by the
answers to our own writes, on one event loop, so no lock is needed. Who must look again after a change is told through
`Touched`; nobody is called back into.
"""
