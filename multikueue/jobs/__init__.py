"""Job integrations: the Workload of a job, its copy on a worker, and the status that the manager's job gets back.

`framework` is what all kinds share: the adapter contract (`framework.adapter`), its defaults, the Workload of a job.
`kinds` has a folder for each kind with code of its own, and one for all that are only declared. `integrations` lists all
kinds by the names of Kueue's configuration, and `reconciler` is the decision of the jobs controller. `trees` handles
JSON. Everything is pure: values in, values out. `dispatch` decides which worker wins and when a copy is made; `quota`
decides about quota. Called by `controllers`, `store` and `web`.
"""
