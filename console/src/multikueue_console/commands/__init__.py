"""The commands that the console adds to `multikueue`, found by entry point."""
