"""The kinds that every API server has: their schemas, rules and columns."""
