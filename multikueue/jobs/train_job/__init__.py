"""The pods of a Kubeflow TrainJob: those of the runtime it names, with its own overrides.

`pod_sets` is the way in; `runtimes` says which runtime is named, `template` merges one replicated job of it with the TrainJob.
"""
