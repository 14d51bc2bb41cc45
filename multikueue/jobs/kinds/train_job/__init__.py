"""The pods of a Kubeflow TrainJob: those of the runtime it names, with the TrainJob's overrides (`pod_sets`)."""
