"""The clusters of a fleet over HTTPS, and the programs that run beside them."""
