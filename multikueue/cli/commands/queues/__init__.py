"""`multikueue queues`: `group` has the commands, `naming` the words for a queue, and `stopping` holds and resumes."""
