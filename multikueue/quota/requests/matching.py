"""Namespaces that a queue selects, and flavors that suit a pod: labels, affinity, taints, topology (quota-engine 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement, ResourceFlavor, Taint, Toleration
from multikueue.api.meta import Value

_REPELLING = ("NoSchedule", "NoExecute")


class NodeSelectorTerm(Value):
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Value):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Value):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class NodeRules(msgspec.Struct, frozen=True):
    """The demands of a pod on its node: labels, alternatives of expressions, and tolerations."""

    selector: Mapping[str, str] | None = None
    terms: tuple[tuple[LabelSelectorRequirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


def node_rules(selector: Mapping[str, str], affinity: NodeAffinity, tolerations: tuple[Toleration, ...]) -> NodeRules:
    """The rules in a pod's spec. Required affinity counts, preferred does not; `matchFields` are ignored."""
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms if required else ()
    return NodeRules(selector or None, tuple(term.match_expressions for term in terms), tolerations)


def is_selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the labels match; no selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return exact and all(_is_met(expression, labels) for expression in selector.match_expressions)


def unsuitable(rules: NodeRules, flavor: ResourceFlavor, keys: frozenset[str]) -> str:
    """Why pods with these rules cannot use nodes of the flavor; empty if they can.

    Only these label `keys` count: nothing is known about others.
    """
    spec = flavor.spec
    if taint := _untolerated(spec.node_taints, (*rules.tolerations, *spec.tolerations)):
        return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {flavor.metadata.name}"
    if not _is_match(rules, spec.node_labels, keys):
        return f"flavor {flavor.metadata.name} doesn't match node affinity"
    return ""


def _untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    repelling = (taint for taint in taints if taint.effect in _REPELLING)
    return next((t for t in repelling if not any(_can_tolerate(toleration, t) for toleration in tolerations)), None)


def _can_tolerate(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.key != "" and toleration.value == taint.value


def _is_match(rules: NodeRules, labels: Mapping[str, str], keys: frozenset[str]) -> bool:
    for key, value in (rules.selector or {}).items():
        if key in keys and labels.get(key) != value:
            return False
    terms = [[expression for expression in term if expression.key in keys] for term in rules.terms]
    if not terms or not all(terms):
        return True  # a term about unknown labels only may match any node
    return any(all(_is_met(expression, labels) for expression in term) for term in terms)


def _is_met(expression: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _is_in_bounds(value, expression.values, is_greater=operator == "Gt")
        case _:
            return False


def _is_in_bounds(value: str | None, bounds: tuple[str, ...], *, is_greater: bool) -> bool:
    try:
        (bound,) = bounds
        number, limit = int(value or ""), int(bound)
    except ValueError:
        return False
    return number > limit if is_greater else number < limit


PENDING = "Pending"
"""The state of a request that the worker has yet to answer."""


class TopologyRequest(Value):
    """Only the group name, and which other fields are present, count.

    The manager only finds a flavor that has a topology (contract 3.9). The worker places the pods, and says whether the
    flavor has the level they ask for.
    """

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    pod_set_group_name: str = ""

    @property
    def is_explicit(self) -> bool:
        """Whether the pods ask for topology-aware placement; a pod index or a group alone does not."""
        asked = (self.required, self.preferred, self.unconstrained)
        sliced = (self.pod_set_slice_required_topology, self.pod_set_slice_size)
        return any(each is not None for each in (*asked, *sliced))


def is_topology_only(flavors: Iterable[ResourceFlavor | None]) -> bool:
    """Whether all flavors of a ClusterQueue have a topology: then it places all pods, requested or not."""
    known = tuple(flavors)
    return bool(known) and all(flavor is not None and flavor.spec.topology_name for flavor in known)


def mismatch(flavor: ResourceFlavor, *, is_explicit: bool, is_only_topology: bool) -> str:
    """Why a flavor does not suit pods that ask for a topology, or pods that do not; empty: it does."""
    has_topology = bool(flavor.spec.topology_name)
    if is_explicit and not has_topology:
        return f'Flavor "{flavor.metadata.name}" does not support TopologyAwareScheduling'
    if not is_explicit and has_topology and not is_only_topology:
        return f'Flavor "{flavor.metadata.name}" supports only TopologyAwareScheduling'
    return ""
