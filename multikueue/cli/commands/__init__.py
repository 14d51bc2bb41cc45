"""The commands: a file each, or a folder for a group of them.

A command turns words into settings, has the work done, and prints. `cli.tree` says which module a name stands for.
"""
