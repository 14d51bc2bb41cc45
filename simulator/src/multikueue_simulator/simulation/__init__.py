"""Deterministic simulation: whole lives of managers and workers on virtual time, each from one seed, with all that goes wrong.

`draw` makes a plan from a seed, with `adversaries` in some; `plan` is what one is made of, `life` lives it, with `stage` to
make its events happen and `recorder` to see every write; `invariants` are those that hold at each of them. `shrink`
finds the smallest plan that still fails, `story` tells it, `campaign` lives many in several processes. Production code
never imports this room.
"""
