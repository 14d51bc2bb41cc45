"""The commands that the simulator brings to `multikueue`, found there by entry point."""
