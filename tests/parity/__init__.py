"""Plays recorded stories of real Kueue to our manager and compares what both decided, step by step.

Here belong reading stories, playing them (a whole manager on a simulated cluster and virtual time), comparing, and the
report. Not here: the recordings (a directory is given) and how they were made. `make parity DIR=...` calls it.
"""
