"""The commands: a file each, or a folder for a group of them.

A command turns words into settings, calls the code that does the work, and prints. `cli.tree` maps names to modules.
"""
