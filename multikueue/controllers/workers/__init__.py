"""Worker clusters, as in Kueue's pkg/controller/admissionchecks/multikueue (contract 1.2, 1.4, 2).

`clusters` holds a `connection` per MultiKueueCluster, with credentials (`kubeconfigs`), heartbeat (`health`), proof of which
cluster it is (`identities`) and the `outbox` that writes to it. `kueue_reports` takes Kueue's word for all that instead.
`admission_checks` says whether a check has workers to use, `ocm_placements` which workers OCM names.
"""
