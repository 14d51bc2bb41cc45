"""Kinds of work: what their measurements are made into."""
