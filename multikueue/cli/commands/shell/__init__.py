"""The command line itself: its `help`, `version` and `completion`."""
