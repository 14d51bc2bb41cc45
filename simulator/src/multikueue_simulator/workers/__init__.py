"""The controllers of a worker cluster: a simulated Kueue, and jobs that run without nodes."""
