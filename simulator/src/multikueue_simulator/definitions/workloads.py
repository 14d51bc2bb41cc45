"""Kueue's Workload and WorkloadPriorityClass."""

from __future__ import annotations

from fakekube.schemas.notation import (
    LABEL,
    SUBDOMAIN,
    UNTYPED,
    Kind,
    Schema,
    Version,
    array,
    column,
    conditions,
    flag,
    number,
    of,
    quantities,
    record,
    table,
    text,
)
from multikueue.api.kueue import queues, workload
from multikueue_simulator.definitions import rules

__all__ = ["PRIORITY_CLASS", "WORKLOAD"]

_POD_SET = text(63, LABEL)
_QUEUE = text(253, SUBDOMAIN)


def _listed(*keys: str, **fields: Schema) -> Schema:
    """A list with these fields of an item as its keys, and any other fields in it."""
    return array(record(fields, needs=keys) | UNTYPED, keys=keys)


_NAMED = _listed("name", name=text())
_CONTAINERS = _listed(
    "name",
    name=text(),
    env=_NAMED,
    ports=array(
        record(needs=("containerPort",), containerPort=number(), protocol=text(default="TCP")) | UNTYPED,
        keys=("containerPort", "protocol"),
    ),
    resources=record(claims=_NAMED) | UNTYPED,
    volumeDevices=_listed("devicePath", devicePath=text()),
    volumeMounts=_listed("mountPath", mountPath=text()),
)
_POD = record(
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    volumes=_NAMED,
    imagePullSecrets=array(record(name=text(default="")) | UNTYPED, keys=("name",)),
    hostAliases=_listed("ip", ip=text()),
    resourceClaims=_NAMED,
    schedulingGates=_NAMED,
    topologySpreadConstraints=_listed("topologyKey", "whenUnsatisfiable", topologyKey=text(), whenUnsatisfiable=text()),
)

_TEMPLATE = record(
    metadata=record(
        name=text(),
        namespace=text(),
        labels=table(text()),
        annotations=table(text()),
        finalizers=array(text()),
    ),
    spec=_POD | UNTYPED,
)
"""A pod template. Kueue's manager reads little of it, so the pod's spec is stored unpruned; of its fields only the keys of
lists are validated, as they are what a job may have twice and a Workload may not."""

_TOPOLOGY_REQUEST = record(
    required=text(63),
    preferred=text(63),
    unconstrained=flag(),
    podIndexLabel=text(317),
    subGroupIndexLabel=text(317),
    subGroupCount=number(),
    podSetGroupName=text(256),
    podSetSliceRequiredTopology=text(63),
    podSetSliceSize=number(),
)

_POD_SETS = of(
    workload.PodSet,
    needs=("template",),
    rules=rules.POD_SET,
    name=_POD_SET | {"default": "main"},
    count=number(0, default=1),
    minCount=number(1),
    template=_TEMPLATE,
    topologyRequest=_TOPOLOGY_REQUEST,
)

_SPEC = of(
    workload.WorkloadSpec,
    rules=rules.WORKLOAD_SPEC,
    podSets=array(_POD_SETS, keys=("name",), least=1, most=8),
    queueName=_QUEUE,
    priorityClassRef=of(
        workload.PriorityClassRef,
        needs=("group", "kind", "name"),
        rules=rules.PRIORITY_CLASS_REF,
        group=text(one_of=("kueue.x-k8s.io", "scheduling.k8s.io")),
        kind=text(one_of=("WorkloadPriorityClass", "PriorityClass")),
        name=text(253, SUBDOMAIN, shortest=1),
    ),
    active=flag(default=True),
    maximumExecutionTimeSeconds=number(1),
)

_DOMAINS = 100_000

