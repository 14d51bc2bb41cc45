"""Shared parts of all reconciles: their context, Events, strategies, conditions.

`context` has the dependencies of a reconcile as one value, and the work queues; `events` records Events, `strategies`
chooses and asks the strategy of a workload, `conditions` writes the status of checks, clusters and queues. Nothing here
reconciles.
"""
