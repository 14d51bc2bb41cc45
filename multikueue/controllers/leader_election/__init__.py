"""Leader election of the replicas, and the work queues of a standby.

`election` decides who may take the Lease (pure), `leadership` takes, renews and releases it, `presence` holds it for a process
without election, `standby` chooses the keys
that a waiting replica queues all the same, and queues everything once it acts.
"""
