"""Which workers are nominated: the input of the strategy, how long a workload waits for one, and what it may expect."""
