"""The pods of a Kubeflow TrainJob: those of the runtime it names, with the TrainJob's overrides.

`pod_sets` is the entry point; `runtimes` finds the runtime, `template` merges one of its replicated jobs with the
TrainJob.
"""
