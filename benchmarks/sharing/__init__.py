"""An experiment: a hundred GPUs, fifty users, and the ways to share them, played by a whole manager on virtual time.

`crowd` draws who wants what and when, `play` has it happen under one policy, `figures` says what came of it. A GPU is
played by a CPU: quota counts both alike.
"""
