"""Kinds of work, a file for each, all with the same face: `measure(setting)` gives lines and points of a plot.

`core` has what they share: clusters, sides that take turns, figures of several rounds as one.
"""
