"""What we know now, of all clusters; synchronous; hands out values.

`cache` holds one kind of one cluster, `worker` one worker's side with what is expected there (`expectations`), `state` all of
it and the questions that need several of them. `triggers` is the table of which keys are looked at again after which change,
`store` takes a change in and puts these keys on the work queues, but for those of writes under way (`writes`). `views` makes
what a decision looks at, `plans` keeps what was decided. Changed only by watch events, by the answers to our own writes, and
by the methods of a worker's view, on one event loop, so no lock is needed. Nobody is called back into.
"""
