"""Structural schemas: pruning, defaults, validation with CEL rules, and CustomResourceDefinitions."""
