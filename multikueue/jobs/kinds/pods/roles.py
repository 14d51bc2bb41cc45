"""The role of a Pod in its group: Kueue's short hash of the fields that decide about admission.

The hash is in an annotation, which anybody may write who may write the Pod. So what Pods of one role ask for is compared,
besides (`asked`): one Pod speaks for all of its role.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from multikueue.api.jobs.pod import ROLE_HASH_ANNOTATION, Pod, PodAmounts
from multikueue.api.meta import decoder, encode
from multikueue.jobs.trees.templates import part, tree_of

__all__ = ["asked", "role_hash", "role_of"]

Tree = dict[str, Any]

_LENGTH = 8
_PARTS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
_MAPS = ("nodeSelector", "overhead")
# Go's encoder escapes these, so that JSON can be embedded in HTML.
_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def role_of(pod: Pod) -> str:
    """The role of a group member: the hash that the webhook wrote, or else a new one."""
    return pod.metadata.annotations.get(ROLE_HASH_ANNOTATION) or role_hash(tree_of(pod.spec))


def role_hash(spec: Tree) -> str:
    """The first eight hex digits of the SHA-256 of the pod spec's shape, as JSON in the order of Kueue's encoder.

    The spec must be as an API server shows it: objects in the order of their Go types. Kueue's shape lacks two fields that
    decide about amounts, resources of the pod as a whole and the policy of a sidecar: where a Pod has them, its hash is
    another one than Kueue's.
    """
    shape: Tree = {name: spec.get(name) or None for name in _PARTS if name != "priority"}
    shape |= {name: _sorted(shape[name]) for name in _MAPS}
    shape["priority"] = spec.get("priority")
    shape |= {name: _containers(spec.get(name)) for name in ("containers", "initContainers")}
    if whole := part(spec, "resources"):
        shape["resources"] = {name: _sorted(part(whole, name)) for name in ("limits", "requests")}
    text = encode({"spec": dict(sorted(shape.items()))})
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return sha256(text).hexdigest()[:_LENGTH]


def _containers(containers: list[Tree] | None) -> list[Tree] | None:
    """The hashed fields of containers: ports and requests."""
    if not containers:
        return None
    return [
        {
            "ports": each.get("ports") or None,
            "resources": {"requests": _sorted(part(each, "resources").get("requests"))},
            **({"restartPolicy": each["restartPolicy"]} if each.get("restartPolicy") else {}),
        }
        for each in containers
    ]


def _sorted(tree: Tree | None) -> Tree | None:
    return dict(sorted(tree.items())) if tree else None


def asked(spec: msgspec.Raw) -> tuple[object, ...]:
    """What decides about the amounts that a pod with this spec takes: equal for those that take the same.

    Quantities are compared as texts, which API servers write in one way.
    """
    pod = decoder(PodAmounts)(spec)
    return (
        [each.resources.asked for each in pod.containers],
        [(each.restart_policy, each.resources.asked) for each in pod.init_containers],
        pod.resources.asked if pod.resources is not None else None,
        pod.overhead,
        pod.runtime_class_name,
        {claim.name: claim for claim in pod.resource_claims},  # a Workload has one of each name, the last
    )
