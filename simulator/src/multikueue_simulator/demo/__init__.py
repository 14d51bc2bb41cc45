"""The demo of `multikueue demo`: a world with a stream of jobs, faults, and a view of both.

`board` derives the history from the objects alone; `script` has the events and their times; `view` draws the board;
`show` runs them. No other room needs this one.
"""
