"""Kueue's core: workloads, queues, admission checks, the slices of elastic jobs, and what its releases differ in."""
