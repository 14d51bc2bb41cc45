"""A simulated Kueue: its reconcilers, webhooks, and the ways in which it may behave."""
