"""Runs: one from beginning to end, its record and its story; many; and the smallest that still fails."""
