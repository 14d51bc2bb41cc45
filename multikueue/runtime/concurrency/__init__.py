"""Limits on what runs at the same time: a pool of threads with deadlines, and `limits` on the event loop."""
