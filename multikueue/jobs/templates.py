"""Pod templates: as a Workload has them, and whether a Workload's says what the job's says (quota-engine 6.2, 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from multikueue.api.meta import decoder
from multikueue.jobs.canonical import canonical, is_pruned_copy

__all__ = ["is_same_template", "part", "tree_of", "with_single_variables"]

Tree = dict[str, Any]

tree_of: Callable[[bytes | msgspec.Raw], Tree] = decoder(dict[str, Any])


def part(tree: Tree, name: str) -> Tree:
    """The object at that name, empty when absent or null."""
    return tree.get(name) or {}


def with_single_variables(spec: Tree) -> Tree:
    """The pod spec with the last value of each environment variable only, in the place of the first.

    The Workload's schema has the names as keys and refuses a second one; Kubernetes takes the last.
    """
    groups = {key: spec[key] for key in ("containers", "initContainers") if spec.get(key)}
    return spec | {key: [_with_single_variables_of(container) for container in group] for key, group in groups.items()}


def _with_single_variables_of(container: Tree) -> Tree:
    variables = container.get("env")
    if not variables:
        return container
    return container | {"env": list({variable.get("name"): variable for variable in variables}.values())}


@lru_cache(maxsize=1024)  # asked again and again about the same few templates
def is_same_template(job: bytes, workload: bytes, ignore_tolerations: bool) -> bool:
    """Whether two templates, as JSON, agree on what decides about running: containers, and tolerations unless ignored."""
    ours = canonical(with_single_variables(part(tree_of(job), "spec")))
    theirs = canonical(part(tree_of(workload), "spec"))
    if not ignore_tolerations and ours.get("tolerations") != theirs.get("tolerations"):
        return False
    return all(is_pruned_copy(theirs.get(key, []), ours.get(key, [])) for key in ("containers", "initContainers"))
