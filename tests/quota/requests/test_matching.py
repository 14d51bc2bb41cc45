"""Labels, affinity and taints (quota-engine 3.4)."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement, Toleration
from multikueue.quota.requests.matching import (
    NodeAffinity,
    NodeRules,
    NodeSelector,
    NodeSelectorTerm,
    is_selected,
    node_rules,
    unsuitable,
)
from tests.builders import flavor

KEYS = frozenset({"type", "zone", "cores"})
ONE = flavor("one").node_labels(type="one", cores="8").build()


def expression(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def affinity(*terms: list[LabelSelectorRequirement]) -> NodeRules:
    wanted = NodeSelector(node_selector_terms=tuple(NodeSelectorTerm(match_expressions=tuple(t)) for t in terms))
    return node_rules({}, NodeAffinity(required_during_scheduling_ignored_during_execution=wanted), ())


SELECTORS = {
    "none is_selected nothing": (None, False),
    "an empty one is_selected everything": (LabelSelector(), True),
    "equal labels": (LabelSelector(match_labels={"team": "a"}), True),
    "another value": (LabelSelector(match_labels={"team": "b"}), False),
    "In": (LabelSelector(match_expressions=(expression("team", "In", "a", "b"),)), True),
    "NotIn a missing label": (LabelSelector(match_expressions=(expression("other", "NotIn", "a"),)), True),
    "Exists a missing label": (LabelSelector(match_expressions=(expression("other", "Exists"),)), False),
    "DoesNotExist": (LabelSelector(match_expressions=(expression("team", "DoesNotExist"),)), False),
    "an unknown operator": (LabelSelector(match_expressions=(expression("team", "Likes", "a"),)), False),
    "labels and expressions together": (
        LabelSelector(match_labels={"team": "a"}, match_expressions=(expression("team", "NotIn", "a"),)),
        False,
    ),
}


@pytest.mark.parametrize(("selector", "expected"), SELECTORS.values(), ids=SELECTORS)
def test_a_namespace_is_selected_by_its_labels(selector: LabelSelector | None, expected: bool) -> None:
    assert is_selected(selector, {"team": "a"}) is expected


SUITABLE = {
    "no rules": (NodeRules(), True),
    "its own label": (NodeRules({"type": "one"}), True),
    "another value of its label": (NodeRules({"type": "two"}), False),
    "a label only another flavor declares": (NodeRules({"zone": "a"}), False),
    "a label no flavor declares": (NodeRules({"disk": "ssd"}), True),
    "QE-074 affinity that it meets": (affinity([expression("type", "In", "one")]), True),
    "affinity that it does not meet": (affinity([expression("type", "In", "two")]), False),
    "one alternative of two": (affinity([expression("type", "In", "two")], [expression("type", "Exists")]), True),
    "both expressions of one alternative": (
        affinity([expression("type", "In", "one"), expression("zone", "Exists")]),
        False,
    ),
    "QE-075 an alternative on unknown keys only drops all": (
        affinity([expression("type", "In", "two")], [expression("disk", "In", "ssd")]),
        True,
    ),
    "unknown keys within an alternative are dropped": (
        affinity([expression("type", "In", "one"), expression("disk", "In", "ssd")]),
        True,
    ),
    "more cores than": (affinity([expression("cores", "Gt", "4")]), True),
    "fewer cores than": (affinity([expression("cores", "Lt", "8")]), False),
    "more than a missing label": (affinity([expression("zone", "Gt", "4")]), False),
    "more than no number": (affinity([expression("cores", "Gt", "many")]), False),
}


@pytest.mark.parametrize(("rules", "expected"), SUITABLE.values(), ids=SUITABLE)
def test_a_flavor_suits_pods_by_its_node_labels(rules: NodeRules, expected: bool) -> None:
    why = unsuitable(rules, ONE, KEYS)

    assert why == ("" if expected else "flavor one doesn't match node affinity")


TAINTED = flavor("spot").taint("special", "f1")
TOLERATIONS = {
    "none": ((), False),
    "the same key, value and effect": ((Toleration(key="special", value="f1", effect="NoSchedule"),), True),
    "any effect": ((Toleration(key="special", value="f1"),), True),
    "another value": ((Toleration(key="special", value="f2"),), False),
    "another effect": ((Toleration(key="special", value="f1", effect="NoExecute"),), False),
    "any value": ((Toleration(key="special", operator="Exists"),), True),
    "everything": ((Toleration(operator="Exists"),), True),
    "no key and no operator": ((Toleration(value="f1"),), False),
}


@pytest.mark.parametrize(("tolerations", "expected"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(tolerations: tuple[Toleration, ...], expected: bool) -> None:
    why = unsuitable(NodeRules(tolerations=tolerations), TAINTED.build(), KEYS)

    assert why == ("" if expected else "untolerated taint {special f1 NoSchedule <nil>} in flavor spot")


def test_a_flavor_tolerates_its_own_taint_for_the_pods() -> None:
    assert unsuitable(NodeRules(), TAINTED.tolerate("special", operator="Exists").build(), KEYS) == ""


def test_a_soft_taint_keeps_nobody_away() -> None:
    assert unsuitable(NodeRules(), flavor().taint("slow", effect="PreferNoSchedule").build(), KEYS) == ""
