"""Plays: who works where, which jobs come, and what goes wrong, each with its time and in words. Pure values."""
