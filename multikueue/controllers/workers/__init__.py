"""Worker clusters, as in Kueue's pkg/controller/admissionchecks/multikueue (contract 1.2, 1.4, 2).

`clusters` holds a `connection` per MultiKueueCluster, a room with its credentials, heartbeat, identity and outbox; without
connections of our own it reads Kueue's conditions instead of all that. `admission_checks` reports whether a check has
usable workers, `ocm_placements` watches which workers OCM names, `sweep` has everything on the workers looked at again.
"""
