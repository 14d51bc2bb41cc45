"""A memory of workloads that are over."""
