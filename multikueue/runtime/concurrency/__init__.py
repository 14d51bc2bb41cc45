"""Limits on what runs at the same time: a pool of threads with deadlines, a race, a turnstile."""
