"""Jobs as we carry them, and the built-in kinds that we look into: batch Jobs, Pods and groups of them, StatefulSets."""
