"""The manager process: `run` it, and see its `settings`, its `strategies` and its `webhook`."""
