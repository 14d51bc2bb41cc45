"""TrainJobs with their runtimes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.meta import encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.declarations import TRAIN_JOB
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from tests.jobs.all_kinds import RUNTIME, body, put, value
from tests.jobs.builders import plain

Tree = dict[str, Any]

ADAPTER = DeclaredJob(TRAIN_JOB)


def train_job(spec: Tree | None = None, runtime: Tree | None = None) -> AnyJob:
    """The example, with other values at these paths of its spec and of its runtime."""
    made, around = body(ADAPTER), {"runtime": copy.deepcopy(RUNTIME)}
    for path, what in (spec or {}).items():
        put(made, f"spec.{path}", what)
    for path, what in (runtime or {}).items():
        put(around, f"runtime.{path}", what)
    return msgspec.structs.replace(value(ADAPTER, made), runtime=msgspec.Raw(encode(around["runtime"])))


def pod_sets(job: AnyJob) -> list[Tree]:
    found: list[Tree] = plain(ADAPTER.workload_body(job, priority=Priority()))["spec"]["podSets"]
    return found


BARE = msgspec.structs.replace(train_job(), runtime=msgspec.Raw(b"null"))
"""The example before its runtime is seen."""
