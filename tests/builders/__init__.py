"""Builders of the objects that the manager reads, for our own tests and benchmarks.

A builder is immutable: each method returns a new builder, and `build()` returns the value. So a test can start from one
builder and branch::

    pending = workload("wl").queue("main").request(cpu=2)
    local = pending.reserved("cq").check("mk").nominated("worker-1", "worker-2").build()
    remote = pending.origin().reserved("cq").admitted().build()

Defaults: times are `NOW`, the namespace is "default", and UIDs derive from kind, namespace and name, so that two values
built alike are equal. Amounts are Kubernetes quantities: `cpu=2`, `memory="4Gi"`. Resource names that are no Python
names go into a mapping: `request({"nvidia.com/gpu": 8}, cpu=2)`.
"""

from multikueue.testing import NOW, Quantity
from tests.builders.clusters import (
    AdmissionCheckBuilder,
    MultiKueueClusterBuilder,
    SecretBuilder,
    admission_check,
    multikueue_cluster,
    multikueue_config,
    namespace,
    secret,
)
from tests.builders.objects import Builder
from tests.builders.queues import (
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
from tests.builders.workloads import JobBuilder, PodSetBuilder, WorkloadBuilder, job, pod_set, workload

__all__ = [
    "NOW",
    "AdmissionCheckBuilder",
    "Builder",
    "ClusterQueueBuilder",
    "CohortBuilder",
    "FlavorBuilder",
    "JobBuilder",
    "LocalQueueBuilder",
    "MultiKueueClusterBuilder",
    "PodSetBuilder",
    "Quantity",
    "SecretBuilder",
    "WorkloadBuilder",
    "admission_check",
    "cluster_queue",
    "cohort",
    "flavor",
    "flavor_quotas",
    "job",
    "limits",
    "local_queue",
    "multikueue_cluster",
    "multikueue_config",
    "namespace",
    "pod_set",
    "secret",
    "workload",
    "workload_priority_class",
]
