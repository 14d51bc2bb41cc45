"""The last seen objects, by key and index.

`cache` has those of one kind in one cluster, the others what is derived from these.
"""
