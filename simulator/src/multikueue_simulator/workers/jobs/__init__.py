"""Jobs that run without nodes: their runs, pods and logs."""
