"""What every reconcile uses: its context, Events, strategies, conditions.

`context` is all that a reconcile may use as one value, with the work queues; `events` records Events, `strategies` chooses
and asks the strategy of a workload, `conditions` writes the status of checks, clusters and queues. It reconciles nothing.
"""
