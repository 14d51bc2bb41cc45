"""The four types of patches, and managed fields."""
