"""One workload's life, from one status to the next (quota-engine 4, contract 3.11).

`lifecycle` turns the facts about a workload into one new status, by the steps in `transitions`. Beside them is what its
object says: its place in a queue, when it has to be gone; and decisions that its status does not show yet. The room
knows one workload at a time, and no queue's usage.
"""
