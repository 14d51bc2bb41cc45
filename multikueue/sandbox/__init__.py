"""A world in one process: Kubernetes API servers, simulated Kueue workers, links that misbehave, time that can be turned.

Production code never imports it. What a scenario shows here must show on real clusters too: one contract suite
(`tests/contract`) runs against these API servers and against real ones, and a difference is a bug of the sandbox.
"""
