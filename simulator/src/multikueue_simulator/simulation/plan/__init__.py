"""What happens in one run: a value, drawn from a seed."""
