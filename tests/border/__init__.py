"""Whatever comes from outside, from its bytes to what is decided: an odd object costs itself, and nobody else."""
