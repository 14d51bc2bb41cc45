"""Kinds of jobs that come and go while the manager runs.

`availability` turns a kind on once the manager cluster has it, `declarations` reads what the settings declare. What a kind
is like is in `multikueue.jobs`.
"""
