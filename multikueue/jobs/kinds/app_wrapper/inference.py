"""The pods of objects that an AppWrapper wraps without declaring them, as AppWrapper 1.1 infers them."""

from __future__ import annotations

from multikueue.jobs.kinds.declared.pod_sets import Pods

__all__ = ["KNOWN"]


def _ray(at: str) -> tuple[Pods, ...]:
    return Pods(at=f"{at}.headGroupSpec"), Pods(at=f"{at}.workerGroupSpecs[*]")


_INSIDE = "component.template.spec"
_INDEX = "batch.kubernetes.io/job-completion-index"
KNOWN: dict[tuple[str, str], tuple[Pods, ...]] = {
    ("v1", "Pod"): (Pods(at="component"),),
    ("apps/v1", "Deployment"): (Pods(at=_INSIDE),),
    ("apps/v1", "StatefulSet"): (Pods(at=_INSIDE),),
    ("batch/v1", "Job"): (Pods(at=_INSIDE, each=("parallelism", "completions"), index=_INDEX),),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): (
        Pods(
            at=f"{_INSIDE}.replicatedJobs[*]",
            template="template.spec.template",
            each=("template.spec.parallelism", "template.spec.completions"),
            index=_INDEX,
            group="jobset.sigs.k8s.io/job-index",
        ),
    ),
    ("kubeflow.org/v1", "PyTorchJob"): tuple(
        Pods(at=f"{_INSIDE}.pytorchReplicaSpecs.{role}", index="training.kubeflow.org/replica-index")
        for role in ("Master", "Worker")
    ),
    ("ray.io/v1", "RayCluster"): _ray(_INSIDE),
    ("ray.io/v1", "RayJob"): _ray(f"{_INSIDE}.rayClusterSpec"),
}
"""By API version and kind. The paths start at a tree with the wrapped object at `component`."""
