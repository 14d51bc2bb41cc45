"""The declarations of the kinds that Kueue integrates, each as its integration behaves in Kueue 0.16 (contract 5.2)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.jobs.kinds.app_wrapper.pod_sets import Components
from multikueue.jobs.kinds.declared.declaration import Declaration, Rule, Sized
from multikueue.jobs.kinds.declared.pod_sets import Addition, Pods
from multikueue.jobs.kinds.declared.state_rules import StateRule, condition
from multikueue.jobs.kinds.train_job.pod_sets import PATCH_MANAGER, RuntimePods, TrainingRuntimes
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import part

__all__ = ["DECLARATIONS", "SUBMITTER_CONTAINER", "SUBMITTER_IN_HEAD", "autoscaler", "redis_cleanup"]

Tree = dict[str, Any]

SUBMITTER_CONTAINER: Tree = {
    "name": "ray-job-submitter",
    "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
"""KubeRay's default."""

_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
"""KubeRay's default, as requests and limits."""

_CLEANUP = {"cpu": "200m", "memory": "256Mi"}
"""What KubeRay's job asks for that empties Redis when the cluster is gone."""

_BESIDE_THE_HEAD = StateRule(at="spec.submissionMode", values=("SidecarMode",))
_FAULT_TOLERANT = "ray.io/ft-enabled"


def _submitter_in_head(job: Tree, template: Tree) -> Tree:
    """With the submitter that runs in the pod of the head, whatever the RayJob describes."""
    return _with_container(template, SUBMITTER_CONTAINER) if _BESIDE_THE_HEAD.is_true(job) else template


SUBMITTER_IN_HEAD = Addition(lambda release: release.has_ray_sidecars, _submitter_in_head)


def autoscaler(at: str) -> Addition:
    """The autoscaler of the cluster described at that path. The webhook refuses it in a queue, and may have been away."""

    def with_autoscaler(job: Tree, template: Tree) -> Tree:
        if paths.only(job, f"{at}.enableInTreeAutoscaling") is not True:
            return template
        own = paths.only(job, f"{at}.autoscalerOptions.resources")
        resources = {"requests": _AUTOSCALER, "limits": _AUTOSCALER} if own is None else own
        return _with_container(template, {"name": "autoscaler", "resources": resources})

    return Addition(lambda release: release.has_ray_sidecars, with_autoscaler)


def redis_cleanup(at: str) -> Addition:
    """Room for the job that cleans up after the cluster described at that path, if its state is in Redis: that runs when
    the head is gone."""

    def with_room(job: Tree, template: Tree) -> Tree:
        said = str(part(part(job, "metadata"), "annotations").get(_FAULT_TOLERANT, ""))
        survives = said.lower() == "true" or paths.only(job, f"{at}.gcsFaultToleranceOptions") is not None
        return _with_room(template) if survives else template

    return Addition(lambda release: release.has_ray_redis_cleanup, with_room)


def _with_room(template: Tree) -> Tree:
    """Requests of the first container that are no smaller than those of the cleanup."""
    containers = part(template, "spec").get("containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        return template
    ray, *others = containers
    resources = part(ray, "resources")
    requests = part(resources, "requests")
    most = {name: _larger(requests.get(name), least) for name, least in _CLEANUP.items()}
    ray = ray | {"resources": resources | {"requests": requests | most}}
    return template | {"spec": part(template, "spec") | {"containers": [ray, *others]}}


def _larger(asked: Any, least: str) -> Any:
    """What is asked for, or what it takes at least. What is no quantity is left for the API server to refuse."""
    if asked is None:
        return least
    try:
        return asked if quantity.parse(asked) >= quantity.parse(least) else least
    except InvalidObject:
        return asked


def _with_container(template: Tree, container: Tree) -> Tree:
    spec = part(template, "spec")
    return template | {"spec": spec | {"containers": [*(spec.get("containers") or ()), container]}}


_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_RAY_OPERATOR = ("ray.io/kuberay-operator",)

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
    why_one_place="",
)
"""Its controller makes the Jobs of a suspended JobSet, and suspends them; once it has an end it removes them."""


def _kubeflow(kind: str, replicas: str, *roles: str, version: str = "v1", operator: str = "training") -> Declaration:
    """A Kubeflow job: a template per role, in this order, and the run policy that all its kinds share."""
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
        why_one_place="",
    )


def _ray_pods(at: str, *more: Addition) -> tuple[Pods, ...]:
    """The pods of a Ray cluster described at that path, with what KubeRay adds to the head."""
    additions = (redis_cleanup(at), autoscaler(at), *more)
    return (
        Pods(at=f"{at}.headGroupSpec", name="head", count="replicas", additions=additions),
        Pods(at=f"{at}.workerGroupSpecs[*]", name_at="groupName", each=("numOfHosts",)),
    )


def _no_autoscaling(at: str) -> Rule:
    where = StateRule(at=f"{at}.enableInTreeAutoscaling", values=(True,))
    return Rule(where, "expected false in a queue: the quota is that of the replicas it names")


RAY_CLUSTER = Declaration(
    framework="ray.io/raycluster",
    group="ray.io",
    version="v1",
    plural="rayclusters",
    kind="RayCluster",
    managers=_RAY_OPERATOR,
    pods=_ray_pods("spec"),
    active_states=(StateRule(at="status.state", values=("ready",)),),
    ready=StateRule(at="status.state", values=("ready",)),
    rules=(_no_autoscaling("spec"),),
    why_one_place="",
    sized=Sized("workerGroupSpecs", "groupName", ("replicas", "numOfHosts")),
)


