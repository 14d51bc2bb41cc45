"""In which field a job differs from its Workload: what Kueue on a worker means by "out of sync"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import encode
from multikueue.api.values.foreign import excerpt
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.trees.canonical import is_pruned_copy
from multikueue.jobs.trees.templates import comparable

__all__ = ["difference", "first_difference"]

_LONGEST_VALUE = 100
_MISSING = object()


def difference(adapter: Adapter, job: AnyJob, workload: Workload) -> str:
    """The first field, in words, such as `pod set main: containers[0].image is "b" and "a" in its Workload`; empty if there is
    none that Kueue compares."""
    ours = msgspec.json.decode(encode(adapter.workload_body(job, priority=Priority())))["spec"]["podSets"]
    theirs = workload_spec(workload).pod_sets
    if len(ours) != len(theirs):
        return f"the number of pod sets is {len(ours)}, and {len(theirs)} in its Workload"
    for own, seen in zip(ours, theirs, strict=True):
        pairs: dict[str, tuple[Any, Any]] = {
            "count": (own["count"], seen.count),
            "minCount": (own.get("minCount"), seen.min_count),
        }
        mine, other = comparable(encode(own["template"])), comparable(bytes(seen.template))
        pairs |= {key: (mine.get(key) or [], other.get(key) or []) for key in ("initContainers", "containers")}
        for path, (left, right) in pairs.items():
            if words := first_difference(path, left, right):
                return f"pod set {seen.name}: {words}"
    return ""


def first_difference(path: str, ours: Any, theirs: Any) -> str:
    """The first place below `path` in which two JSON values differ, in words; empty if they are equal."""
    return next(_differences(path, ours, theirs), "")


def _differences(path: str, ours: Any, theirs: Any) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in theirs and is_pruned_copy({}, {key: ours[key]}):
                continue  # an older definition of Workloads lacks it
            yield from _differences(f"{path}.{key}", ours.get(key, _MISSING), theirs.get(key, _MISSING))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(f"{path}[{index}]", left, right)
    elif isinstance(ours, list) and isinstance(theirs, list):
        items = "item" if len(ours) == 1 else "items"
        yield f"{path} has {len(ours)} {items}, and {len(theirs)} in its Workload"
    elif ours != theirs:
        yield f"{path} is {_shown(ours)}, and {_shown(theirs)} in its Workload"


def _shown(value: Any) -> str:
    return "missing" if value is _MISSING else excerpt(encode(value).decode(), _LONGEST_VALUE)
