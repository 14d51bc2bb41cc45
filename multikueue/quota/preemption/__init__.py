"""Preemption: the workloads that have to go so that a head fits (quota-engine 3.5, 3.6).

`preemption` is the entry point: by priority and borrowing (`classical`), or by share (`fair`). A search tries evictions
out on the quota tree and rolls them back; the scheduler carries out what it finds.
"""
