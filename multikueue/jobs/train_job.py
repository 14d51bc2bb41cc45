"""The pods of a TrainJob: those of the JobSet in the runtime it names, with what the TrainJob says of its own.

Rules: Kueue 0.16 with Kubeflow Trainer 2.1, as far as they decide about pod sets. What Trainer's plugins add only when the
JobSet is made (the variables of torchrun, the volumes of MPI) is in no Workload of Kueue's, so it is in none of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from multikueue.api.job import AnyJob, CustomJob, JobKey, job_type
from multikueue.api.kinds import Kind
from multikueue.api.workload import ReclaimablePod
from multikueue.jobs import paths
from multikueue.jobs.overrides import merged
from multikueue.jobs.pods import number, pod_set, reclaimed
from multikueue.jobs.templates import part, tree_of

__all__ = ["RuntimePods", "TrainingRuntimes"]

Tree = dict[str, Any]

_GROUP = "trainer.kubeflow.org"
_OF_NAMESPACE = Kind(_GROUP, "v1alpha1", "trainingruntimes", "TrainingRuntime", True, job_type("TrainingRuntime"))
_OF_CLUSTER = Kind(
    _GROUP, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False, job_type("ClusterTrainingRuntime")
)
_STEP = f"{_GROUP}/trainjob-ancestor-step"
_TRAINER = "trainer"
_NODE = "node"
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_JOBS = "runtime.template.spec.replicatedJobs[*]"
_TORCHTUNE = ["tune", "run"]


@dataclass(frozen=True, slots=True)
class TrainingRuntimes:
    """Those of Trainer: a TrainJob names one of its namespace, or one of the cluster."""

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
        if "torch" in part(runtime, "mlPolicy") and command == _TORCHTUNE:
            return "The command of a torchtune job is known to Trainer alone, so its Workload cannot be made"
        return None


@dataclass(frozen=True, slots=True)
class RuntimePods:
    """A pod set per replicated job."""

    over: ClassVar[str] = "status.jobsStatus[*]"

    def pod_sets(self, job: Tree) -> Iterator[Tree]:
        return (_pod_set(job, each) for each in _replicated(job))

    def reclaimed(self, job: Tree) -> Iterator[ReclaimablePod]:
        replicas = ((str(each.get("name")).lower(), _replicas(each), _nodes(job, each)) for each in _replicated(job))
        return reclaimed(replicas, paths.found(job, self.over))

    def templates(self, job: Tree) -> Iterator[tuple[str, Tree]]:  # noqa: ARG002  # they are its runtime's
        return iter(())

    def paths(self) -> Iterator[str]:
        yield from (_JOBS, self.over)


def _replicated(job: Tree) -> Iterator[Tree]:
    """The replicated jobs of its runtime, if that is known."""
    for each in paths.found(job, _JOBS) if job.get("runtime") is not None else ():
        if isinstance(each, dict) and isinstance(paths.only(each, "template.spec.template"), dict):
            yield each


def _replicas(each: Tree) -> int:
    return 1 if _step(each) in (_TRAINER, *_INITIALIZERS) else number(each.get("replicas"))


def _pod_set(job: Tree, each: Tree) -> Tree:
    spec, step, replicas = job["spec"], _step(each), _replicas(each)
    template = _overridden(paths.only(each, "template.spec.template"), str(each.get("name")), spec)
    if step in _INITIALIZERS:
        template = _with_container(template, step, part(part(spec, "initializer"), _INITIALIZERS[step]), _initializer)
    if step == _TRAINER:
        template = _with_container(template, _NODE, part(spec, "trainer"), _command)
    if step == _TRAINER or (_launcher_is_node(job) and each.get("name") == _NODE):
        template = _with_container(template, _NODE, part(spec, "trainer"), _resources)
    return pod_set(
        str(each.get("name")),
        count=replicas * _nodes(job, each),
        template=template,
        index="batch.kubernetes.io/job-completion-index",
        groups=("jobset.sigs.k8s.io/job-index", replicas),
    )


def _step(each: Tree) -> str:
    return str(part(part(part(each, "template"), "metadata"), "labels").get(_STEP) or "")


def _nodes(job: Tree, each: Tree) -> int:
    """How many pods one replica has. The job's own number counts for its nodes: with MPI, the job of that name."""
    policy, wanted = part(job["runtime"], "mlPolicy"), part(job["spec"], "trainer").get("numNodes")
    own = _step(each) == _TRAINER if "mpi" not in policy else each.get("name") == _NODE
    if own and isinstance(wanted, int):
        return max(wanted - 1, 1) if _launcher_is_node(job) else wanted
    if _step(each) == _TRAINER and policy:
        return number(policy.get("numNodes"))
    return number(paths.only(each, "template.spec.parallelism"))


def _launcher_is_node(job: Tree) -> bool:
    return part(part(job["runtime"], "mlPolicy"), "mpi").get("runLauncherAsNode") is True


# --- containers ------------------------------------------------------------------------------------------------------


def _with_container(template: Tree, name: str, said: Tree, change: Any) -> Tree:
    """The template with what the job says of the container of that name, if it says anything."""
    spec = part(template, "spec")
    containers = [change(each, said) if each.get("name") == name else each for each in spec.get("containers") or ()]
    return template | {"spec": spec | {"containers": containers}} if said and containers else template


def _command(container: Tree, trainer: Tree) -> Tree:
    return container | {key: trainer[key] for key in ("image", "command", "args") if trainer.get(key) is not None}


def _resources(container: Tree, trainer: Tree) -> Tree:
    given = part(trainer, "resourcesPerNode")
    wanted = {key: given[key] for key in ("limits", "requests") if given.get(key)}
    return container | ({"resources": wanted} if wanted else {}) | _env(container, trainer.get("env"))


def _initializer(container: Tree, said: Tree) -> Tree:
    uri = [{"name": "STORAGE_URI", "value": said["storageUri"]}] if said.get("storageUri") is not None else []
    secret = [{"secretRef": {"name": part(said, "secretRef").get("name")}}] if part(said, "secretRef") else []
    sources = {"envFrom": [*(container.get("envFrom") or ()), *secret]} if secret else {}
    return container | _env(container, [*uri, *(said.get("env") or ())]) | sources


def _env(container: Tree, more: list[Tree] | None) -> Tree:
    """The variables with more of them: each in the place of the one of its name, or at the end."""
    known = {each.get("name"): each for each in (*(container.get("env") or ()), *(more or ()))}
    return {"env": list(known.values())} if more else {}


def _overridden(template: Tree, name: str, spec: Tree) -> Tree:
    """The template after the overrides for the job of that name, one after the other."""
    for each in spec.get("podTemplateOverrides") or ():
        if any(target.get("name") == name for target in each.get("targetJobs") or ()):
            meta = {key: part(each, "metadata").get(key) for key in ("labels", "annotations")}
            given = {key: value for key, value in meta.items() if value}
            template = merged(template, {"metadata": given, "spec": part(each, "spec")})
    return template
