"""One workload as seen now on all clusters, and what follows from that alone: its phase, and the workers it fits."""
