"""The strategies we ship. Each imports `multikueue.strategy` and nothing else of ours."""
