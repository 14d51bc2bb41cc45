"""The commands that the simulator adds to `multikueue`, as entry points."""
