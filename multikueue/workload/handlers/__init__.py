"""The handlers of the phases: a function with the name of the phase, from the view to the outcome.

Phases with one subject share a file: `waiting`, `nominating`, `winning`, `finishing`, `retrying`, `evicting`. They share
`outcome`, `removal` and `doubts`. `workload.decide` has the table.
"""
