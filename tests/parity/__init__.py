"""Plays stories of real Kueue to our manager and compares what both decided, step by step.

Here belong reading stories, playing them (a whole manager on a simulated cluster and virtual time), comparing, and the
report; and drawing fresh stories and recording them on a real Kueue of the testbed. Not here: older recordings (a
directory is given) and how they were made. `make parity DIR=...` and `make parity FRESH=300` call it, and `tests/real`.
"""
