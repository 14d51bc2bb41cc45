"""The capacity of workers: their quotas, as `offers`, and nominal quotas that follow them (`following`)."""
