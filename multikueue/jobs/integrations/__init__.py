"""The kinds of jobs there are, named as in `integrations` of Kueue's configuration.

`frameworks` has all that we know and those in use. `declarations` says how Kueue's integrations read their kinds; `external`
makes adapters for external frameworks.
"""
