"""Keeps what the model is computed from fresh, by one watch for everybody who looks."""
