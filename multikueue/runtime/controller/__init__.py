"""The controller loop, its work queue, and what restarts both."""
