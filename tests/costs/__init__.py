"""What one job, and one event, costs the manager: counted, for counts are the same on any machine."""
