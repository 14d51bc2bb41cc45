"""Composition root: builds the real objects from settings, starts their tasks in order, stops them in reverse.

`process` is one process from start to stop, in which one `life` follows the other. A life has an empty store at its
start, its `readiness`, the watches of the manager cluster (`reflector_group`) and a quota engine (`engine`).
"""
