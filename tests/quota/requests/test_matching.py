"""Labels, affinity and taints (quota-engine 3.4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement, ResourceFlavor, Toleration
from multikueue.api.kueue.workload import ADMITTED, AdmissionCheckState, PodSetAssignment
from multikueue.quota.requests.matching import (
    NodeAffinity,
    NodeRules,
    NodeSelector,
    NodeSelectorTerm,
    TopologyRequest,
    is_selected,
    is_topology_only,
    mismatch,
    node_rules,
    unsuitable,
)
from tests.builders import FlavorBuilder, PodSetBuilder, admission_check, cluster_queue, flavor, local_queue, pod_set
from tests.quota.builders import Play, key_of, wants

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


NEAR, FAR = flavor("near").topology().build(), flavor("far").build()

REQUESTS: dict[str, tuple[dict[str, Any], bool]] = {
    "a level": ({"required": "rack"}, True),
    "a level if possible": ({"preferred": "rack"}, True),
    "anywhere, but placed": ({"unconstrained": True}, True),
    "slices of a level": ({"podSetSliceRequiredTopology": "rack"}, True),
    "slices of a size": ({"podSetSliceSize": 2}, True),
    "only an index": ({"podIndexLabel": "index"}, False),
    "only a group": ({"podSetGroupName": "together"}, False),
}


@pytest.mark.parametrize(("request_", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_pods_ask_to_be_placed(request_: dict[str, Any], expected: bool) -> None:
    assert msgspec.convert(request_, TopologyRequest).is_explicit is expected


@pytest.mark.parametrize(
    ("flavors", "expected"), [((NEAR, NEAR), True), ((NEAR, FAR), False), ((NEAR, None), False), ((), False)]
)
def test_a_queue_places_all_if_all_its_flavors_can(flavors: tuple[ResourceFlavor | None, ...], expected: bool) -> None:
    assert is_topology_only(flavors) is expected


@pytest.mark.parametrize(
    ("value", "explicit", "only", "expected"),
    [
        (NEAR, True, False, ""),
        (NEAR, False, True, ""),
        (FAR, False, False, ""),
        (FAR, True, False, 'Flavor "far" does not support TopologyAwareScheduling'),
        (NEAR, False, False, 'Flavor "near" supports only TopologyAwareScheduling'),
    ],
)
def test_a_flavor_is_for_pods_that_ask_for_it(value: ResourceFlavor, explicit: bool, only: bool, expected: str) -> None:
    assert mismatch(value, is_explicit=explicit, is_only_topology=only) == expected


# --- through the engine ----------------------------------------------------------------------------------------------


def play(*flavors: FlavorBuilder) -> Play:
    """A queue that is dispatched to workers, with these flavors in this order."""
    queue = cluster_queue("cq").checks("mk")
    for each in flavors:
        queue = queue.quota(each.value.metadata.name, cpu=10)
    check = admission_check("mk").active().build()
    return Play(*(each.build() for each in flavors), check, queue.build(), local_queue("lq", "cq").build())


def placed(scene: Play, name: str = "wl") -> list[tuple[str, str]]:
    """Flavor and state of each pod set."""
    assignments = _assignments(scene, name)
    return [(each.flavors.get("cpu", ""), each.delayed_topology_request) for each in assignments]


def _assignments(scene: Play, name: str) -> tuple[PodSetAssignment, ...]:
    admission = scene.workloads[key_of(name)].status.admission
    return admission.pod_set_assignments if admission else ()


def asking(*pod_sets: PodSetBuilder) -> Any:
    return wants("wl").pod_sets(*(each.request(cpu=1) for each in pod_sets))


def test_who_asks_gets_the_flavor_that_places_and_who_does_not_gets_the_other() -> None:
    scene = play(flavor("far"), flavor("near").topology())
    scene.submit(asking(pod_set("near").topology(required="rack"), pod_set("any")))
    scene.settle()
    assert placed(scene) == [("near", "Pending"), ("far", "")]


def test_where_all_flavors_place_so_are_all_pods() -> None:
    scene = play(flavor("near").topology())
    scene.submit(asking(pod_set("main")))
    scene.settle()
    assert placed(scene) == [("near", "Pending")]


def test_who_asks_where_nobody_can_place_waits_and_is_told() -> None:
    scene = play(flavor("far"))
    scene.submit(asking(pod_set("main").topology(preferred="rack")))
    assert scene.settle() == []
    assert scene.verdict("wl") == (
        'couldn\'t assign flavors to pod set main: Flavor "far" does not support TopologyAwareScheduling'
    )


def test_pods_with_two_flavors_are_placed_by_none() -> None:
    queue = cluster_queue("cq").checks("mk").quota("near", cpu=10).quota("close", {"example.com/gpu": 4})
    flavors = [flavor(name).topology().build() for name in ("near", "close")]
    check = admission_check("mk").active().build()
    scene = Play(*flavors, check, queue.build(), local_queue("lq", "cq").build())
    scene.submit(wants("wl").pod_sets(pod_set("main").request({"cpu": 1, "example.com/gpu": 1})))
    scene.settle()
    assert placed(scene) == [("near", "")]


def test_it_is_not_admitted_before_the_worker_has_placed_it() -> None:
    scene = play(flavor("near").topology())
    scene.submit(asking(pod_set("main")))
    scene.settle()
    key = key_of("wl")

    def shown(**changes: Any) -> bool:
        value = scene.workloads[key]
        scene.see(msgspec.structs.replace(value, status=msgspec.structs.replace(value.status, **changes)))
        scene.settle()
        return scene.workloads[key].has(ADMITTED)

    assert not shown(admission_checks=(AdmissionCheckState(name="mk", state="Ready", message=""),))
    admission = scene.workloads[key].status.admission
    assert admission
    done = tuple(
        msgspec.structs.replace(each, delayed_topology_request="Ready") for each in admission.pod_set_assignments
    )
    assert shown(admission=msgspec.structs.replace(admission, pod_set_assignments=done))


def test_a_flavor_that_gets_a_topology_is_looked_at_again() -> None:
    scene = play(flavor("far"))
    scene.submit(asking(pod_set("main").topology(required="rack")))
    assert scene.settle() == []
    scene.apply(flavor("far").topology().build())
    scene.wait(1)
    assert scene.settle() == ["wl"]
