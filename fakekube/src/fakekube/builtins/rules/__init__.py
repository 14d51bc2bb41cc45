"""Rules of the built-in kinds: defaults, what the server sets, and validation."""
