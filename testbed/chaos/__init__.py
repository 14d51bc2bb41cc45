"""Chaos: replicas of the manager on real control planes under drawn faults, watched and judged from the API servers.

`schedule` draws the faults, `stage` applies them and plays the nodes, `judge` says what must not have happened.
"""
