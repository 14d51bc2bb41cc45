"""Links between clients and clusters, with network faults."""
