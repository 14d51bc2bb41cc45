"""The user's terminal: output and its formats (`output`), typed durations (`durations`), exit codes (`exit`)."""
