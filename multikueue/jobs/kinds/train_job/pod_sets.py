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

from multikueue.api.kueue.workload import ReclaimablePod
from multikueue.jobs.kinds.declared.pod_sets import number, pod_set, reclaimed
from multikueue.jobs.kinds.train_job.template import INITIALIZERS, NODE, TRAINER, patched, template_of
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import part

__all__ = ["RuntimePods"]

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
