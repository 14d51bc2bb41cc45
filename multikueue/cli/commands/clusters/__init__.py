"""`multikueue clusters`: `group` has the commands.

`inspection` checks a worker before it joins or leaves; `capacity` shows the workers' capacity for each ClusterQueue.
"""
