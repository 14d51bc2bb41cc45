"""`multikueue clusters`: `group` has the commands.

`inspection` looks at a worker before it joins or leaves, `capacity` at what the workers have for each ClusterQueue.
"""
