"""What must hold at every write, and in states."""
