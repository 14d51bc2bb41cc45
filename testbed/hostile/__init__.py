"""Hostile cases beside an innocent job: acts of tenants, workers, admins and the network, and their cost for others.

The process under test is `multikueue run` as users start it. `tenants`, `workers`, `admins` and `network` are tables of
cases, `play` runs them one after another, and `report` judges.
"""
