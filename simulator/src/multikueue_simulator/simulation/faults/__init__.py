"""What carries the plan out: the injectors of faults and adversaries, and the stage that calls them in time."""
