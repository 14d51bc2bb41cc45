"""PUBLIC: builders of the values this package works on, and `check_strategy`, for authors of strategies and of tests.

A builder is immutable: each method returns a new builder, and `build()` returns the value. So a test can start from one
builder and branch::

    pending = workload("wl").queue("main").request(cpu=2)
    local = pending.reserved("cq").check("mk").nominated("worker-1", "worker-2").build()
    remote = pending.origin().reserved("cq").admitted().build()

Defaults: times are `NOW`, the namespace is "default", and UIDs derive from kind, namespace and name, so that two values
built alike are equal. Amounts are Kubernetes quantities: `cpu=2`, `memory="4Gi"`. Resource names that are no Python
names go into a mapping: `request({"nvidia.com/gpu": 8}, cpu=2)`.

`check_strategy(strategy)` checks whether a strategy keeps the contract of `multikueue.strategy`. Only the parts of the
product that are for tests themselves import this room.
"""

from multikueue.testing.clusters import (
    AdmissionCheckBuilder,
    MultiKueueClusterBuilder,
    SecretBuilder,
    admission_check,
    multikueue_cluster,
    multikueue_config,
    namespace,
    secret,
)
from multikueue.testing.contract import check_strategy
from multikueue.testing.fleets import FleetBuilder, StrategyWorkloadBuilder, fleet, strategy_workload
from multikueue.testing.objects import NOW, Builder, Quantity
from multikueue.testing.queues import (
    ClusterQueueBuilder,
    CohortBuilder,
    FlavorBuilder,
    LocalQueueBuilder,
    cluster_queue,
    cohort,
    flavor,
    flavor_quotas,
    limits,
    local_queue,
    workload_priority_class,
)
from multikueue.testing.workloads import JobBuilder, PodSetBuilder, WorkloadBuilder, job, pod_set, workload

__all__ = [
    "NOW",
    "AdmissionCheckBuilder",
    "Builder",
    "ClusterQueueBuilder",
    "CohortBuilder",
    "FlavorBuilder",
    "FleetBuilder",
    "JobBuilder",
    "LocalQueueBuilder",
    "MultiKueueClusterBuilder",
    "PodSetBuilder",
    "Quantity",
    "SecretBuilder",
    "StrategyWorkloadBuilder",
    "WorkloadBuilder",
    "admission_check",
    "check_strategy",
    "cluster_queue",
    "cohort",
    "flavor",
    "flavor_quotas",
    "fleet",
    "job",
    "limits",
    "local_queue",
    "multikueue_cluster",
    "multikueue_config",
    "namespace",
    "pod_set",
    "secret",
    "strategy_workload",
    "workload",
    "workload_priority_class",
]
