"""Pods that want to be near each other: placed on workers (contract 3.9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.kueue.workload import ADMITTED, AdmissionCheckState, PodSetAssignment
from multikueue.quota.requests.topology import TopologyRequest, is_topology_only, mismatch
from tests.builders import FlavorBuilder, PodSetBuilder, admission_check, cluster_queue, flavor, local_queue, pod_set
from tests.quota.builders import Play, key_of, wants

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
