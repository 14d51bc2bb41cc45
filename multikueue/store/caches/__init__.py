"""The last seen objects, by key and index.

`cache` has the objects of one kind in one cluster; the other modules derive from it.
"""
