"""Copies and jobs on workers: what is desired there, the actions that remain, and the body of a copy."""
