"""What an API server is made of: resources, storage, metadata, names, selectors, and how it says no."""
