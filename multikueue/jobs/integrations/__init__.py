"""All kinds of jobs, named as in `integrations` of Kueue's configuration.

`frameworks` has all known kinds and those in use. `declarations` describes the kinds of Kueue's integrations;
`external` makes adapters for external frameworks.
"""
