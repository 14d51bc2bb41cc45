"""What the API server of the sandbox is made of: resources, storage, metadata, names, selectors, and how it says no."""
