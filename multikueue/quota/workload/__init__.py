"""What the quota engine reads of one workload: its place in a queue, and when it has to be gone.

And decisions that its status does not show yet (`outcome`). The room knows one workload at a time, and no queue's usage.
"""
