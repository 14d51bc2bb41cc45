"""What the workers have: their quotas, as `offers`; and nominal quotas that are `following` them."""
