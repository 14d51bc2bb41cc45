"""A fleet in one process: clusters of `fakekube`, simulated Kueue workers, links that misbehave, time that can be turned.

The manager in it is the one that runs in production, which never imports this. What a scenario shows here must show on
real clusters too: one contract suite (`tests/contract`) runs against these API servers and against real ones, and a
difference is a bug of the simulator.
"""
