"""A manager cluster, its workers and managers in one process, and the objects to begin with."""
