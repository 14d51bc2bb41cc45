"""From a change of an object to the keys to reconcile.

`changes` says what changed, `concerned` which keys that concerns, `triggers` is the table, and `writes` are ours.
"""
