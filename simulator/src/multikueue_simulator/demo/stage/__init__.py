"""Runs a play: builds its world, serves the clusters, submits jobs, and does what the script and the viewer want."""
