"""Hostile things beside an innocent job: what tenants, workers, admins and the network may do, and what it costs others.

The process that is tried is `multikueue run` as users start it. `tenants`, `workers`, `admins` and `network` are tables
of what is played, `play` plays them one after another, and `report` judges.
"""
