"""Texts that Kubernetes has rules for: names, quantities, and how Go writes a value."""
