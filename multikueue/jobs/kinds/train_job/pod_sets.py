"""The pods of a TrainJob: those of the JobSet in the runtime it names, with the TrainJob's patches.

Rules: Kueue 0.19 with Kubeflow Trainer 2.2, as far as they decide about pod sets, and the field that Trainer 2.1 had in
the place of `runtimePatches`. Trainer's plugins add more only when
the JobSet is created (the variables of torchrun, the volumes of MPI): that is in no Workload of Kueue's, so it is in
none of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from multikueue.api.jobs.job import AnyJob, CustomJob, JobKey, job_type
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import ReclaimablePod
from multikueue.jobs.kinds.declared.pod_sets import number, pod_set, reclaimed
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import merged, part, tree_of

__all__ = [
    "INITIALIZERS",
    "NODE",
    "PATCH_MANAGER",
    "TRAINER",
    "RuntimePods",
    "TrainingRuntimes",
    "patched",
    "template_of",
]

Tree = dict[str, Any]

_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_JOBS = "runtime.template.spec.replicatedJobs[*]"


class RuntimePods(msgspec.Struct, frozen=True):
    """A pod set per replicated job."""

    over: ClassVar[str] = "status.jobsStatus[*]"

    def pod_sets(self, job: Tree) -> Iterator[Tree]:
        return (_pod_set(job, each) for each in _replicated(job))

    def uncounted(self, job: Tree) -> Iterator[str]:  # noqa: ARG002  # its pod sets have all of a template
        return iter(())

    def reclaimed(self, job: Tree) -> Iterator[ReclaimablePod]:
        replicas = ((str(each.get("name")).lower(), _replicas(each), _nodes(job, each)) for each in _replicated(job))
        return reclaimed(replicas, paths.found(job, self.over))

    def templates(self, job: Tree) -> Iterator[tuple[str, Tree]]:  # noqa: ARG002  # the templates are the runtime's
        return iter(())

    def paths(self) -> Iterator[str]:
        yield from (_JOBS, self.over)


def _replicated(job: Tree) -> Iterator[Tree]:
    """The replicated jobs of its runtime, as the TrainJob patches them, if the runtime is known."""
    for each in paths.found(job, _JOBS) if job.get("runtime") is not None else ():
        whole = patched(each, job["spec"]) if isinstance(each, dict) else {}
        if isinstance(paths.only(whole, "template.spec.template"), dict):
            yield whole


def _replicas(each: Tree) -> int:
    return 1 if _step(each) in (TRAINER, *INITIALIZERS) else number(each.get("replicas"))


def _pod_set(job: Tree, each: Tree) -> Tree:
    replicas, is_node = _replicas(each), _is_launcher_node(job) and each.get("name") == NODE
    return pod_set(
        str(each.get("name")),
        count=replicas * _nodes(job, each),
        template=template_of(each, job["spec"], step=_step(each), is_node=is_node),
        index="batch.kubernetes.io/job-completion-index",
        groups=("jobset.sigs.k8s.io/job-index", replicas),
    )


def _step(each: Tree) -> str:
    return str(part(part(part(each, "template"), "metadata"), "labels").get(_STEP) or "")


def _nodes(job: Tree, each: Tree) -> int:
    """The pods per replica. The TrainJob's numNodes applies to its trainer; with MPI, to the replicated job `node`."""
    policy, wanted = part(job["runtime"], "mlPolicy"), part(job["spec"], "trainer").get("numNodes")
    own = _step(each) == TRAINER if "mpi" not in policy else each.get("name") == NODE
    if own and isinstance(wanted, int):
        return max(wanted - 1, 1) if _is_launcher_node(job) else wanted
    if _step(each) == TRAINER and policy:
        return number(policy.get("numNodes"))
    return number(paths.only(each, "template.spec.parallelism"))


def _is_launcher_node(job: Tree) -> bool:
    return part(part(job["runtime"], "mlPolicy"), "mpi").get("runLauncherAsNode") is True


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


TRAINER = "trainer"
"""The step of the replicated job that trains."""

NODE = "node"
"""The container that trains; if the MPI launcher is a node too, also the replicated job of the other nodes."""

PATCH_MANAGER = "kueue.x-k8s.io/manager"
"""The manager of the entry in `runtimePatches` that a Kueue adds and fills for its own cluster."""

INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
"""The steps before training, each with the TrainJob's name for it."""


def template_of(each: Tree, spec: Tree, *, step: str, is_node: bool) -> Tree:
    """The template of a `patched` replicated job, merged with the TrainJob's trainer and initializer. `is_node`: a node's
    resources in any step."""
    template: Tree = paths.only(each, "template.spec.template")
    if step in INITIALIZERS:
        template = _with_container(template, step, part(part(spec, "initializer"), INITIALIZERS[step]), _initializer)
    if step == TRAINER:
        template = _with_container(template, NODE, part(spec, "trainer"), _command)
    if step == TRAINER or is_node:
        template = _with_container(template, NODE, part(spec, "trainer"), _resources)
    return template


def _with_container(template: Tree, name: str, said: Tree, change: Any) -> Tree:
    """The template with the TrainJob's changes to the container of that name, if there are any."""
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
    """The environment variables merged with `more`: each in the place of the one of its name, or at the end."""
    known = {each.get("name"): each for each in (*(container.get("env") or ()), *(more or ()))}
    return {"env": list(known.values())} if more else {}


def patched(each: Tree, spec: Tree) -> Tree:
    """The replicated job with what the TrainJob changes in its templates by name: `runtimePatches` since Trainer 2.2,
    `podTemplateOverrides` before, each in order. Kueue's own entry is not the user's: each cluster has its own."""
    name, template = each.get("name"), part(each, "template")
    for override in paths.found(spec, "podTemplateOverrides[*]"):
        if any(target == name for target in paths.found(override, "targetJobs[*].name")):
            template = merged(template, {"spec": {"template": _override(override)}})
    for patch in paths.found(spec, "runtimePatches[*]"):
        if paths.only(patch, "manager") != PATCH_MANAGER:
            for job in paths.found(patch, "trainingRuntimeSpec.template.spec.replicatedJobs[*]"):
                if paths.only(job, "name") == name:
                    template = merged(template, part(job, "template"))
    return each | {"template": template}


def _override(override: Tree) -> Tree:
    meta = {key: part(override, "metadata").get(key) for key in ("labels", "annotations")}
    return {"metadata": {key: value for key, value in meta.items() if value}, "spec": part(override, "spec")}
