"""What is on workers: the state of a workload there, the desired state, and the actions that remain between the two.

Pure. `remote` is a workload on one worker, `slices` its relation to other slices of its job, `copies` the plan, its effects,
and the bodies of copies. `workload` decides on the plan, and lets each worker's outbox perform the actions.
"""
