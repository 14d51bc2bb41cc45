"""Deterministic simulation: runs of managers and workers with faults on virtual time, each from one seed.

`plan` draws a plan from a seed, with adversaries in some. `runs` carries it out by `faults`, whose injectors change the
world; `invariants` are checked at each write. A plan that fails is shrunk, its story told. Production code never imports
this room.
"""
