"""Jobs of users: what a Workload for one looks like, its copy for a worker, and what its status may say at home.

`framework` is what all kinds share: the contract of a kind (`framework.adapter`), what most answer, the Workload of a job.
`batch_job`, `pods`, `stateful_set`, `deployment`, `train_job` and `app_wrapper` are kinds with code of their own; one adapter
reads all others from declarations (`declared`). `integrations` has all kinds by the names of Kueue's configuration, and
`reconciler` the decision of the jobs controller. `trees` handles JSON. Everything is pure: values in, values out. Who wins, and
when a copy is made, is `dispatch`; who gets quota is `quota`. Called by `controllers`, `store` and `web`.
"""
