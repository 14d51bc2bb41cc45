"""Parts of objects that are read or written in a way of their own: quantities, canonical trees, patches, foreign data."""