def _submitter(spec: dict[str, Any]) -> dict[str, Any] | None:
    """The submitter pod, if the RayJob does not describe one."""
    image = paths.only(spec, "rayClusterSpec.headGroupSpec.template.spec.containers[*].image", "")
    return {"spec": {"containers": [SUBMITTER_CONTAINER | {"image": image}], "restartPolicy": "Never"}}


_SUBMITTER = Pods(
    at="spec",
    name="submitter",
    template="submitterPodTemplate",
    otherwise=_submitter,
    when=StateRule(at="spec.submissionMode", values=("K8sJobMode",)),
)

_RAY_JOB_RULES = (
    Rule(
        StateRule(at="spec.clusterSelector"),
        "a job on a cluster that is there already takes no quota: leave out its queue",
    ),
    Rule(StateRule(at="spec.rayClusterSpec"), "expected the cluster that the job needs", is_needed=True),
    Rule(
        StateRule(at="spec.shutdownAfterJobFinishes", values=(True,)),
        "expected true in a queue: the quota of the cluster goes when the job ends",
        is_needed=True,
    ),
    _no_autoscaling("spec.rayClusterSpec"),
)

_RAY_JOB_REFUSED_WHILE_IT_RUNS = StateRule(
    at="status.rayClusterName", given=StateRule(at="status.jobDeploymentStatus", values=("ValidationFailed",))
)
"""KubeRay never looks again at what it refuses: it is over, unless a cluster of it runs by then. Kueue puts its Workload on
hold, since 0.19.1 (#14192), and before keeps its quota forever."""
_RAY_JOB_IDLE = StateRule(
    at="status.jobDeploymentStatus",
    values=("Suspended", "Complete", "Failed", "ValidationFailed"),
    unless=_RAY_JOB_REFUSED_WHILE_IT_RUNS,
)
_RAY_JOB_OVER = StateRule(at="status.jobDeploymentStatus", values=("Complete", "Failed"), message="status.message")

RAY_JOB = Declaration(
    framework="ray.io/rayjob",
    group="ray.io",
    version="v1",
    plural="rayjobs",
    kind="RayJob",
    managers=_RAY_OPERATOR,
    pods=(*_ray_pods("spec.rayClusterSpec", SUBMITTER_IN_HEAD), _SUBMITTER),
    succeeded=StateRule(at="status.jobStatus", values=("SUCCEEDED",), message="status.message", given=_RAY_JOB_OVER),
    failed=replace(
        _RAY_JOB_OVER, values=("Failed", "Complete", "ValidationFailed"), unless=_RAY_JOB_REFUSED_WHILE_IT_RUNS
    ),
    active_states=(StateRule(at="status.jobDeploymentStatus", unless=_RAY_JOB_IDLE),),
    ready=StateRule(at="status.rayClusterStatus.state", values=("ready",)),
    rules=_RAY_JOB_RULES,
    why_one_place="",
)

APP_WRAPPER = Declaration(
    framework="workload.codeflare.dev/appwrapper",
    group="workload.codeflare.dev",
    version="v1beta2",
    plural="appwrappers",
    kind="AppWrapper",
    managers=("workload.codeflare.dev/appwrapper-controller",),
    pods=(Components(),),
    succeeded=StateRule(at="status.phase", values=("Succeeded",), words="AppWrapper finished successfully"),
    failed=StateRule(
        at="status.phase", values=("Failed",), words="AppWrapper failed", unless=condition("ResourcesDeployed")
    ),
    active_states=(condition("QuotaReserved"),),
    ready=condition("PodsReady"),
    why_one_place="",
)

RAY_SERVICE = Declaration(
    framework="ray.io/rayservice",
    group="ray.io",
    version="v1",
    plural="rayservices",
    kind="RayService",
    suspend="spec.rayClusterConfig.suspend",
    managers=_RAY_OPERATOR,
    pods=_ray_pods("spec.rayClusterConfig"),
    failed=StateRule(
        at="status.conditions[type=Ready].reason",
        values=("ValidationFailed", "InitializingTimeout"),
        message="status.conditions[type=Ready].message",
        unless=StateRule(at="status[*].rayClusterName"),
    ),
    active_states=(condition("Ready"),),
    ready=condition("Ready"),
    rules=(_no_autoscaling("spec.rayClusterConfig"),),
    why_one_place="KubeRay judges by the manager cluster whether a service is ready, and gives up one that is not in time",
)
"""As in the Kueue after 0.16, which does not know the kind, but for its failures: KubeRay gives a service up that it refuses or
that is not ready in time, and only where no cluster of it runs is that its end. In Kueue it never ends."""

TRAIN_JOB = Declaration(
    framework="trainer.kubeflow.org/trainjob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    plural="trainjobs",
    kind="TrainJob",
    managers=("trainer.kubeflow.org/trainjob-controller",),
    pods=(RuntimePods(),),
    runtimes=TrainingRuntimes(),
    succeeded=condition("Complete"),
    failed=condition("Failed"),
    active_counts=("status.jobsStatus[*].active",),
    ready_counts=("status.jobsStatus[*].ready", "status.jobsStatus[*].succeeded"),
    ready_of="runtime.template.spec.replicatedJobs[*].replicas",
    dropped=(f"spec.runtimePatches[manager={PATCH_MANAGER}]",),
    why_one_place="Trainer removes a failure from the status that it has not seen on the manager cluster",
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
    RAY_JOB,
    RAY_SERVICE,
    TRAIN_JOB,
    APP_WRAPPER,
)
