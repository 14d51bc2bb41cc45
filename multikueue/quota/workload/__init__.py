"""One workload's life, from one status to the next (quota-engine 4, multikueue-contract 3.11).

`lifecycle` turns what is known of a workload into one new status, by the steps in `transitions`; beside them what a
workload's object and status say of themselves: its place in a queue, by when it has to be gone, what was decided about it
and is not written yet. It knows one workload at a time, and no queue's usage.
"""
