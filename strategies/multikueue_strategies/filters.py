"""The filters that come with `composed`: each refuses workers by what a label, a taint or an annotation says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from multikueue.strategy import Fleet, Worker, Workload
from multikueue_strategies.once import Once

CLUSTER_NAMES = "kueue.x-k8s.io/multikueue-cluster-names"
"""On a workload or its job: names of clusters, separated by commas. The name is that of Kueue's own proposal."""

CLUSTER_SELECTOR = "multikueue.dev/cluster-selector"
"""On a workload or its job: a selector over labels of MultiKueueClusters, as `kubectl get -l` takes them."""

TAINTS = "multikueue.dev/taints"
"""On a MultiKueueCluster: taints as `kubectl taint` takes them, separated by commas. The effect, if any, is ignored."""

TOLERATIONS = "multikueue.dev/tolerations"
"""On a workload or its job: `key` or `key=value`, separated by commas; `*` tolerates all taints."""

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<key>[^\s!=,()]+)"
    r"|(?P<left>[^\s!=,()]+)(?:\s*(?P<op>!=|==?)\s*(?P<value>[^\s!=,()]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class Labels:
    """Refuses workers by their labels: those of the MultiKueueCluster.

    `match`: a label and the values it may have, any value if none is named. `exclude`: a label and the values it must not
    have, none at all if none is named. A workload narrows further by the annotation `multikueue.dev/cluster-selector`, such
    as `region in (eu,us),!spot`.
    """

    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        terms = _all_terms(self, workload)
        if terms is None:
            text = workload.annotations[CLUSTER_SELECTOR]
            return f"annotation {CLUSTER_SELECTOR}: expected a selector such as region=eu,!spot, got {text[:100]!r}"
        return _refusal(terms, worker.labels)


@dataclass(frozen=True, slots=True)
class ClusterNames:
    """Refuses workers that the workload does not name, where it names some.

    The annotation is `kueue.x-k8s.io/multikueue-cluster-names`, on the workload or its job: names separated by commas.
    """

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        names = _listed(workload.annotations.get(CLUSTER_NAMES, ""))
        return "" if not names or worker.name in names else "not named by the workload"


@dataclass(frozen=True, slots=True)
class Taints:
    """Refuses workers with a taint that the workload does not tolerate.

    Taints are in the annotation `multikueue.dev/taints` of the MultiKueueCluster, as `kubectl taint` takes them; tolerations in
    `multikueue.dev/tolerations` of the workload or its job, as `key`, `key=value` or `*`.
    """

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        tolerated = _listed(workload.annotations.get(TOLERATIONS, ""))
        for taint in _listed(worker.annotations.get(TAINTS, "")):
            pair = taint.split(":", 1)[0]
            if not {"*", pair, pair.split("=", 1)[0]} & tolerated.keys():
                return f"taint {pair[:100]} is not tolerated"
        return ""


@dataclass(frozen=True, slots=True)
class Placed:
    """Refuses workers that the OCM Placement named for the workload has not decided for; none without a Placement.

    It is named by the annotation `multikueue.dev/placement` of the LocalQueue, ClusterQueue or AdmissionCheck, and of the
    workload or its job where the setting `dispatch.workload_placements` allows it. While its decisions cannot be followed, a
    copy that is there may stay, and no worker gets another.
    """

    reads: ClassVar[tuple[str, ...]] = ("placementdecisions",)

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        placement = fleet.placement
        if placement is None:
            return ""
        if placement.problem:
            return "" if worker.name in workload.nominated_clusters else placement.problem[:200]
        is_named = any(worker.name in group for group in placement.groups)
        return "" if is_named else f"not in the decisions of Placement {placement.name[:150]}"


Term = tuple[str, bool, tuple[str, ...]]
"""A label, whether it must or must not have one of these values, and the values; without any: whether it must be there."""


@Once
def _all_terms(labels: Labels, workload: Workload) -> list[Term] | None:
    """Those of the filter, and those of the workload; None if the workload's cannot be read."""
    asked = _terms(workload.annotations.get(CLUSTER_SELECTOR, ""))
    if asked is None:
        return None
    own = [(key, True, values) for key, values in labels.match.items()]
    return [*own, *((key, False, values) for key, values in labels.exclude.items()), *asked]


def _refusal(terms: list[Term], labels: Mapping[str, str]) -> str:
    """Of the first term that the labels do not meet; empty if they meet all."""
    for key, must, values in terms:
        found = labels.get(key)
        if (found is not None and (not values or found in values)) is not must:
            return f"label {key} is {found}"[:200] if found is not None else f"label {key} is missing"[:200]
    return ""


def _terms(selector: str) -> list[Term] | None:
    """The terms of a selector as kubectl takes them; None if it cannot be read."""
    found: list[Term] = []
    at = 0
    while selector[at:].strip():
        term = _TERM.match(selector, at)
        if term is None:
            return None
        key, operator = term["key"] or term["left"], term["op"] or term["set"]
        values = tuple(_listed(term["values"])) if term["set"] else (term["value"],) if operator else ()
        if term["set"] and not values:
            return None
        found.append((key, not term["absent"] and operator not in ("!=", "notin"), values))
        at = term.end()
    return found


def _listed(text: str) -> dict[str, None]:
    """The words of a text that commas separate, in their order."""
    return {word: None for part in text.split(",") if (word := part.strip())}
