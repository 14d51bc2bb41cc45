"""The declarations of the kinds that Kueue integrates, each as its integration behaves in Kueue 0.16 (contract 5.2)."""

from __future__ import annotations

from multikueue.jobs.declared import Declaration, Pods, State, condition

__all__ = ["DECLARATIONS"]

_REPLICA_INDEX = "training.kubeflow.org/replica-index"

JOB_SET = Declaration(
    framework="jobset.x-k8s.io/jobset",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    plural="jobsets",
    kind="JobSet",
    managers=("jobset.sigs.k8s.io/jobset-controller",),
    pods=(
        Pods(
            at="spec.replicatedJobs[*]",
            name_at="name",
            template="template.spec.template",
            each=("template.spec.parallelism", "template.spec.completions"),
            over="status.replicatedJobsStatus[*]",
            index="batch.kubernetes.io/job-completion-index",
            group="jobset.sigs.k8s.io/job-index",
        ),
    ),
    succeeded=condition("Completed"),
    failed=condition("Failed"),
    active_counts=("status.replicatedJobsStatus[*].active",),
    ready_counts=("status.replicatedJobsStatus[*].ready", "status.replicatedJobsStatus[*].succeeded"),
    ready_of="spec.replicatedJobs[*].replicas",
    dropped=("spec.ttlSecondsAfterFinished",),
)


def _kubeflow(kind: str, replicas: str, *roles: str, version: str = "v1", operator: str = "training") -> Declaration:
    """A job of Kubeflow's: a template per role, in this order, and the run policy that all its kinds share."""
    return Declaration(
        framework=f"kubeflow.org/{kind.lower()}",
        group="kubeflow.org",
        version=version,
        plural=f"{kind.lower()}s",
        kind=kind,
        suspend="spec.runPolicy.suspend",
        managed_by="spec.runPolicy.managedBy",
        managers=(f"kubeflow.org/{operator}-operator",),
        pods=tuple(Pods(at=f"spec.{replicas}.{role}", name=role, index=_REPLICA_INDEX) for role in roles),
        succeeded=condition("Succeeded"),
        failed=condition("Failed"),
        active_counts=("status.replicaStatuses[*].active",),
        ready=condition("Running"),
        priority="spec.runPolicy.schedulingPolicy.priorityClass",
        dropped=("spec.runPolicy.ttlSecondsAfterFinished",),
    )


RAY_CLUSTER = Declaration(
    framework="ray.io/raycluster",
    group="ray.io",
    version="v1",
    plural="rayclusters",
    kind="RayCluster",
    managers=("ray.io/kuberay-operator",),
    pods=(
        Pods(at="spec.headGroupSpec", name="head", count="replicas"),
        Pods(at="spec.workerGroupSpecs[*]", name_at="groupName", each=("numOfHosts",)),
    ),
    active_states=(State(at="status.state", values=("ready",)),),
    ready=State(at="status.state", values=("ready",)),
)

DECLARATIONS: tuple[Declaration, ...] = (
    JOB_SET,
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"),
    _kubeflow("TFJob", "tfReplicaSpecs", "Chief", "Master", "PS", "Worker", "Evaluator"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", "Master", "Worker"),
    _kubeflow("JAXJob", "jaxReplicaSpecs", "Worker"),
    _kubeflow("MPIJob", "mpiReplicaSpecs", "Launcher", "Worker", version="v2beta1", operator="mpi"),
    RAY_CLUSTER,
)
