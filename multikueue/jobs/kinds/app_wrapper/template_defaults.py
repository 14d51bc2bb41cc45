"""Defaults of pod templates that no API server has defaulted yet, as Kueue writes them (quota-engine 6.2)."""

from __future__ import annotations

from typing import Any

from multikueue.jobs.trees.templates import part

__all__ = ["completed"]

Tree = dict[str, Any]

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
    """The template without fields that decide nothing in a Workload, and with an API server's defaults."""
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
