"""Jobs of users: what a Workload for one looks like, its copy for a worker, and what its status may say at home.

Here belong what is asked of a kind (`adapter`) and how most answer (`ordinary`), an adapter for batch Jobs (`batch_job`),
those for Pods and what is made of them (`pod`, `pod_group`, `deployment`, `stateful_set`) and one for all declared kinds
(`declared`, `declaration`, `declarations`; the table of all is `table`), where such kinds say which pods they have (`pods`,
`app_wrapper`, `train_job`) and how they are (`states`), what all kinds share (`workloads`, `labels`, `priority`,
`canonical`), jobs that change their size (`slices`) or belong to others (`nesting`), where a job is told to run that stays on
its own cluster (`placement`, and a `…_placing` per sort), the decision of the jobs controller (`decide`, `actions`), and the
defaults that the admission webhook gives a new job (`defaulting`). Everything is pure: values in, values out. Who wins, and
when a copy is made, is `dispatch`; who gets quota is `quota`. Called by `controllers` and `web`.
"""
