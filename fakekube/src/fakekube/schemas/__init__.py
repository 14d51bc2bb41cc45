"""Structural schemas: what they prune, default and refuse, their rules in CEL, and the definitions that bring them."""
