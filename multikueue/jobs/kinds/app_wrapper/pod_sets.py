"""The pods of an AppWrapper: those of the wrapped objects, as it declares them or as inferred from their kinds.

Rules: Kueue 0.16 with AppWrapper 1.1. The Workload gets a template without the fields that decide nothing there, and
with an API server's defaults, since no API server has seen it yet (quota-engine 6.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from multikueue.api.kueue.workload import ReclaimablePod
from multikueue.jobs.framework.workloads import positive
from multikueue.jobs.kinds.declared.pod_sets import Pods, number, pod_set
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import part

__all__ = ["KNOWN", "Components", "completed"]

Tree = dict[str, Any]

_TOPOLOGY = "workload.codeflare.dev.appwrapper/tas-"
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
_OWN_PATH = re.compile(r"template((\.[^.\[]+)|(\[[0-9]+\]))*")


class Components(msgspec.Struct, frozen=True):
    """Each pod set of each component, named after the AppWrapper and numbered."""

    over: ClassVar[str] = ""

    def pod_sets(self, job: Tree) -> Iterator[Tree]:
        name = job["metadata"]["name"]
        found = (each for component in paths.found(job, "spec.components[*]") for each in _of_component(component))
        for index, each in enumerate(found):
            yield each | {"name": f"{name}-{index}".lower()}

    def uncounted(self, job: Tree) -> Iterator[str]:
        """Sidecars that ask for something. A Workload of an AppWrapper has them as init containers that end, as Kueue makes it
        and its workers compare it: what they take beside the containers would take no quota."""
        for place, component in enumerate(paths.found(job, "spec.components[*]")):
            for each in _templates(component):
                yield from _sidecars(each["template"]["spec"], f"spec.components[{place}]")

    def reclaimed(self, job: Tree) -> Iterator[ReclaimablePod]:  # noqa: ARG002  # an AppWrapper reports none
        return iter(())

    def templates(self, job: Tree) -> Iterator[tuple[str, Tree]]:  # noqa: ARG002  # what it wraps is not ours to change
        return iter(())

    def paths(self) -> Iterator[str]:
        yield "spec.components[*]"


def _of_component(component: Any) -> Iterator[Tree]:
    return (each | {"template": completed(each["template"])} for each in _templates(component))


def _sidecars(spec: Tree, where: str) -> Iterator[str]:
    containers = spec.get("initContainers")
    for index, each in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(each, dict) and each.get("restartPolicy") == "Always" and part(each, "resources"):
            yield (
                f"{where}: initContainers[{index}].restartPolicy: expected none where it asks for resources, got 'Always': "
                "Kueue does not count the sidecars of an AppWrapper"
            )


def _templates(component: Any) -> Iterator[Tree]:
    """The pod sets of a component with their templates as they are there."""
    template = paths.only(component, "template")
    if not isinstance(template, dict):
        return
    declared = [each for each in paths.found(component, "podSets[*]") if isinstance(each, dict)]
    known = KNOWN.get((str(template.get("apiVersion")), str(template.get("kind"))), ())
    inferred = (each for pods in known for each in pods.pod_sets({"component": component}))
    for each in (_declared(own, template) for own in declared) if declared else inferred:
        if each is not None and isinstance(each["template"].get("spec"), dict):
            yield each


def _declared(own: Tree, template: Tree) -> Tree | None:
    found = _at(template, str(own.get("path")))
    if not isinstance(found, dict):
        return None
    annotations = {str(key).removeprefix(_TOPOLOGY): value for key, value in part(own, "annotations").items()}
    group, size = annotations.get("sub-group-index-label"), positive(str(annotations.get("sub-group-count", "")))
    return pod_set(
        "",
        count=number(own.get("replicas")),
        template=found,
        index=annotations.get("pod-index-label", ""),
        groups=(group, size) if group and size else None,
    )


def _at(template: Tree, path: str) -> Any:
    """The value at a path such as `template.spec.jobs[0].template`; None if there is none."""
    found: Any = template if _OWN_PATH.fullmatch(path) else None
    for field, index in _STEP.findall(path):
        if field:
            found = found.get(field) if isinstance(found, dict) else None
        else:
            found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
    return found


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


_KEPT = (
    "nodeSelector",
    "nodeName",
    "affinity",
    "tolerations",
    "priorityClassName",
    "overhead",
    "topologySpreadConstraints",
    # Kueue leaves these out, and what they take is not counted. Its workers do not compare them.
    "resources",
    "resourceClaims",
    "runtimeClassName",
)
_DEFAULTS: Tree = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER_KEPT = ("name", "image", "command", "args", "securityContext")
_CONTAINER_DEFAULTS: Tree = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def completed(template: Tree) -> Tree:
    """The template without fields that decide nothing in a Workload, and with an API server's defaults.

    No API server has defaulted the template yet (quota-engine 6.2).
    """
    spec = template["spec"]
    groups = {key: spec[key] for key in ("initContainers", "containers") if isinstance(spec.get(key), list)}
    # Kueue drops the grace period of a pod that sets one, and gives every other pod the default.
    patience = {} if spec.get("terminationGracePeriodSeconds") is not None else {"terminationGracePeriodSeconds": 30}
    return {
        "metadata": _some(part(template, "metadata"), ("labels", "annotations")),
        "spec": {
            **{key: [_container(each) for each in group if isinstance(each, dict)] for key, group in groups.items()},
            **(_DEFAULTS | _some(spec, (*_KEPT, *_DEFAULTS))),
            **patience,
        },
    }


def _container(container: Tree) -> Tree:
    defaults = _CONTAINER_DEFAULTS | {"imagePullPolicy": _pull_policy(str(container.get("image") or ""))}
    resources = _some(part(container, "resources"), ("requests", "limits"))
    return {
        **_some(container, _CONTAINER_KEPT),
        "resources": resources,
        **defaults,
        **_some(container, tuple(defaults)),
    }


def _pull_policy(image: str) -> str:
    """Kubernetes' default: an image whose tag may move is always pulled."""
    name, pinned, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or pinned) else "IfNotPresent"


def _some(tree: Tree, keys: tuple[str, ...]) -> Tree:
    return {key: tree[key] for key in keys if tree.get(key) is not None}
