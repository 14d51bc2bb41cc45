"""The informer caches of all clusters, as values for decisions. Synchronous.

`caches` hold the objects, `workers` one worker's objects with the writes expected there, `state` all of it and the
questions that need several caches. `event_handlers` have the table of keys to reconcile after a change. `store` applies a
change and adds these keys to the work queues, except those of writes under way. `views` builds the input of a decision,
`plans` keeps its result. Only watch events, answers to our own writes, and the methods of a worker's view change the store,
all on one event loop, so no lock is needed. Two callbacks lead out: for a Placement that is needed, and for lists of
objects that were left out.
"""
