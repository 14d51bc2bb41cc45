"""The user's terminal: what is printed and how (`output`), durations as one types them (`durations`), exit codes (`exit`)."""
