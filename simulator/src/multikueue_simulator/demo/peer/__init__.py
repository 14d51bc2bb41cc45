"""Kueue's own MultiKueue manager in the same play, as it was measured under faults. Pure."""
