"""Job kinds that need no code: a declaration says where the fields are, and one adapter reads it.

`declaration` is that value, with the paths of pods (`pod_sets`) and of states (`status`). The declarations of the kinds
that Kueue integrates are in `integrations`.
"""
