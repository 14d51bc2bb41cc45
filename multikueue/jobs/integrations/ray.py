"""What KubeRay adds to the pod of a Ray cluster's head, as far as Kueue counts it."""

from __future__ import annotations

from typing import Any

from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.jobs.kinds.declared.pod_sets import Addition
from multikueue.jobs.kinds.declared.state_rules import StateRule
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import part

__all__ = ["SUBMITTER_CONTAINER", "SUBMITTER_IN_HEAD", "autoscaler", "redis_cleanup"]

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
