"""Patches of all four sorts, and who owns which field."""
