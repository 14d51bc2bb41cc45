"""Logs and metrics of the controllers. Nothing here acts.

`observer` logs and counts what changes in the store, `collector` reads the state of the process at a scrape. The
instruments themselves are in `multikueue.telemetry`.
"""
