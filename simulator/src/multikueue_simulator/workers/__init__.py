"""What a worker cluster does by itself: a simulated Kueue, and jobs that run without nodes."""
