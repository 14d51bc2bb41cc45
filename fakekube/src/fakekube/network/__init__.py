"""Links between managers and clusters, and everything that can go wrong on them."""
