"""Workloads of which only the quota counts that they use or wait for: others' on a worker, without their pod templates."""

from __future__ import annotations

from multikueue.api.kueue.workload import Admission, ReclaimablePod
from multikueue.api.meta import Condition, Int64, Object, Value


class CountedPods(Value):
    name: str = ""
    count: Int64 = 0


class UsageSpec(Value):
    pod_sets: tuple[CountedPods, ...] = ()
    queue_name: str = ""
    priority: Int64 = 0
    active: bool = True


class UsageStatus(Value):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()


class WorkloadUsage(Object):
    spec: UsageSpec = UsageSpec()
    status: UsageStatus = UsageStatus()
