"""JSON trees as an API server stores them, drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["OBJECTS", "TREES"]

# A null only ever stands for an absent field.
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3)
TREES = st.recursive(
    LEAVES,
    lambda t: st.lists(t, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), t, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("xyz", max_size=2), TREES, max_size=4)
