"""What is read out of Placements and their decisions, whatever state they are in, and who hears of it: one file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS
from multikueue.api.meta import ObjectKey, encode
from multikueue.api.multikueue.decisions import DECISION_INDEX_LABEL, DECISION_KEY_LABEL, SharedPlacementDecision
from multikueue.api.multikueue.ocm import FROZEN_ANNOTATION, GROUP_INDEX_LABEL, PLACEMENT_LABEL
from multikueue.errors import InvalidObject
from multikueue.kube.decode import UNREADABLE, object_of
from multikueue.store.caches.placements import ABSENCE_MEMORY, PLACEMENT_ANNOTATION, Named, named
from multikueue.strategy import Placement
from tests.builders import NOW, admission_check, cluster_queue, job, local_queue, workload
from tests.store.hub import KEY, NAME, NAMESPACE, Hub, condition

WORKLOAD = ObjectKey("team", "wl")
FLEET = ("a", "b", "c")
SECOND = timedelta(seconds=1)


def seen(hub: Hub, *, workers: tuple[str, ...] = FLEET) -> Placement:
    found = hub.placements.view(WORKLOAD, Named(KEY), workers)
    assert found is not None
    return found


def hub_with(*groups: list[str]) -> Hub:
    hub = Hub()
    hub.place()
    hub.decide(*groups)
    return hub


# Decisions in SIG-Multicluster's form.


def shared(name: str, *clusters: str, index: str = "", key: str = NAME, version: str = "1") -> SharedPlacementDecision:
    labels = {DECISION_KEY_LABEL: key, DECISION_INDEX_LABEL: index}
    body = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "resourceVersion": version,
            "labels": {k: v for k, v in labels.items() if v},
        },
        "decisions": [{"clusterProfileRef": {"name": each}, "reason": "it is free"} for each in clusters],
        "schedulerName": "somebody's",
    }
    found: SharedPlacementDecision = object_of(SharedPlacementDecision)(encode(body))
    return found


@pytest.mark.parametrize(
    ("slices", "groups", "problem"),
    [
        ([shared("x", "b", "a")], (("b", "a"),), ""),
        ([shared("x", "c", "a", index="10"), shared("y", "b", index="2")], (("b", "c", "a"),), ""),
        ([shared("x", "a", "b"), shared("y", "b", "c")], (("a", "b", "c"),), ""),
        ([shared("gpu", "a", key="")], (("a",),), ""),
        ([shared("x", "a", key="other")], (), "there is no Placement kueue-system/gpu"),
        ([shared("x")], (), "PlacementDecision kueue-system/gpu has decided for no cluster"),
        ([shared("x", "", "a", index="none")], (("a",),), ""),
    ],
    ids=[
        "a slice keeps its order",
        "slices are in the order of their numbers",
        "a cluster in two slices counts once",
        "a slice without a key is called like itself",
        "that of another key is another one",
        "an empty one is told",
        "names that are none do not count",
    ],
)
def test_a_decision_of_another_scheduler(
    slices: list[SharedPlacementDecision], groups: tuple[tuple[str, ...], ...], problem: str
) -> None:
    hub = Hub()
    for each in slices:
        hub.placements.shared.upsert(each)
    found = seen(hub)
    assert (found.groups, found.problem) == (groups, problem)


def test_who_is_no_longer_in_a_shared_decision_is_missed_since_then_and_its_followers_hear_of_it() -> None:
    hub = Hub()
    hub.placements.shared.upsert(shared("x", "a", "b"))
    assert seen(hub).absent_since == {"c": NOW}
    hub.later(5 * SECOND)
    hub.placements.shared.upsert(shared("x", "a", version="2"))
    assert hub.touched == [WORKLOAD.name]
    assert seen(hub).absent_since["b"] == NOW + 5 * SECOND
    hub.placements.shared.replace(())
    assert seen(hub).problem == "there is no Placement kueue-system/gpu"


# Which Placement.

GIVERS = {
    "workload": workload("wl").annotations({PLACEMENT_ANNOTATION: "of-workload"}).build(),
    "job": job("job").annotations({PLACEMENT_ANNOTATION: "of-job"}).build(),
    "local queue": local_queue("main").annotations({PLACEMENT_ANNOTATION: "of-local-queue"}).build(),
    "cluster queue": cluster_queue("cq").annotations({PLACEMENT_ANNOTATION: "of-cluster-queue"}).build(),
    "check": admission_check("mk").annotations({PLACEMENT_ANNOTATION: "of-check"}).build(),
}


@pytest.mark.parametrize("position", range(len(GIVERS)), ids=list(GIVERS))
def test_the_most_specific_name_counts(position: int) -> None:
    givers = [None] * position + list(GIVERS.values())[position:]
    found = named(givers, option="of-option", namespace="ours")
    expected = ("of-workload", "of-job", "of-local-queue", "of-cluster-queue", "of-check")[position]
    assert found == Named(ObjectKey("ours", expected))


def test_the_option_of_the_strategy_comes_last_and_nothing_is_nothing() -> None:
    plain = workload("wl").build()
    assert named([plain, None], option="theirs/gpu", namespace="ours") == Named(ObjectKey("theirs", "gpu"))
    assert named([plain, None], namespace="ours") is None


@pytest.mark.parametrize(
    "text",
    ["", " ", "/", "a/", "/a", "a/b/c", "A", "a b", "a_b", "-a", "a-", "a" * 254, "ü", "a\n/b", "../secrets"],
)
def test_a_wrong_name_is_told_and_does_not_fall_back(text: str) -> None:
    giver = local_queue("main", namespace="team").annotations({PLACEMENT_ANNOTATION: text}).build()
    found = named([giver, GIVERS["check"]], option="gpu", namespace="ours")
    assert found is not None
    assert found.key is None
    assert found.problem.startswith("annotation multikueue.dev/placement of LocalQueue team/main: expected NAME or ")
    assert repr(text[:100]) in found.problem


@given(st.text(max_size=300))
def test_any_text_is_a_name_or_a_problem(text: str) -> None:
    found = named([workload("wl").annotations({PLACEMENT_ANNOTATION: text}).build()], namespace="ours")
    assert found is not None
    assert (found.key is None) == bool(found.problem)
    assert len(found.problem) < 700


def test_a_wrong_name_is_the_problem_that_the_strategy_sees() -> None:
    hub = Hub()
    assert hub.placements.view(WORKLOAD, Named(None, "wrong"), FLEET) == Placement(name="", problem="wrong")
    assert hub.placements.view(WORKLOAD, None, FLEET) is None


# What the decisions say.


def test_clusters_come_by_group_and_slice_and_number() -> None:
    hub = Hub(slice_size=2)
    hub.place()
    hub.decide([f"n{number:02}" for number in range(20)], ["b", "a", "c"])
    assert seen(hub).groups == (tuple(f"n{number:02}" for number in range(20)), ("a", "b", "c"))
    assert seen(hub).name == "kueue-system/gpu"
    assert seen(hub).problem == ""


def test_slices_are_counted_as_numbers() -> None:
    hub = Hub()
    hub.place()
    for number in (10, 9, 2):
        hub.slice(number, [f"of-{number}"])
    assert seen(hub).groups == (("of-2", "of-9", "of-10"),)


def test_a_cluster_in_two_slices_counts_where_it_is_first() -> None:
    hub = Hub()
    hub.place()
    hub.slice(1, ["a", "b", "a", ""])
    hub.slice(2, ["b", "c"], group="1")
    assert seen(hub).groups == (("a", "b"), ("c",))


def test_the_status_says_of_which_group_a_slice_is_when_its_label_is_late() -> None:
    hub = hub_with(["a", "b", "c"])
    hub.slice_size = 2
    hub.decide(["a", "b"], ["c"])
    hub.decide(["a"], ["b", "c"])
    late = hub.objects[PLACEMENT_DECISIONS.plural, f"{NAME}-decision-2"]
    late["metadata"]["labels"][GROUP_INDEX_LABEL] = "0"
    hub.put(PLACEMENT_DECISIONS, late)
    assert seen(hub).groups == (("a",), ("b", "c"))


@pytest.mark.parametrize("label", ["", "x", "-1", "٣", "1e3", "9" * 60, "1.5"])
def test_a_label_that_is_no_number_means_the_first_group(label: str) -> None:
    hub = Hub()
    hub.place()
    hub.slice(1, ["a"], group=label)
    hub.slice(2, ["b"], group="1")
    assert seen(hub).groups == (("a",), ("b",))


def test_a_slice_whose_label_is_still_to_come_is_found_by_its_owner() -> None:
    hub = Hub()
    hub.place()
    hub.slice(1, ["a"])
    body = hub.objects[PLACEMENT_DECISIONS.plural, f"{NAME}-decision-1"]
    body["metadata"]["labels"] = {}
    hub.put(PLACEMENT_DECISIONS, body)
    assert seen(hub).groups == (("a",),)


def test_slices_of_an_earlier_placement_of_that_name_do_not_count() -> None:
    hub = hub_with(["a"])
    hub.remove_placement()
    hub.place(uid="uid-2")
    assert (seen(hub).groups, seen(hub).problem) == ((), "Placement kueue-system/gpu has no decisions yet")
    hub.slice(2, ["b"], uid="uid-2")
    assert seen(hub).groups == (("b",),)


def test_slices_that_somebody_wrote_by_hand_count() -> None:
    hub = Hub()
    hub.place()
    labels = {PLACEMENT_LABEL: NAME}
    body = {"metadata": {"name": "by-hand", "namespace": NAMESPACE, "uid": "x", "labels": labels}}
    hub.put(PLACEMENT_DECISIONS, body | {"status": {"decisions": [{"clusterName": "a"}]}})
    assert seen(hub).groups == (("a",),)


def test_decisions_of_another_placement_or_namespace_do_not_count() -> None:
    hub = hub_with(["a"])
    for name, namespace in ((NAME, "elsewhere"), ("other", NAMESPACE)):
        labels = {PLACEMENT_LABEL: name}
        body: dict[str, Any] = {
            "metadata": {"name": f"{name}-x", "namespace": namespace, "uid": name, "labels": labels}
        }
        hub.put(PLACEMENT_DECISIONS, body | {"status": {"decisions": [{"clusterName": "b"}]}})
    assert seen(hub).groups == (("a",),)


# What is wrong.


def test_a_placement_that_is_missing_is_told_from_one_without_decisions_and_one_that_decided_for_nobody() -> None:
    hub = Hub()
    assert seen(hub).problem == "there is no Placement kueue-system/gpu"
    hub.place()
    assert seen(hub).problem == "Placement kueue-system/gpu has no decisions yet"
    hub.slice(1, None)
    assert seen(hub).problem == "Placement kueue-system/gpu has decided for no cluster"
    hub.place(conditions=[condition("PlacementSatisfied", "False", "No valid ManagedClusterSetBindings")])
    assert seen(hub).problem == ("Placement kueue-system/gpu is not satisfied: No valid ManagedClusterSetBindings")
    hub.place(conditions=[condition("PlacementMisconfigured", "True", "unknown prioritizer")])
    assert seen(hub).problem == "Placement kueue-system/gpu is misconfigured: unknown prioritizer"
    hub.place(conditions=[condition("PlacementMisconfigured", "True")])
    assert seen(hub).problem == "Placement kueue-system/gpu is misconfigured: Tested"
    hub.place(frozen=True)
    assert seen(hub).problem == (
        f"Placement kueue-system/gpu has decided for no cluster (annotation {FROZEN_ANNOTATION} keeps it from deciding)"
    )


def test_a_placement_that_is_not_satisfied_in_full_is_followed_as_far_as_it_goes() -> None:
    hub = hub_with(["a"])
    hub.place(
        conditions=[condition("PlacementSatisfied", "False", "3 wanted"), condition("PlacementMisconfigured", "False")]
    )
    assert (seen(hub).groups, seen(hub).problem) == ((("a",),), "")


def test_a_misconfigured_placement_still_shows_what_it_had_decided() -> None:
    hub = hub_with(["a"])
    hub.place(conditions=[condition("PlacementMisconfigured", "True", "x")])
    assert (seen(hub).groups, seen(hub).problem) == ((("a",),), "Placement kueue-system/gpu is misconfigured: x")


def test_a_placement_on_its_way_out_is_followed_no_more() -> None:
    hub = hub_with(["a"])
    hub.place(deletionTimestamp="2026-01-01T12:00:00Z")
    assert (seen(hub).groups, seen(hub).problem) == ((), "Placement kueue-system/gpu is being deleted")


def test_what_cannot_be_read_is_told_with_its_cause_and_nothing_is_known_to_be_absent() -> None:
    hub = Hub(begun=False)
    hub.place()
    hub.slice(1, ["a"])
    assert seen(hub) == Placement(name=str(KEY), problem="Placements are not read yet")
    hub.placements.fail("the server has no kind Placement")
    assert seen(hub) == Placement(name=str(KEY), problem="the server has no kind Placement")
    hub.placements.begin()
    assert seen(hub).groups == (("a",),)
    hub.placements.fail("gone away")
    assert seen(hub).problem == ""


# Since when a cluster is missing.


def test_who_was_never_there_is_missing_since_the_process_knows() -> None:
    hub = hub_with(["a"])
    hub.later(5 * SECOND)
    assert seen(hub).absent_since == {"b": NOW, "c": NOW}


def test_who_leaves_is_missing_since_then_and_not_any_more_once_it_is_back() -> None:
    hub = hub_with(["a", "b"])
    hub.later(5 * SECOND)
    hub.decide(["a"])
    left = hub.time
    hub.later(SECOND)
    hub.decide(["a", "c"])
    assert seen(hub).absent_since == {"b": left}
    hub.decide(["a", "b"])
    assert "b" not in seen(hub).absent_since
    hub.later(SECOND)
    hub.decide(["a"])
    assert seen(hub).absent_since["b"] == hub.time


def test_a_placement_that_goes_leaves_everybody_missing_since_then() -> None:
    hub = hub_with(["a", "b"])
    seen(hub)
    hub.later(SECOND)
    hub.remove_placement()
    assert seen(hub).absent_since == {"a": hub.time, "b": hub.time, "c": NOW}


def test_a_new_process_counts_again() -> None:
    hub = hub_with(["a", "b"])
    hub.decide(["a"])
    hub.later(timedelta(hours=1))
    hub.start()
    assert seen(hub).absent_since == {"b": hub.time, "c": hub.time}


def test_an_absence_is_remembered_for_a_while_only() -> None:
    hub = hub_with(["a", *(f"old-{number}" for number in range(50))])
    hub.decide(["a"])
    hub.later(ABSENCE_MEMORY)
    hub.decide(["b"])
    assert list(hub.placements._known[KEY].left) == ["a"]


# Who hears of it.


def follow(hub: Hub, name: str, placement: str = NAME) -> None:
    hub.placements.view(ObjectKey("team", name), Named(ObjectKey(NAMESPACE, placement)), FLEET)


def test_a_change_wakes_exactly_who_follows_the_placement() -> None:
    hub = hub_with(["a"])
    follow(hub, "one")
    follow(hub, "two")
    follow(hub, "other", "another")
    hub.decide(["a", "b"])
    assert sorted(set(hub.touched)) == ["one", "two"]


def test_a_change_that_says_nothing_new_wakes_nobody() -> None:
    hub = hub_with(["a"])
    follow(hub, "one")
    hub.decide(["a"])
    hub.place(conditions=[condition("PlacementSatisfied", "True", "other words")])
    assert hub.touched == []


def test_who_forgets_or_follows_another_hears_no_more() -> None:
    hub = hub_with(["a"])
    follow(hub, "one")
    follow(hub, "two")
    hub.placements.forget(ObjectKey("team", "one"))
    follow(hub, "two", "another")
    hub.decide(["b"])
    assert hub.touched == []


def test_a_placement_that_comes_later_wakes_who_waits_for_it() -> None:
    hub = Hub()
    follow(hub, "one")
    hub.place()
    assert hub.touched == ["one"]


def test_that_placements_can_be_read_wakes_everybody() -> None:
    hub = Hub(begun=False)
    follow(hub, "one")
    hub.placements.fail("no such kind")
    hub.placements.fail("no such kind")
    assert hub.touched == ["one"]
    hub.placements.begin()
    hub.placements.begin()
    assert hub.touched == ["one", "one"]


def test_nothing_is_kept_of_what_is_gone_and_nobody_followed() -> None:
    hub = hub_with(["a"])
    assert KEY in hub.placements._known
    hub.remove_placement()
    hub.drop(PLACEMENT_DECISIONS, f"{NAME}-decision-1")
    assert hub.placements._known == {}


def test_nothing_is_kept_of_what_is_gone() -> None:
    hub = hub_with(["a"])
    follow(hub, "one")
    hub.remove_placement()
    hub.drop(PLACEMENT_DECISIONS, f"{NAME}-decision-1")
    assert KEY in hub.placements._known
    hub.placements.forget(ObjectKey("team", "one"))
    assert (hub.placements._known, hub.placements._followed) == ({}, {})


# Garbage.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
DECISIONS = st.lists(st.fixed_dictionaries({"clusterName": JSON | st.sampled_from(FLEET)}) | JSON, max_size=5)
GARBAGE = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.sampled_from([f"{NAME}-decision-1", f"{NAME}-decision-", "x"]),
                "namespace": st.just(NAMESPACE),
            },
            optional={
                "labels": JSON | st.just({PLACEMENT_LABEL: NAME}),
                "ownerReferences": JSON | st.lists(st.fixed_dictionaries({"kind": JSON, "name": JSON, "uid": JSON})),
                "uid": st.text(max_size=3),
            },
        )
    },
    optional={"status": JSON | st.fixed_dictionaries({"decisions": DECISIONS})},
)
STATUSES = JSON | st.fixed_dictionaries(
    {
        "decisionGroups": JSON
        | st.lists(st.fixed_dictionaries({"decisionGroupIndex": JSON, "decisions": JSON}), max_size=3)
    }
)


@given(st.lists(GARBAGE, max_size=4), STATUSES)
def test_whatever_is_written_is_unreadable_or_read(bodies: list[Any], status: Any) -> None:
    hub = Hub()
    hub.place()
    placement = hub.objects[PLACEMENTS.plural, NAME] | {"status": status}
    for kind, body in ((PLACEMENTS, placement), *((PLACEMENT_DECISIONS, body) for body in bodies)):
        try:
            object_of(kind.type)(encode(body))
        except (*UNREADABLE, InvalidObject):
            continue  # the watch keeps what it knew of it
        hub.put(kind, body)
    found = seen(hub)
    names = [name for group in found.groups for name in group]
    assert len(names) == len(set(names))
    assert all(names)
    assert bool(found.groups) != bool(found.problem)
    assert set(found.absent_since) == set(FLEET) - set(names)
