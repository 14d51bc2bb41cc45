"""Deterministic simulation: lives of managers and workers with faults on virtual time, each from one seed.

`draw` makes a plan from a seed, with `adversaries` in some; `plan` has its values; `life` runs it, with `stage` to
carry out its events and `recorder` to see every write; `invariants` hold at each write. `shrink` finds the smallest plan
that still fails, `story` reports it, `campaign` runs many seeds in several processes. Production code never imports
this room.
"""
