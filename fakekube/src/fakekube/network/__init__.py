"""Links between clients and clusters, and everything that can go wrong on them."""
