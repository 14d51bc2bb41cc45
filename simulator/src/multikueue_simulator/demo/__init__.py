"""The demo of `multikueue demo`: a world with a stream of jobs, faults, and a view of both.

`scripts` says what happens and when; `board` derives the history from the objects alone; `peer` is Kueue's own manager,
as it was measured; `screen` draws; `stage` runs a play in a world, takes keys, and serves the clusters. The first three
are pure. No other room needs this one.
"""
