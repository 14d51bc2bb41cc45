"""The informer caches of all clusters, as values for decisions. Synchronous.

`cache` holds one kind of one cluster, `worker` one worker's objects with the writes expected there (`expectations`),
`state` all of it and the questions that need several caches. `triggers` is the table of keys to reconcile after a
change. `store` applies a change and adds these keys to the work queues, except those of writes under way (`writes`).
`views` builds the input of a decision, `plans` keeps its result. Only watch events, answers to our own writes, and the
methods of a worker's view change the store, all on one event loop, so no lock is needed. Nothing calls back into a
controller.
"""