_TOPOLOGY_ASSIGNMENT = record(
    needs=("levels", "slices"),
    rules=rules.TOPOLOGY_ASSIGNMENT,
    levels=array(text(317), kind="atomic", least=1, most=16),
    slices=array(
        record(
            needs=("domainCount", "podCounts", "valuesPerLevel"),
            rules=rules.SLICE,
            domainCount=number(1),
            podCounts=record(
                rules=rules.ONE_OR_EACH,
                universal=number(1),
                individual=array(number(1), kind="atomic", least=1, most=_DOMAINS),
            ),
            valuesPerLevel=array(
                record(
                    rules=rules.ONE_OR_EACH,
                    universal=text(63),
                    individual=record(
                        needs=("roots",),
                        prefix=text(63),
                        suffix=text(63),
                        roots=array(text(63), kind="atomic", least=1, most=_DOMAINS),
                    ),
                ),
                kind="atomic",
                least=1,
                most=16,
            ),
        ),
        kind="atomic",
        most=1000,
    ),
)
"""The assigned topology domains, in slices: values are given once for all domains of a slice, or one by one."""

_ASSIGNMENT = of(
    workload.PodSetAssignment,
    name=_POD_SET | {"default": "main"},
    flavors=table(text(253, SUBDOMAIN)),
    resourceUsage=quantities(),
    count=number(0),
    topologyAssignment=_TOPOLOGY_ASSIGNMENT,
    delayedTopologyRequest=text(7, one_of=("Pending", "Ready")),
)

_CHECK = of(
    workload.AdmissionCheckState,
    needs=("lastTransitionTime", "message", "name", "state"),
    name=text(316, shortest=1),
    message=text(32768),
    state=text(one_of=("Pending", "Ready", "Retry", "Rejected")),
    requeueAfterSeconds=number(0),
    retryCount=number(0),
    podSetUpdates=array(
        record(
            needs=("name",),
            name=_POD_SET,
            labels=table(text()),
            annotations=table(text()),
            nodeSelector=table(text()),
            tolerations=array(
                of(queues.Toleration, tolerationSeconds=number(bits=64)), kind="atomic", most=8, rules=rules.TOLERATIONS
            ),
        ),
        kind="atomic",
        most=8,
    ),
)

_STATUS = of(
    workload.WorkloadStatus,
    rules=rules.WORKLOAD_STATUS,
    conditions=conditions(16),
    admission=of(
        workload.Admission,
        clusterQueue=text(253, SUBDOMAIN),
        podSetAssignments=array(_ASSIGNMENT, keys=("name",), most=8),
    ),
    requeueState=of(workload.RequeueState, count=number(0)),
    reclaimablePods=array(
        of(workload.ReclaimablePod, needs=("count", "name"), name=_POD_SET, count=number(0)), keys=("name",), most=8
    ),
    admissionChecks=array(_CHECK, keys=("name",), most=8),
    resourceRequests=array(
        of(workload.PodSetRequest, needs=("name",), name=_POD_SET, resources=quantities()),
        keys=("name",),
        most=8,
    ),
    accumulatedPastExecutionTimeSeconds=number(),
    schedulingStats=of(
        workload.SchedulingStats,
        evictions=array(
            of(
                workload.EvictionCount,
                needs=("count", "reason", "underlyingCause"),
                reason=text(316),
                underlyingCause=text(316),
                count=number(0),
            ),
            keys=("reason", "underlyingCause"),
            most=256,
        ),
    ),
    nominatedClusterNames=array(text(256), kind="atomic", most=20),
    clusterName=text(256),
    unhealthyNodes=array(record(needs=("name",), name=text(63)), keys=("name",), most=8),
    preemptionGates=array(of(workload.PreemptionGateState)),
)

_COLUMNS = (
    column("Queue", ".spec.queueName"),
    column("Reserved in", ".status.admission.clusterQueue"),
    column("Admitted", ".status.conditions[?(@.type=='Admitted')].status"),
    column("Finished", ".status.conditions[?(@.type=='Finished')].status"),
    column("Age", ".metadata.creationTimestamp", "date"),
)

WORKLOAD = Kind(
    group="kueue.x-k8s.io",
    kind="Workload",
    plural="workloads",
    namespaced=True,
    short_names=("kwl", "kueueworkload", "kueueworkloads"),
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(rules=rules.WORKLOAD, spec=_SPEC, status=_STATUS),
            columns=_COLUMNS,
        ),
    ),
)

PRIORITY_CLASS = Kind(
    group="kueue.x-k8s.io",
    kind="WorkloadPriorityClass",
    plural="workloadpriorityclasses",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            status=False,
            schema=record(needs=("value",), value=number(), description=text(2048)),
            columns=(column("Value", ".value", "integer"),),
        ),
    ),
)
