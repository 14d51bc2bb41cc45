"""One step of a workload's life, and what is read of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import (
    Admission,
    PodSetRequest,
    Workload,
    WorkloadStatus,
)
from multikueue.api.meta import find_condition
from multikueue.quota.workload.outcome import Verdict
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import RequeueBackoff
from multikueue.workload.life.rules import Step
from tests.builders import NOW, ClusterQueueBuilder, LocalQueueBuilder, WorkloadBuilder, cluster_queue, local_queue
from tests.builders import workload as new_workload
from tests.quota.builders import SECOND, facts_of, step

QUEUE, LOCAL = cluster_queue("cq"), local_queue("lq")


ADMISSION = Admission(cluster_queue="cq")
MINUTE = timedelta(minutes=1)
MINUTELY = RequeueBackoff(first=MINUTE, cap=MINUTE)


def workload() -> WorkloadBuilder:
    return new_workload("wl").queue("lq").generation(7)


def facts(
    now: datetime = NOW + 100 * SECOND,
    *,
    queue: ClusterQueueBuilder | ClusterQueue | None = QUEUE,
    local: LocalQueueBuilder | LocalQueue | None = LOCAL,
    active: bool = True,
    **known: Any,
) -> Case:
    """Everything is well and nothing runs, unless said otherwise."""
    return facts_of(
        now,
        cluster_queue=queue.build() if isinstance(queue, ClusterQueueBuilder) else queue,
        local_queue=local.build() if isinstance(local, LocalQueueBuilder) else local,
        is_cluster_queue_active=active,
        **known,
    )


def shown(value: Workload, status: WorkloadStatus) -> Workload:
    return msgspec.structs.replace(value, status=status)


def taken(builder: WorkloadBuilder, known: Case) -> Step:
    """The step, after making sure that repeating it changes nothing."""
    value = builder.build()
    first = step(value, known)
    again = step(shown(value, first.status), known)
    assert again.status is first.status
    assert again.should_deactivate == first.should_deactivate
    return first


def told(found: Step, type_: str) -> tuple[str, str, str] | None:
    condition = find_condition(found.status.conditions, type_)
    return (condition.status, condition.reason, condition.message) if condition else None


def events(found: Step) -> list[str]:
    return [event.reason for event in found.events]


VERDICT = Verdict("no room", (PodSetRequest(name="main", resources={"cpu": "1"}),))
