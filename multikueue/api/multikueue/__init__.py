"""The workers: clusters and configurations of MultiKueue, the profiles and placements they may come from."""
