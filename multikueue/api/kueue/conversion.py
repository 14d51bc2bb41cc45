"""Manifests of Kueue from v1beta1 to v1beta2, as trees: what Kueue's conversion webhook does where a Kueue runs.

A field that v1beta2 has under the same name is kept, known or not. Kueue's `Configuration` is converted as well. The
facts are those of Kueue 0.19.2; `tests/real/test_conversion.py` compares with its webhook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import takewhile
from typing import Any

import msgspec

__all__ = ["CONFIGURATION_GROUP", "GROUP", "KINDS", "LOST", "OLD", "VERSION", "Unconvertible", "convert", "lost_fields"]

Tree = dict[str, Any]

GROUP = "kueue.x-k8s.io"
CONFIGURATION_GROUP = "config.kueue.x-k8s.io"
OLD = "v1beta1"
VERSION = "v1beta2"

STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
"""Fair sharing's preemption strategies where v1beta1 names none; v1beta2 wants them named."""

PRIORITY_CLASSES: Mapping[str, tuple[str, str]] = {
    "kueue.x-k8s.io/workloadpriorityclass": (GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
"""Group and kind of a Workload's priority class by v1beta1's `priorityClassSource`."""


class Unconvertible(ValueError):
    """A manifest that cannot be converted: the field, what was expected, and the value."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


class _Manifest(msgspec.Struct):
    """One object under conversion, and what is reported about it."""

    tree: Tree
    told: list[str]

    def group(self, *path: str) -> Tree | None:
        """The mapping at a path, if it is there. Raises Unconvertible for another value."""
        found: Any = self.tree
        for length, part in enumerate(path, 1):
            found = found.get(part)
            if found is None:
                return None
            if not isinstance(found, dict):
                raise Unconvertible(".".join(path[:length]), f"expected a mapping, got {_shown(found)}")
        mapping: Tree = found
        return mapping

    def tell(self, field: str, why: str) -> None:
        self.told.append(f"{field}: {why}")


def convert(tree: Tree) -> tuple[Tree, list[str]]:
    """The object in v1beta2, and what it loses or gains on the way: `field: why`. Others pass as they are.

    Raises Unconvertible for a kind or version that is unknown, or a field that is not as v1beta1 has it.
    """
    group, _, version = str(tree.get("apiVersion")).partition("/")
    kind = str(tree.get("kind"))
    if group not in (GROUP, CONFIGURATION_GROUP):
        return tree, []
    kinds = KINDS if group == GROUP else {"Configuration": _configuration}
    if kind not in kinds:
        raise Unconvertible("kind", f"expected {' or '.join(kinds)}, got {_shown(kind)}")
    if version == VERSION:
        return tree, []
    if version != OLD and not (version == "v1alpha1" and kind in ALPHA):
        raise Unconvertible("apiVersion", f"expected {group}/{OLD}, got {_shown(tree['apiVersion'])}")
    manifest = _Manifest(deepcopy(tree), [])
    kinds[kind](manifest)
    manifest.tree["apiVersion"] = f"{group}/{VERSION}"
    return manifest.tree, manifest.told


# The kinds.


def _cluster_queue(manifest: _Manifest) -> None:
    spec = manifest.group("spec") or {}
    _rename(spec, "cohort", "cohortName", "spec")
    _admission_checks(manifest, spec)
    fungibility = manifest.group("spec", "flavorFungibility") or {}
    for field, old in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
        if fungibility.get(field) == old:
            fungibility[field] = "MayStopSearch"
    _drop(manifest.group("status"), "pendingWorkloadsStatus")
    _drop(manifest.group("status", "fairSharing"), "admissionFairSharingStatus")


def _admission_checks(manifest: _Manifest, spec: Tree) -> None:
    names = spec.get("admissionChecks")
    if not isinstance(names, (list, type(None))):
        raise Unconvertible("spec.admissionChecks", f"expected a list of names, got {_shown(names)}")
    for place, name in enumerate(names or ()):
        if not isinstance(name, str):
            raise Unconvertible(f"spec.admissionChecks[{place}]", f"expected a name, got {_shown(name)}")
    strategy = manifest.group("spec", "admissionChecksStrategy")
    if names:
        if strategy and strategy.get("admissionChecks"):
            manifest.tell("spec.admissionChecksStrategy", "spec.admissionChecks takes its place, as in Kueue")
        spec.pop("admissionChecksStrategy", None)
        rules = {"admissionChecks": [{"name": name} for name in dict.fromkeys(names)]}
        _replace(spec, "admissionChecks", "admissionChecksStrategy", rules)
        return
    spec.pop("admissionChecks", None)
    if strategy is not None and not strategy.get("admissionChecks"):
        del spec["admissionChecksStrategy"]  # v1beta2 wants at least one


def _cohort(manifest: _Manifest) -> None:
    spec = manifest.group("spec") or {}
    if str(manifest.tree["apiVersion"]).endswith("/v1alpha1"):
        _rename(spec, "parent", "parentName", "spec")
    _drop(manifest.group("status", "fairSharing"), "admissionFairSharingStatus")


def _local_queue(manifest: _Manifest) -> None:
    status = manifest.group("status") or {}
    _rename(status, "flavorUsage", "flavorsUsage", "status")
    _drop(status, "flavors")


def _admission_check(manifest: _Manifest) -> None:
    spec = manifest.group("spec") or {}
    if spec.pop("retryDelayMinutes", None) is not None:
        manifest.tell("spec.retryDelayMinutes", "v1beta2 has no such field, and Kueue does not use it")


def _multikueue_cluster(manifest: _Manifest) -> None:
    spec = manifest.group("spec")
    if spec is None:
        return
    source: Tree = {}
    kubeconfig, profile = manifest.group("spec", "kubeConfig"), manifest.group("spec", "clusterProfileRef")
    if kubeconfig and kubeconfig.get("location"):
        source["kubeConfig"] = kubeconfig
    if profile is not None:
        source["clusterProfileRef"] = profile
    if not source:
        raise Unconvertible("spec", "expected kubeConfig.location or clusterProfileRef")
    first = "kubeConfig" if "kubeConfig" in spec else "clusterProfileRef"
    _replace(spec, first, "clusterSource", source)
    for field in ("kubeConfig", "clusterProfileRef"):
        spec.pop(field, None)


def _workload(manifest: _Manifest) -> None:
    spec = manifest.group("spec") or {}
    source, name = spec.get("priorityClassSource"), spec.get("priorityClassName")
    of = PRIORITY_CLASSES.get(source) if isinstance(source, str) else None
    if source and of is None:
        known = " or ".join(PRIORITY_CLASSES)
        raise Unconvertible("spec.priorityClassSource", f"expected {known}, got {_shown(source)}")
    if of and name:
        reference = {"group": of[0], "kind": of[1], "name": name}
        _replace(spec, "priorityClassName", "priorityClassRef", reference)
    elif name:
        manifest.tell(
            "spec.priorityClassName", "dropped, as in Kueue: spec.priorityClassSource does not say of which kind it is"
        )
    _drop(spec, "priorityClassName", "priorityClassSource")
    status = manifest.group("status") or {}
    _rename(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds", "status")
    admission = manifest.group("status", "admission") or {}
    for place, each in enumerate(admission.get("podSetAssignments") or ()):
        at = f"status.admission.podSetAssignments[{place}].topologyAssignment"
        assignment = each.get("topologyAssignment") if isinstance(each, dict) else None
        if assignment is not None:
            _topology_assignment(assignment, at)


def _topology_assignment(assignment: Any, at: str) -> None:
    """The domains as one slice: per level a value for all of them, or what differs between a prefix and a suffix."""
    try:
        levels, domains = assignment["levels"], assignment.pop("domains")
        columns = [[domain["values"][level] for domain in domains] for level in range(len(levels))]
        counts = [domain["count"] for domain in domains]
        values = [_values(column) for column in columns]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise Unconvertible(at, "expected levels, and domains with a value for each of them") from None
    one: Tree = {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}
    whole = {"domainCount": len(domains), "valuesPerLevel": values, "podCounts": one}
    assignment["slices"] = [whole] if domains else []


def _values(names: list[str]) -> Tree:
    if len(set(names)) == 1:
        return {"universal": names[0]}
    shortest = min(map(len, names))
    suffix = _common([name[::-1] for name in names])[::-1]
    prefix = _common(names)[: shortest - len(suffix)]
    ends = {"prefix": prefix, "suffix": suffix}
    roots = [name[len(prefix) : len(name) - len(suffix)] for name in names]
    return {"individual": {**{end: text for end, text in ends.items() if text}, "roots": roots}}


def _common(names: list[str]) -> str:
    """What all names begin with."""
    return "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False)))


def _configuration(manifest: _Manifest) -> None:
    tree = manifest.tree
    fair = manifest.group("fairSharing")
    if fair is not None:
        if fair.pop("enable", None) is True:
            fair["preemptionStrategies"] = fair.get("preemptionStrategies") or list(STRATEGIES)
        else:
            del tree["fairSharing"]
    ready = manifest.group("waitForPodsReady")
    if ready is not None and ready.pop("enable", None) is True:
        ready["timeout"] = "5m" if ready.get("timeout") is None else ready["timeout"]
        ready["blockAdmission"] = True if ready.get("blockAdmission") is None else ready["blockAdmission"]
    else:
        tree.pop("waitForPodsReady", None)
        tree["featureGates"] = {**(manifest.group("featureGates") or {}), "DisableWaitForPodsReady": True}
        manifest.tell(
            "waitForPodsReady",
            "off, by featureGates.DisableWaitForPodsReady: without it Kueue 0.19 and newer wait 30m in v1beta2;"
            " older ones do not know the gate and need none",
        )
    if tree.pop("queueVisibility", None) is not None:
        manifest.tell("queueVisibility", "v1beta2 has no such field: pending workloads are shown on demand")
    integrations = manifest.group("integrations") or {}
    if integrations.pop("podOptions", None) is not None:
        manifest.tell("integrations.podOptions", "v1beta2 has no such field: use managedJobsNamespaceSelector")


def _same(_manifest: _Manifest) -> None:
    """A kind whose fields are the same in both versions."""


KINDS: Mapping[str, Callable[[_Manifest], None]] = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multikueue_cluster,
    "MultiKueueConfig": _same,
    "ProvisioningRequestConfig": _same,
    "ResourceFlavor": _same,
    "Topology": _same,
    "Workload": _workload,
    "WorkloadPriorityClass": _same,
}

ALPHA = ("Cohort", "MultiKueueCluster", "MultiKueueConfig", "Topology")
"""Kinds that were v1alpha1 before they were v1beta1, with the same fields but one."""

LOST: Mapping[str, tuple[str, ...]] = {
    "ClusterQueue": ("cohort", "admissionChecks"),
    "MultiKueueCluster": ("kubeConfig", "clusterProfileRef"),
}
"""What the spec of a kind has in v1beta1 only, and loses where it is not converted."""


def lost_fields(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that an object as stored has lost, as it was written in v1beta1 and not converted: `spec.cohort`.

    The API server notes in `metadata.managedFields` who wrote which fields, and in which version.
    """
    return tuple(
        f"spec.{field}"
        for field in LOST.get(str(tree.get("kind")), ())
        if any(field in written for written in _written(tree))
    )


def _written(tree: Mapping[str, Any]) -> Iterator[set[str]]:
    """The fields of the spec that were written in v1beta1, by each who wrote some."""
    for entry in tree.get("metadata", {}).get("managedFields") or ():
        if entry.get("apiVersion") == f"{GROUP}/{OLD}":
            yield {name.removeprefix("f:") for name in (entry.get("fieldsV1") or {}).get("f:spec") or ()}


# Fields.


def _rename(group: Tree, old: str, new: str, at: str) -> None:
    if old not in group:
        return
    if group.get(new) not in (None, group[old]):
        raise Unconvertible(f"{at}.{old}", f"expected it without {at}.{new}, which takes its place")
    group.pop(new, None)
    _replace(group, old, new, group[old])


def _replace(group: Tree, old: str, new: str, value: Any) -> None:
    """Puts a field in the place of another one, in the order of the file."""
    items = [(new, value) if name == old else (name, each) for name, each in group.items()]
    group.clear()
    group.update(items)


def _drop(group: Tree | None, *fields: str) -> None:
    for field in fields:
        (group or {}).pop(field, None)


def _shown(value: Any) -> str:
    return f"{value!r:.100}"
