"""The role of a Pod in its group: Kueue's short hash of the fields that decide about admission."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from multikueue.api.jobs.pod import ROLE_HASH_ANNOTATION, Pod
from multikueue.api.meta import encode
from multikueue.jobs.trees.templates import part, tree_of

__all__ = ["role_hash", "role_of"]

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

    The spec must be as an API server shows it: objects in the order of their Go types.
    """
    shape: Tree = {name: spec.get(name) or None for name in _PARTS if name != "priority"}
    shape |= {name: _sorted(shape[name]) for name in _MAPS}
    shape["priority"] = spec.get("priority")
    shape |= {name: _containers(spec.get(name)) for name in ("containers", "initContainers")}
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
        }
        for each in containers
    ]


def _sorted(tree: Tree | None) -> Tree | None:
    return dict(sorted(tree.items())) if tree else None
