"""Amounts below zero in the pods of a job.

The API server refuses them in the templates of its own kinds. Those of a CustomResourceDefinition it takes as they are, and
so it does Kueue's Workloads; where they counted, they would make quota (kueue#13391).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.jobs.trees.templates import part

__all__ = ["problems"]

Tree = dict[str, Any]


def problems(pod_set: Tree) -> Iterator[str]:
    """Each request, limit and overhead below zero in the template of a pod set: its field, what is expected and the
    value. What is no quantity is left to the API server and to the Workload's own condition."""
    spec, where = part(pod_set["template"], "spec"), f"pods {pod_set['name']}: spec"
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                yield from _of_resources(part(container, "resources"), f"{where}.{kind}[{index}].resources")
    yield from _of_resources(part(spec, "resources"), f"{where}.resources")
    yield from _negative(part(spec, "overhead"), f"{where}.overhead")


def _of_resources(resources: Tree, where: str) -> Iterator[str]:
    for name in ("requests", "limits"):
        yield from _negative(part(resources, name), f"{where}.{name}")


def _negative(amounts: Tree, where: str) -> Iterator[str]:
    for resource, amount in amounts.items():
        try:
            if quantity.parse(amount) < 0:
                yield f"{where}[{resource}]: expected 0 or more, got {amount!r}"
        except InvalidObject:
            continue
