"""In which field a job differs from its Workload: what Kueue on a worker means by "out of sync"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import encode
from multikueue.api.values.canonical import QUANTITIES
from multikueue.api.values.foreign import excerpt
from multikueue.api.values.quantity import billionths
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import maximum_execution_time
from multikueue.jobs.trees.templates import ASKED, comparable, is_pruned_copy

__all__ = ["difference", "first_difference"]

_LONGEST_VALUE = 100
_MISSING = object()


def difference(adapter: Adapter, job: AnyJob, workload: Workload) -> str:
    """The first field, in words, such as `pod set main: containers[0].image is "b", and "a" in its Workload`; empty if there
    is none that is compared (`is_equivalent`)."""
    seconds, wanted = workload_spec(workload).maximum_execution_time_seconds or None, maximum_execution_time(job)
    if seconds != wanted:
        return f"maximumExecutionTimeSeconds is {wanted or 'missing'}, and {seconds or 'missing'} in its Workload"
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
        pairs |= {key: (mine.get(key) or empty, other.get(key) or empty) for key, empty in ASKED.items()}
        for path, (left, right) in pairs.items():
            if words := first_difference(path, left, right):
                return f"pod set {seen.name}: {words}"
    return ""


def first_difference(path: str, ours: Any, theirs: Any) -> str:
    """The first place below `path` in which two JSON values differ, in words; empty if they are equal."""
    return next(_differences(path, ours, theirs), "")


def _differences(path: str, ours: Any, theirs: Any) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict) and path.rpartition(".")[2] in QUANTITIES:
        for key in sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)):
            left, right = (_amount(each.get(key, _MISSING)) for each in (ours, theirs))
            yield f"{path}.{key} is {left}, and {right} in its Workload"
    elif isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in theirs and is_pruned_copy({}, {key: ours[key]}):
                continue  # an older definition of Workloads lacks it
            left, right = ours.get(key, _MISSING), theirs.get(key, _MISSING)
            one_is_absent = _MISSING in (left, right) and dict in (type(left), type(right))
            sides = ({} if one_is_absent and side is _MISSING else side for side in (left, right))
            yield from _differences(f"{path}.{key}", *sides)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(f"{path}[{index}]", left, right)
    elif isinstance(ours, list) and isinstance(theirs, list):
        items = "item" if len(ours) == 1 else "items"
        yield f"{path} has {len(ours)} {items}, and {len(theirs)} in its Workload"
    elif ours != theirs:
        yield f"{path} is {_shown(ours)}, and {_shown(theirs)} in its Workload"


def _amount(value: Any) -> str:
    """A number of nano-units as a quantity."""
    return billionths(value) if type(value) is int else _shown(value)


def _shown(value: Any) -> str:
    return "missing" if value is _MISSING else excerpt(encode(value).decode(), _LONGEST_VALUE)
