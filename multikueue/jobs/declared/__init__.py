"""Kinds of jobs that need no code: a declaration says where in the object things are, and one adapter reads it.

`declaration` is that value, with the places of pods (`pod_sets`) and of what the status says (`status`). The declarations of
the kinds that Kueue integrates are in `integrations`.
"""
