"""Deterministic simulation: runs of managers and workers with faults on virtual time, each from one seed.

`draw` makes a plan from a seed, with `adversaries` in some; `plan` has its types; `life` runs it, with `stage` to carry
out its events and `recorder` to observe every write; `invariants` are checked at each write. `shrink` finds the
smallest plan that still fails, `story` reports it, `batch` runs many seeds in several processes. Production code
never imports this room.
"""
