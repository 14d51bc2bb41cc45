"""The capacity of workers: their quotas, as `offers`; nominal quotas that follow them, `following`; what is free, `occupancy`."""
