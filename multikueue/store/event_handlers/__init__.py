"""From a change of an object to the keys to reconcile.

`changes` says what changed, `concerned` which keys that concerns, and `triggers` is the table.
"""
