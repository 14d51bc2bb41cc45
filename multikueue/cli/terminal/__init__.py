"""The user's terminal: what is printed (`output`), how one types a duration (`durations`), and how a command ends (`exit`)."""
