"""The client for Python, on simulated clusters with a manager."""
