"""Rules between fields, and between an object and its last version, in CEL, with messages of our own.

The facts come from contract 1.5, quota-engine 1.1-1.5 and ocm.md 2.2; the rest was observed on a real API server. Rules
are alternatives, the simple and common ones first, so that most evaluations are skipped
(`fakekube.schemas.expressions`): a rule that forbids a change begins with `unchanged(...)`. Kueue's webhooks refuse
more, which is not here.
"""

from __future__ import annotations

from fakekube.schemas.expressions import unchanged
from fakekube.schemas.notation import rule

__all__ = [
    "CLUSTER_QUEUE", "CLUSTER_SOURCE", "DISTINCT", "FIXED", "FUNGIBILITY", "LEVELS", "OLD_CLUSTER_QUEUE",
    "OLD_WORKLOAD", "OLD_WORKLOAD_SPEC", "ONE_OR_EACH", "POD_SET", "PREEMPTION", "PRIORITY_CLASS_REF",
    "RESOURCE_FLAVOR", "RESOURCE_GROUP", "SLICE", "TAINTS", "TOLERATIONS", "TOPOLOGY_ASSIGNMENT", "WORKLOAD",
    "WORKLOAD_SPEC", "WORKLOAD_STATUS",
]  # fmt: skip

FIXED = [rule("self == oldSelf", "field is immutable")]
DISTINCT = [rule("self.all(a, self.exists_one(b, a == b))", "entries are distinct")]

_EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
_SAY_EFFECTS = "effect is one of NoSchedule, PreferNoSchedule, NoExecute"

TAINTS = [rule(f"self.all(t, t.effect in {_EFFECTS})", _SAY_EFFECTS)]

TOLERATIONS = [
    rule(
        "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
        "a toleration without key has the operator Exists",
    ),
    rule(
        "self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",
        "tolerationSeconds needs the effect NoExecute",
    ),
    rule("self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])", "operator is Equal or Exists"),
    rule(
        "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')",
        "the operator Exists has no value",
    ),
    rule(f"self.all(t, !has(t.effect) || t.effect in {_EFFECTS})", _SAY_EFFECTS),
]

# Workload.

POD_SET = [rule("!has(self.minCount) || self.minCount <= self.count", "minCount may not be more than count")]

PRIORITY_CLASS_REF = [
    rule(
        f"(self.group == '{group}') == (self.kind == '{kind}')", f"a {kind}, and nothing else, is of the group {group}"
    )
    for group, kind in (("kueue.x-k8s.io", "WorkloadPriorityClass"), ("scheduling.k8s.io", "PriorityClass"))
]

WORKLOAD_SPEC = [rule("!has(self.priorityClassRef) || has(self.priority)", "a priority class comes with a priority")]
OLD_WORKLOAD_SPEC = [
    rule("!has(self.priorityClassName) || has(self.priority)", "a priority class comes with a priority")
]

WORKLOAD_STATUS = [
    rule(
        "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
        "clusterName and nominatedClusterNames exclude each other",
    ),
    rule(
        f"{unchanged('clusterName')} || !has(oldSelf.clusterName) || !has(self.clusterName)",
        "clusterName may be given up, but not changed",
    ),
]


def _is_true(who: str, condition: str) -> str:
    """CEL for: the condition was (`oldSelf`) or is (`self`) True."""
    there = f"has({who}.status) && has({who}.status.conditions)"
    return f"{there} && {who}.status.conditions.exists(c, c.type == '{condition}' && c.status == 'True')"


def _holds(condition: str) -> str:
    """CEL for: the condition is True, before and after."""
    return f"({_is_true('oldSelf', condition)} && {_is_true('self', condition)})"


_NO_CLASS = "!has(self.spec.priorityClassRef) || !has(oldSelf.spec.priorityClassRef)"

_ASSIGNMENTS = rule(
    "!has(self.status) || !has(self.status.admission) || !has(self.status.admission.podSetAssignments) "
    "|| size(self.spec.podSets) == size(self.status.admission.podSetAssignments) "
    f"|| !({_is_true('self', 'QuotaReserved')})",
    "each pod set of the spec has an assignment",
)
_QUEUE = rule(
    f"{unchanged('spec.queueName')} || !has(self.spec.queueName) || !has(oldSelf.spec.queueName) "
    f"|| !{_holds('QuotaReserved')}",
    "queueName may not change while quota is reserved",
)
_TIME_TO_RUN = rule(
    f"{unchanged('spec.maximumExecutionTimeSeconds')} || !{_holds('Admitted')}",
    "maximumExecutionTimeSeconds may not change while admitted",
)

