"""The capacity of workers: quotas (`offers`), nominal quotas that follow them (`following`), what is free (`occupancy`)."""
