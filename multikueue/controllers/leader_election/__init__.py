"""Which replica acts, and what the others do meanwhile.

`election` decides who may take the Lease (pure), `leadership` takes, renews and returns it, `standby` says which keys a
waiting replica queues all the same, and queues everything once it acts.
"""
