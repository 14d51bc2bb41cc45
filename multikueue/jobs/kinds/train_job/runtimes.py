"""The runtimes of TrainJobs, which describe the pods that a TrainJob does not."""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, CustomJob, JobKey, job_type
from multikueue.api.kind import Kind
from multikueue.jobs.trees.templates import part, tree_of

__all__ = ["TrainingRuntimes"]

_GROUP = "trainer.kubeflow.org"
_OF_NAMESPACE = Kind(_GROUP, "v1alpha1", "trainingruntimes", "TrainingRuntime", True, job_type("TrainingRuntime"))
_OF_CLUSTER = Kind(
    _GROUP, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False, job_type("ClusterTrainingRuntime")
)
_TORCHTUNE = ["tune", "run"]


class TrainingRuntimes(msgspec.Struct, frozen=True):
    """Trainer's runtimes: a TrainJob names one of its namespace or one of the cluster."""

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        return (_OF_NAMESPACE, _OF_CLUSTER)

    def key(self, job: AnyJob) -> JobKey:
        ref = part(tree_of(job.spec), "runtimeRef")
        kind, name = str(ref.get("kind") or _OF_CLUSTER.kind), str(ref.get("name") or "")
        return JobKey(f"{kind}.{_GROUP}", job.metadata.namespace if kind == _OF_NAMESPACE.kind else "", name)

    def problem(self, job: AnyJob) -> str | None:
        key, runtime = self.key(job), msgspec.json.decode(job.runtime) if isinstance(job, CustomJob) else None
        if runtime is None:
            return f'{key.kind.partition(".")[0]} "{key.name}" not found: create it, here and on the workers'
        command = part(tree_of(job.spec), "trainer").get("command")
        if "flux" in part(runtime, "mlPolicy"):
            return "The command and init containers of a Flux job are known to Trainer alone, so its Workload cannot be made"
        if "torch" in part(runtime, "mlPolicy") and command == _TORCHTUNE:
            return "The command of a torchtune job is known to Trainer alone, so its Workload cannot be made"
        return None
