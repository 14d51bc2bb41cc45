"""An experiment: a hundred GPUs, fifty users, and the ways to share them, played by a whole manager on virtual time.

`crowd` draws the submissions, `play` runs them under one policy, `figures` has the results. A CPU stands for a GPU:
quota counts both alike.
"""
