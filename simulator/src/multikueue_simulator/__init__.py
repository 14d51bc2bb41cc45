"""A fleet in one process: clusters of `fakekube`, simulated Kueue workers, faulty links, virtual time.

The manager in it is the production code, which never imports this package. A scenario must have the same result on real
clusters: one contract suite (`tests/contract`) runs against these API servers and against real ones, and a difference
is a bug of the simulator.
"""
