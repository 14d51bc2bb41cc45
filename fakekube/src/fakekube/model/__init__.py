"""The parts of an API server that need no server: resources, storage, metadata, names, selectors, and errors."""
