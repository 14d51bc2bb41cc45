"""What `multikueue demo` shows: a world with a stream of jobs, things that go wrong in it, and a view of it all.

`board` knows what happened, from the objects alone; `script` says what shall happen and when; `view` draws the board;
`show` puts them on a stage. Nothing here is needed by anything else.
"""
