"""One worker cluster as last seen.

Its objects, its connectivity, the namespaces that it shows, and requests whose outcome its caches do not show yet.
"""