WORKLOAD = [
    _ASSIGNMENTS,
    _QUEUE,
    _TIME_TO_RUN,
    rule(
        f"{unchanged('spec.priorityClassRef')} "
        "|| has(self.spec.priorityClassRef) == has(oldSelf.spec.priorityClassRef) "
        f"|| !{_holds('QuotaReserved')}",
        "a priority class may neither come nor go while quota is reserved",
    ),
    *(
        rule(
            f"{unchanged('spec.priorityClassRef')} || {_NO_CLASS} "
            f"|| self.spec.priorityClassRef.{field} == oldSelf.spec.priorityClassRef.{field} "
            f"|| !{_holds('QuotaReserved')}",
            f"the {field} of a priority class may not change while quota is reserved",
        )
        for field in ("group", "kind")
    ),
    rule(
        f"{unchanged('spec.priorityClassRef')} || {_NO_CLASS} "
        "|| self.spec.priorityClassRef.name == oldSelf.spec.priorityClassRef.name "
        "|| oldSelf.spec.priorityClassRef.kind != 'PriorityClass' || self.spec.priorityClassRef.kind != 'PriorityClass' "
        f"|| !{_holds('QuotaReserved')}",
        "the name of a pod's priority class may not change while quota is reserved",
    ),
]

_NO_CLASS_NAME = "!has(self.spec.priorityClassName) || !has(oldSelf.spec.priorityClassName)"
_POD_CLASS = "scheduling.k8s.io/priorityclass"

OLD_WORKLOAD = [
    _ASSIGNMENTS,
    _QUEUE,
    _TIME_TO_RUN,
    rule(
        f"{unchanged('spec.priorityClassSource')} || !{_holds('QuotaReserved')}",
        "the source of a priority class may not change while quota is reserved",
    ),
    rule(
        f"{unchanged('spec.priorityClassName')} || {_NO_CLASS_NAME} "
        f"|| self.spec.priorityClassSource != '{_POD_CLASS}' || !{_holds('QuotaReserved')}",
        "the name of a pod's priority class may not change while quota is reserved",
    ),
]

ONE_OR_EACH = [rule("has(self.universal) != has(self.individual)", "either all are told at once, or each")]

SLICE = [
    rule(
        "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
        "there is a count for each domain",
    ),
    rule(
        "self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == self.domainCount)",
        "there is a value for each domain",
    ),
]

TOPOLOGY_ASSIGNMENT = [
    rule("self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))", "there are values for each level")
]

# Queues.

RESOURCE_GROUP = [
    rule(
        "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
        "each flavor has a quota for each of the covered resources",
    )
]


def _no_limit(cohort: str) -> list[dict[str, object]]:
    limitless = "self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))"
    return [
        rule(
            f"has(self.{cohort}) || !has(self.resourceGroups) || {limitless}",
            "without a cohort there is nobody to borrow from",
        )
    ]


CLUSTER_QUEUE = _no_limit("cohortName")
OLD_CLUSTER_QUEUE = _no_limit("cohort")

PREEMPTION = [
    rule(
        "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || self.borrowWithinCohort.policy == 'Never'",
        "who never reclaims within the cohort may not borrow by preemption either",
    )
]

FUNGIBILITY = [
    rule(
        "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
        "a preference needs both fields to be TryNextFlavor",
    )
]

RESOURCE_FLAVOR = [
    rule(
        "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)",
        "a flavor with a topology needs a node label",
    ),
    rule("self == oldSelf || !has(oldSelf.topologyName)", "a flavor with a topology is immutable"),
]

LEVELS = [
    *DISTINCT,
    rule(
        "!self.exists(l, l.nodeLabel == 'kubernetes.io/hostname') "
        "|| self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
        "kubernetes.io/hostname can only be the lowest level",
    ),
    *FIXED,
]

# MultiKueue.

CLUSTER_SOURCE = [
    rule(
        "has(self.kubeConfig) != has(self.clusterProfileRef)",
        "exactly one of kubeConfig and clusterProfileRef is given",
    )
]
