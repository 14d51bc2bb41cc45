"""The body of a copy, and the comparison of a copy with its original (contract 1.6, 3.5)."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from multikueue.api.kueue.workload import (
    ATTEMPT_ANNOTATION,
    DEACTIVATION_TARGET,
    EVICTED,
    EVICTED_ON_MANAGER,
    JOB_UID_LABEL,
    ORIGIN_LABEL,
    Workload,
    fewer_pods,
    workload_spec,
)
from multikueue.api.meta import LONGEST_MESSAGE, encode, render_time
from multikueue.api.values.canonical import terse
from multikueue.api.values.foreign import answer_or
from multikueue.dispatch.copies import preemption_gates

LOWEST = -1_000_000_000
"""The priority of a copy that yields: far below those in use, and far from the end of an int32, for Kueue adds boosts to it."""

_UNFIT_FOR_YAML = re.compile("[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""What no YAML may contain. A Kueue applies the status of a Workload together with its annotations, and the API server reads
that as YAML: with such a character it would try to admit the copy forever, without a word."""

_PRIORITY_FIELDS = ("priority", "priorityClassRef")
_COMPARED_FIELDS = ("podSets", "queueName", "maximumExecutionTimeSeconds")


def copy_body(
    local: Workload, *, origin: str, attempt: str, is_gated: bool = False, priority: int | None = None
) -> dict[str, Any]:
    """The Workload to create on a worker: our labels and marks, and the spec byte for byte, or behind our gate, or with that
    `priority` in place of its own; after partial admission with the counts that got quota, or a worker might admit more.

    The owner's UID label is left out: no such owner exists on the worker. So are annotations that no Kueue could apply.
    """
    annotations = {name: text for name, text in local.metadata.annotations.items() if not _UNFIT_FOR_YAML.search(text)}
    labels, spec = {k: v for k, v in local.metadata.labels.items() if k != JOB_UID_LABEL}, _counted_spec(local)
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": local.metadata.name,
            "namespace": local.metadata.namespace,
            "labels": labels | {ORIGIN_LABEL: origin},
            "annotations": annotations | {ATTEMPT_ANNOTATION: attempt},
        },
        "spec": _with_priority(preemption_gates.gated(spec) if is_gated else spec, priority),
    }


def _with_priority(spec: msgspec.Raw | dict[str, Any], priority: int | None) -> msgspec.Raw | dict[str, Any]:
    if priority is None:
        return spec
    fields = msgspec.json.decode(spec) if isinstance(spec, msgspec.Raw) else spec
    return {**fields, "priority": priority}


def _counted_spec(local: Workload) -> msgspec.Raw:
    """The spec with the numbers of pods that got quota."""
    fewer = fewer_pods(local)
    if not fewer:
        return local.spec
    spec = msgspec.json.decode(local.spec)
    pod_sets = [each | {"count": fewer.get(each["name"], each["count"])} for each in spec["podSets"]]
    return msgspec.Raw(encode(spec | {"podSets": pod_sets}))


def drift(local: Workload, remote: Workload, priority: int | None = None) -> frozenset[str]:
    """The names of the spec fields in which a copy differs from its original, with that `priority` in place of its own; empty
    if it matches.

    Fields that one side does not know or sets by itself (preemption gates, `active`) are not compared. The worker's
    Kueue writes the spec in its own form: without zero values, quantities in their shortest form.
    """
    spec = _counted_spec(local)
    if priority is None and bytes(spec) == bytes(remote.spec):
        return frozenset()
    ours = msgspec.json.decode(spec) | ({} if priority is None else {"priority": priority})
    theirs: Any = answer_or(lambda: msgspec.json.decode(remote.spec), otherwise=None)
    theirs = theirs if isinstance(theirs, dict) else {}
    fields = (*_PRIORITY_FIELDS, *_COMPARED_FIELDS)
    return frozenset(f for f in fields if answer_or(partial(_is_different, ours.get(f), theirs.get(f)), otherwise=True))


def _is_different(ours: Any, theirs: Any) -> bool:
    return (ours or None) != (theirs or None) and bool(terse(ours) != terse(theirs))


def is_priority_only(fields: frozenset[str], local: Workload, remote: Workload, priority: int | None = None) -> bool:
    """Whether the drift can be repaired in place: only the priority of a workload with a WorkloadPriorityClass, or of a copy
    that begins or ceases to yield."""
    if fields == {"priority"} and LOWEST in (
        priority,
        answer_or(lambda: workload_spec(remote).priority, otherwise=None),
    ):
        return True
    ref = workload_spec(local).priority_class_ref
    return bool(fields) and fields <= set(_PRIORITY_FIELDS) and ref is not None and ref.kind == "WorkloadPriorityClass"


def priority_patch(local: Workload, remote: Workload, priority: int | None = None) -> dict[str, Any]:
    """A merge patch that gives the copy that priority, or else the original's."""
    spec = workload_spec(local)
    return {
        "metadata": {"resourceVersion": remote.metadata.resource_version},
        "spec": {
            "priority": spec.priority if priority is None else priority,
            "priorityClassRef": spec.priority_class_ref,
        },
    }


def deactivation_patch(local: Workload, remote: Workload, now: datetime) -> dict[str, Any]:
    """A merge patch of the copy's status that makes the worker's Kueue evict it (contract 3.6 step 2)."""
    evicted = local.condition(EVICTED)
    target = {
        "type": DEACTIVATION_TARGET,
        "status": "True",
        "reason": EVICTED_ON_MANAGER,
        "message": f"Evicted on manager: {evicted.message if evicted else ''}"[:LONGEST_MESSAGE],
        "lastTransitionTime": render_time(now),
        "observedGeneration": remote.metadata.generation,
    }
    kept = [c for c in remote.status.conditions if c.type != DEACTIVATION_TARGET]
    return {
        "metadata": {"resourceVersion": remote.metadata.resource_version},
        "status": {"conditions": [*kept, target]},
    }
