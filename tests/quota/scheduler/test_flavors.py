"""The choice of flavors, with an oracle for preemption: one file, the table of quota-scenarios 9.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.queues import BorrowWithinCohort, FlavorFungibility, ResourceFlavor
from multikueue.api.kueue.workload import workload_spec
from multikueue.quota.cache.catalog import QueueSnapshot, snapshot
from multikueue.quota.cache.tree import Forest, Member, quotas
from multikueue.quota.preemption.candidates import Grade, Mode, Oracle
from multikueue.quota.queueing.pending_workload import Progress
from multikueue.quota.requests.amounts import Demand, PodSetDemand, demand
from multikueue.quota.requests.matching import NodeRules
from multikueue.quota.scheduler.flavors import Assignment, assign, is_preferred
from tests.builders import (
    ClusterQueueBuilder,
    FlavorBuilder,
    WorkloadBuilder,
    cluster_queue,
    flavor,
    flavor_quotas,
    limits,
    pod_set,
    workload,
)

GPU = "example.com/gpu"
TYPES = {name: flavor(name).node_labels(type=name).build() for name in ("a", "b")}


def nothing(fr: tuple[str, str], amount: int) -> Grade:
    return Grade(Mode.NO_CANDIDATES)


def place(
    *queues: ClusterQueueBuilder,
    used: Mapping[str, Mapping[tuple[str, str], int]] | None = None,
    flavors: Mapping[str, ResourceFlavor] | None = None,
) -> QueueSnapshot:
    """The first queue in a tree of all; flavors exist as they are named unless given."""
    forest = Forest()
    built = [queue.build() for queue in queues]
    for queue in built:
        forest.declare_queue(queue.metadata.name, Member(queue.spec.cohort_name, quotas(queue.spec.resource_groups)))
    forest.build(used or {})
    known = {f.name: flavor(f.name).build() for q in built for g in q.spec.resource_groups for f in g.flavors}
    node = forest.queue(built[0].metadata.name)
    assert node
    return snapshot(built[0], node, known if flavors is None else flavors)


def assigned(
    queue: QueueSnapshot,
    wanted: WorkloadBuilder,
    *,
    oracle: Oracle = nothing,
    generation: int = 1,
    progress: Progress | None = None,
) -> Assignment:
    value = wanted.build()
    pods = demand(workload_spec(value), value.status.reclaimable_pods)
    return assign(pods, queue, oracle=oracle, generation=generation, progress=progress)


def chosen(assignment: Assignment) -> list[dict[str, str]]:
    return [{name: choice.flavor for name, choice in each.choices.items()} for each in assignment.pod_sets]


def tried(assignment: Assignment) -> list[dict[str, int]]:
    return [{name: choice.tried for name, choice in each.choices.items()} for each in assignment.pod_sets]


def wl(**resources: Any) -> WorkloadBuilder:
    return workload("wl").request(**resources)


def test_qe_060_a_single_flavor_that_fits_leaves_nothing_to_try() -> None:
    found = assigned(place(cluster_queue("cq").quota("default", cpu=4)), wl(cpu=3))

    assert (found.mode, chosen(found), tried(found), found.message()) == (
        Mode.FIT,
        [{"cpu": "default"}],
        [{"cpu": -1}],
        "",
    )
    assert found.usage == {("default", "cpu"): 3000}


def test_qe_063_a_tainted_flavor_is_skipped() -> None:
    queue = cluster_queue("cq").quota("spot", cpu=4).quota("calm", cpu=4)
    flavors = {"spot": flavor("spot").taint("special", "yes").build(), "calm": flavor("calm").build()}

    assert chosen(assigned(place(queue, flavors=flavors), wl(cpu=3))) == [{"cpu": "calm"}]


def test_qe_064_quota_in_use_is_named_by_what_is_missing() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=4), used={"cq": {("one", "cpu"): 3000}})
    found = assigned(queue, wl(cpu=2), oracle=lambda fr, amount: Grade(Mode.PREEMPT))

    assert found.mode is Mode.PREEMPT
    assert found.message() == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor one, 1 more needed"
    )


def test_qe_065_groups_choose_their_flavors_independently() -> None:
    queue = cluster_queue("cq").quota("one", cpu=2).quota("two", cpu=4)
    queue = queue.quota("b_one", memory="1Gi").quota("b_two", memory="5Gi")
    found = assigned(place(queue), wl(cpu=3, memory="10Mi"))

    assert chosen(found) == [{"cpu": "two", "memory": "b_one"}]
    assert tried(found) == [{"cpu": -1, "memory": 0}]


def test_qe_070_resources_of_one_group_share_a_flavor() -> None:
    queue = cluster_queue("cq").quota("one", cpu=2, memory="1Gi").quota("two", cpu=4, memory="15Mi")

    assert chosen(assigned(place(queue), wl(cpu=3, memory="10Mi"))) == [{"cpu": "two", "memory": "two"}]


def test_qe_071_no_flavor_fits_both_and_both_reasons_are_given_in_order() -> None:
    queue = cluster_queue("cq").quota("one", cpu=2, memory="1Gi").quota("two", cpu=4, memory="5Mi")
    found = assigned(place(queue), wl(cpu=3, memory="10Mi"))

    assert (found.mode, chosen(found)) == (Mode.NO_FIT, [{}])
    assert found.message() == (
        "couldn't assign flavors to pod set main: "
        "insufficient quota for cpu in flavor one, previously considered podsets requests (0) + current podset "
        "request (3) > maximum capacity (2), "
        "insufficient quota for memory in flavor two, previously considered podsets requests (0) + current podset "
        "request (10Mi) > maximum capacity (5Mi)"
    )


def test_qe_073_node_selectors_choose_among_flavors() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=4)
    flavors = {name: flavor(name).node_labels(type=name).build() for name in ("one", "two")}
    pods = workload("wl").pod_sets(pod_set().request(cpu=1).node_selector(type="two", unheard="of"))

    assert chosen(assigned(place(queue, flavors=flavors), pods)) == [{"cpu": "two"}]


def test_qe_076_no_flavor_matches() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4)
    pods = workload("wl").pod_sets(pod_set().request(cpu=1).node_selector(type="two"))
    found = assigned(place(queue, flavors={"one": flavor("one").node_labels(type="one").build()}), pods)

    assert found.message() == ("couldn't assign flavors to pod set main: flavor one doesn't match node affinity")


def test_qe_078_pod_sets_are_placed_one_after_the_other() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=10)
    pods = workload("wl").pod_sets(pod_set("a").request(cpu=5), pod_set("b").request(cpu=3))

    assert chosen(assigned(place(queue), pods)) == [{"cpu": "two"}, {"cpu": "one"}]


def test_qe_079_pod_sets_add_up_and_borrow() -> None:
    queue = cluster_queue("cq").cohort("c").quota("default", cpu=limits(2, borrowing=98))
    lender = cluster_queue("lender").cohort("c").quota("default", cpu=98)
    pods = workload("wl").pod_sets(pod_set("a").request(cpu=4), pod_set("b").request(cpu=6))
    found = assigned(place(queue, lender), pods)

    assert (found.mode, found.borrowing, found.usage) == (Mode.FIT, 1, {("default", "cpu"): 10000})


def test_qe_066_a_group_of_pod_sets_shares_its_flavors() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=9))
    worker = PodSetDemand(name="worker", count=4, requests={"cpu": 8000}, group="g")
    leader = PodSetDemand(name="leader", count=1, requests={"cpu": 1000}, group="g")
    found = assign(demand_of(worker, leader), queue, oracle=nothing)

    assert chosen(found) == [{"cpu": "two"}, {"cpu": "two"}]
    assert found.usage == {("two", "cpu"): 9000}


def test_qe_068_a_group_may_not_fit_where_its_pod_sets_alone_would() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=4))
    together = [PodSetDemand(name=name, count=1, requests={"cpu": 3000}, group="g") for name in "ab"]
    apart = [PodSetDemand(name=name, count=1, requests={"cpu": 3000}) for name in "ab"]

    assert assign(demand_of(*together), queue, oracle=nothing).mode is Mode.NO_FIT
    assert chosen(assign(demand_of(*apart), queue, oracle=nothing)) == [{"cpu": "one"}, {"cpu": "two"}]


def test_qe_067_in_a_group_only_those_that_need_a_resource_get_its_flavor() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=9).quota("fast", {"gpu": 4}))
    worker = PodSetDemand(name="worker", count=4, requests={"cpu": 4000, "gpu": 4}, group="g")
    leader = PodSetDemand(name="leader", count=1, requests={"cpu": 1000}, group="g")

    assert chosen(assign(demand_of(worker, leader), queue, oracle=nothing)) == [
        {"cpu": "one", "gpu": "fast"},
        {"cpu": "one"},
    ]


def test_a_pod_set_of_a_group_that_does_not_suit_the_nodes_spoils_the_flavor_for_all() -> None:
    flavors = {name: flavor(name).node_labels(type=name).build() for name in ("one", "two")}
    queue = place(cluster_queue("cq").quota("one", cpu=9).quota("two", cpu=9), flavors=flavors)
    picky = PodSetDemand(name="a", count=1, requests={"cpu": 1}, group="g", nodes=NodeRules({"type": "two"}))
    easy = PodSetDemand(name="b", count=1, requests={"cpu": 1}, group="g")

    assert chosen(assign(demand_of(easy, picky), queue, oracle=nothing)) == [{"cpu": "two"}, {"cpu": "two"}]


def demand_of(*pod_sets: PodSetDemand) -> Demand:
    return Demand(pod_sets)


def test_qe_080_a_lender_that_lends_nothing_does_not_count_as_capacity() -> None:
    queue = cluster_queue("cq").cohort("c").quota("one", cpu=1)
    lender = cluster_queue("lender").cohort("c").quota("one", cpu=limits(10, lending=0))
    found = assigned(place(queue, lender), wl(cpu=2))

    assert found.mode is Mode.NO_FIT
    assert "> maximum capacity (1)" in found.message()


def test_qe_084_an_uncovered_resource_is_unavailable() -> None:
    found = assigned(place(cluster_queue("cq").quota("one", cpu=4)), workload("wl").request({"example.com/gpu": 1}))

    assert (found.mode, found.message()) == (
        Mode.NO_FIT,
        "couldn't assign flavors to pod set main: resource example.com/gpu unavailable in ClusterQueue",
    )


SELECTIVE = workload("wl").pod_sets(pod_set().request(cpu=5).node_selector(type="b"))
LENT = cluster_queue("cq").cohort("c").quota("one", cpu=1)
NO_FITS = {
    "it suits none": (place(cluster_queue("cq").quota("a", cpu=9), flavors=TYPES), SELECTIVE, "NoMatchingFlavor"),
    "it suits one, that is too small": (
        place(cluster_queue("cq").quota("a", cpu=9).quota("b", cpu=1), flavors=TYPES),
        SELECTIVE,
        "ExceedsMaxQuota",
    ),
    "others have it, and need not give it back": (
        place(
            LENT,
            cluster_queue("lender").cohort("c").quota("one", cpu=9),
            used={"lender": {("one", "cpu"): 9000}},
        ),
        wl(cpu=5),
        "WaitingForQuota",
    ),
    "one flavor is too small, of the other others have too much": (
        place(
            LENT.quota("two", cpu=1),
            cluster_queue("lender").cohort("c").quota("one", cpu=1).quota("two", cpu=9),
            used={"lender": {("two", "cpu"): 9000}},
        ),
        wl(cpu=5),
        "WaitingForQuota",
    ),
    "no flavor has the resource": (place(cluster_queue("cq").quota("a", cpu=9)), wl(gpu=1), "NoMatchingFlavor"),
    "it fits": (place(cluster_queue("cq").quota("a", cpu=9)), wl(cpu=1), ""),
    "it might preempt": (
        place(cluster_queue("cq").quota("a", cpu=9), used={"cq": {("a", "cpu"): 9000}}),
        wl(cpu=1),
        "",
    ),
}


@pytest.mark.parametrize(("queue", "wanted", "reason"), NO_FITS.values(), ids=NO_FITS)
def test_of_all_flavors_the_one_that_is_nearest_to_fit_says_why_none_does(
    queue: QueueSnapshot, wanted: WorkloadBuilder, reason: str
) -> None:
    assert assigned(queue, wanted).no_fit == reason


def test_the_first_pod_set_without_a_flavor_says_why() -> None:
    queue = cluster_queue("cq").quota("one", cpu=2)
    pods = workload("wl").pod_sets(pod_set("a").request(cpu=1), pod_set("b").request(cpu=3), pod_set("c").request(x=1))

    assert assigned(place(queue), pods).no_fit == "ExceedsMaxQuota"


def test_qe_013_zero_of_an_uncovered_resource_does_not_matter() -> None:
    found = assigned(place(cluster_queue("cq").quota("one", cpu=4)), wl(cpu=1, gpu=0))

    assert (found.mode, chosen(found)) == (Mode.FIT, [{"cpu": "one"}])


def test_qe_015_zero_of_a_covered_resource_gets_a_flavor() -> None:
    found = assigned(place(cluster_queue("cq").quota("one", cpu=0)), wl(cpu=0))

    assert (found.mode, chosen(found), found.usage) == (Mode.FIT, [{"cpu": "one"}], {("one", "cpu"): 0})


def test_qe_107_a_missing_flavor_is_skipped_and_named() -> None:
    queue = place(cluster_queue("cq").quota("gone", cpu=4).quota("two", cpu=1), flavors={"two": flavor("two").build()})

    assert chosen(assigned(queue, wl(cpu=1))) == [{"cpu": "two"}]
    assert "flavor gone not found" in assigned(queue, wl(cpu=2)).message()


def test_qe_018_pods_are_counted_where_the_queue_covers_them() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=10, pods=3))
    fits, too_many = assigned(queue, wl(cpu=1).count(3)), assigned(queue, wl(cpu=1).count(4))

    assert fits.usage == {("one", "cpu"): 3000, ("one", "pods"): 3}
    assert "insufficient quota for pods in flavor one" in too_many.message()


def test_pod_sets_after_one_without_flavors_are_not_looked_at() -> None:
    pods = workload("wl").pod_sets(pod_set("a").request(cpu=9), pod_set("b").request(cpu=1))

    assert len(assigned(place(cluster_queue("cq").quota("one", cpu=4)), pods).pod_sets) == 1


def test_the_admission_says_flavors_totals_and_counts() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=10, memory="10Gi"))
    admission = assigned(queue, wl(cpu="500m", memory="1Gi").count(3)).admission("cq")
    (pods,) = admission.pod_set_assignments

    assert admission.cluster_queue == "cq"
    assert (pods.name, pods.count) == ("main", 3)
    assert pods.flavors == {"cpu": "one", "memory": "one"}
    assert pods.resource_usage == {"cpu": "1500m", "memory": "3Gi"}


def test_what_is_asked_for_as_zero_of_what_no_flavor_has_is_left_out() -> None:
    admission = assigned(place(cluster_queue("cq").quota("one", cpu=10)), wl(cpu=1, **{GPU: 0})).admission("cq")
    (pods,) = admission.pod_set_assignments

    assert pods.flavors == {"cpu": "one"}
    assert pods.resource_usage == {"cpu": "1"}


def test_what_no_flavor_has_counts_unless_such_is_ignored() -> None:
    asked = wl(cpu=1, **{GPU: 2})
    queue = place(cluster_queue("cq").quota("one", cpu=10))
    assert assigned(queue, asked).message().endswith(f"resource {GPU} unavailable in ClusterQueue")

    (pods,) = assigned(replace(queue, should_ignore_undeclared=True), asked).admission("cq").pod_set_assignments
    assert (pods.flavors, pods.resource_usage) == ({"cpu": "one"}, {"cpu": "1"})


# --- fungibility -----------------------------------------------------------------------------------------------------


def borrower(**rule: str) -> QueueSnapshot:
    """Flavor one is used up to 2 of 10 and can borrow; flavor two is to be judged by the test."""
    queue = cluster_queue("cq").cohort("c").fungibility(**rule)
    queue = queue.quota("one", cpu=limits(10, borrowing=1)).quota("two", cpu=10)
    lender = cluster_queue("lender").cohort("c").quota("one", cpu=10)
    return place(queue, lender, used={"cq": {("one", "cpu"): 2000}})


def test_qe_089_by_default_borrowing_stops_the_search() -> None:
    found = assigned(borrower(), wl(cpu=9))

    assert (chosen(found), tried(found), found.borrowing) == ([{"cpu": "one"}], [{"cpu": 0}], 1)


def test_qe_088_borrowing_may_try_the_next_flavor() -> None:
    assert chosen(assigned(borrower(when_can_borrow="TryNextFlavor"), wl(cpu=9))) == [{"cpu": "two"}]


def test_qe_087_and_comes_back_if_the_next_one_does_not_fit() -> None:
    queue = cluster_queue("cq").cohort("c").fungibility(when_can_borrow="TryNextFlavor")
    queue = queue.quota("one", cpu=limits(10, borrowing=1)).quota("two", cpu=1)
    lender = cluster_queue("lender").cohort("c").quota("one", cpu=10)
    found = assigned(place(queue, lender, used={"cq": {("one", "cpu"): 2000}}), wl(cpu=9))

    assert (found.mode, chosen(found), tried(found)) == (Mode.FIT, [{"cpu": "one"}], [{"cpu": -1}])


def busy(**rule: str) -> QueueSnapshot:
    """Flavor one is used up to 2 of 10, flavor two is free."""
    queue = cluster_queue("cq").fungibility(**rule).quota("one", cpu=10).quota("two", cpu=10)
    return place(queue, used={"cq": {("one", "cpu"): 2000}})


def test_qe_085_preempting_may_stop_the_search() -> None:
    found = assigned(busy(when_can_preempt="MayStopSearch"), wl(cpu=9), oracle=lambda fr, amount: Grade(Mode.PREEMPT))

    assert (found.mode, chosen(found), tried(found)) == (Mode.PREEMPT, [{"cpu": "one"}], [{"cpu": 0}])


def test_qe_086_by_default_a_free_flavor_is_taken_before_preempting() -> None:
    found = assigned(busy(), wl(cpu=9), oracle=lambda fr, amount: Grade(Mode.PREEMPT))

    assert (found.mode, chosen(found)) == (Mode.FIT, [{"cpu": "two"}])


def test_qe_096_without_candidates_the_search_goes_on_whatever_the_rule() -> None:
    assert chosen(assigned(busy(when_can_preempt="MayStopSearch"), wl(cpu=9))) == [{"cpu": "two"}]


def test_qe_101_reclaiming_is_better_than_preempting() -> None:
    queue = place(
        cluster_queue("cq").quota("uno", cpu=10).quota("due", cpu=10),
        used={"cq": {("uno", "cpu"): 2000, ("due", "cpu"): 2000}},
    )
    modes = {"uno": Grade(Mode.PREEMPT), "due": Grade(Mode.RECLAIM)}

    assert chosen(assigned(queue, wl(cpu=9), oracle=lambda fr, amount: modes[fr[0]])) == [{"cpu": "due"}]


def test_qe_072_the_worst_resource_decides() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4).quota("b", memory=4)
    found = assigned(place(queue, used={"cq": {("b", "memory"): 3}}), wl(cpu=1, memory=2))

    assert found.mode is Mode.NO_CANDIDATES
    assert chosen(found) == [{"cpu": "one", "memory": "b"}]


def test_qe_110_an_interrupted_search_resumes_until_the_quota_changes() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=4))
    stopped = Progress(generation=3, tried=({"cpu": 0},))

    assert chosen(assigned(queue, wl(cpu=1), generation=3, progress=stopped)) == [{"cpu": "two"}]
    assert chosen(assigned(queue, wl(cpu=1), generation=4, progress=stopped)) == [{"cpu": "one"}]


def test_a_search_is_interrupted_when_one_group_stopped_early() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=4).quota("b", memory=4)
    found = assigned(place(queue, used={"cq": {("b", "memory"): 3}}), wl(cpu=1, memory=2), generation=7)

    assert found.progress() == Progress(7, ({"cpu": 0, "memory": -1},))


BORROWING = FlavorFungibility(preference="BorrowingOverPreemption")
PREEMPTING = FlavorFungibility(preference="PreemptionOverBorrowing")


@pytest.mark.parametrize(
    ("a", "b", "rule", "expected"),
    [
        (Grade(Mode.FIT, 0), Grade(Mode.PREEMPT, 0), FlavorFungibility(), True),
        (Grade(Mode.PREEMPT, 1), Grade(Mode.FIT, 2), BORROWING, False),
        (Grade(Mode.PREEMPT, 1), Grade(Mode.FIT, 2), PREEMPTING, True),
        (Grade(Mode.FIT, 1), Grade(Mode.PREEMPT, 1), PREEMPTING, True),
        (Grade(Mode.FIT, 1), Grade(Mode.FIT, 2), BORROWING, True),
        (Grade(Mode.FIT, 1), Grade(Mode.FIT, 1), BORROWING, False),
        (Grade(Mode.NO_FIT), Grade(Mode.NO_FIT), FlavorFungibility(), False),
        (Grade(Mode.NO_CANDIDATES, 9), Grade(Mode.NO_FIT), PREEMPTING, True),
    ],
)
def test_qe_109_which_of_two_flavors_is_preferred(a: Grade, b: Grade, rule: FlavorFungibility, expected: bool) -> None:
    assert is_preferred(a, b, rule) is expected


@pytest.mark.parametrize(
    "rule", [FlavorFungibility(), BORROWING, PREEMPTING], ids=["by default", "borrowing", "preempting"]
)
@pytest.mark.parametrize("helping", [Mode.PREEMPT, Mode.RECLAIM, Mode.FIT])
@pytest.mark.parametrize("borrowing", range(4))
def test_a_flavor_without_candidates_is_worse_than_any_that_helps(
    helping: Mode, borrowing: int, rule: FlavorFungibility
) -> None:
    """Whatever either borrows. Before Kueue 0.19.1 it came first where preemption is preferred and it borrows less."""
    hopeless, helps = Grade(Mode.NO_CANDIDATES), Grade(helping, borrowing)
    assert (is_preferred(helps, hopeless, rule), is_preferred(hopeless, helps, rule)) == (True, False)
    before = Compatibility.of("0.19")
    assert is_preferred(hopeless, helps, rule, before) is (rule is PREEMPTING and borrowing > 0)


@pytest.mark.parametrize(
    "rule", [FlavorFungibility(), BORROWING, PREEMPTING], ids=["by default", "borrowing", "preempting"]
)
def test_of_flavors_without_candidates_the_one_that_borrows_less_is_better(rule: FlavorFungibility) -> None:
    less, more = Grade(Mode.NO_CANDIDATES, 1), Grade(Mode.NO_CANDIDATES, 2)
    assert (is_preferred(less, more, rule), is_preferred(more, less, rule)) == (True, False)
    assert is_preferred(less, Grade(Mode.NO_FIT), rule)


def test_a_queue_that_may_preempt_while_borrowing_asks_the_oracle_beyond_its_nominal_quota() -> None:
    plain = cluster_queue("cq").cohort("c").quota("one", cpu=0)
    bold = plain.preempt(borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority"))
    other = cluster_queue("other").cohort("c").quota("one", cpu=12)
    used = {"other": {("one", "cpu"): 10000}}

    def oracle(fr: tuple[str, str], amount: int) -> Grade:
        return Grade(Mode.RECLAIM, 1)

    assert assigned(place(plain, other, used=used), wl(cpu=12), oracle=oracle).mode is Mode.NO_FIT
    assert assigned(place(bold, other, used=used), wl(cpu=12), oracle=oracle).mode is Mode.RECLAIM


def test_several_flavors_in_one_explicit_group() -> None:
    queue = cluster_queue("cq").resource_group(flavor_quotas("a", cpu=1), flavor_quotas("b", cpu=2))

    assert chosen(assigned(place(queue), wl(cpu=2))) == [{"cpu": "b"}]


# --- scenarios by number (quota-scenarios 9.3) --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spot", "wanted"),
    [
        pytest.param(
            flavor("spot").taint("special", "yes"),
            workload("wl").pod_sets(pod_set().request(cpu=3).tolerate("special", "yes")),
            id="QE-061 by the pod",
        ),
        pytest.param(
            flavor("spot").taint("special", "yes").tolerate("special", "yes"), wl(cpu=3), id="QE-062 by the flavor"
        ),
    ],
)
def test_a_tainted_flavor_that_is_tolerated(spot: FlavorBuilder, wanted: WorkloadBuilder) -> None:
    queue = cluster_queue("cq").quota("spot", cpu=4).quota("calm", cpu=4)
    flavors = {"spot": spot.build(), "calm": flavor("calm").build()}

    assert chosen(assigned(place(queue, flavors=flavors), wanted)) == [{"cpu": "spot"}]


def always(mode: Mode) -> Oracle:
    return lambda fr, amount: Grade(mode)


def test_qe_069_where_one_group_cannot_fit_the_other_gets_nothing_either() -> None:
    queue = place(cluster_queue("cq").quota("one", cpu=4).quota("b", memory=1), used={"cq": {("one", "cpu"): 3000}})
    found = assigned(queue, wl(cpu=2, memory=2), oracle=always(Mode.PREEMPT))

    assert (found.mode, chosen(found)) == (Mode.NO_FIT, [{}])
    assert "insufficient quota for memory in flavor b" in found.message()


def test_qe_077_only_flavors_that_suit_the_nodes_are_preempted_on() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=4)
    flavors = {name: flavor(name).node_labels(type=name).build() for name in ("one", "two")}
    used = {"cq": {("one", "cpu"): 3000, ("two", "cpu"): 3000}}
    pods = workload("wl").pod_sets(pod_set().request(cpu=2).node_selector(type="two"))
    found = assigned(place(queue, flavors=flavors, used=used), pods, oracle=always(Mode.PREEMPT))

    assert (found.mode, chosen(found)) == (Mode.PREEMPT, [{"cpu": "two"}])


def test_qe_081_it_may_preempt_beyond_its_own_quota_if_others_use_what_is_lent() -> None:
    queue = cluster_queue("cq").cohort("c").quota("one", cpu=limits(2, borrowing=8))
    lender = cluster_queue("lender").cohort("c").quota("one", cpu=98)
    placed = place(queue, lender, used={"cq": {("one", "cpu"): 9000}})
    found = assigned(placed, wl(cpu=2), oracle=lambda fr, amount: Grade(Mode.PREEMPT, 1))

    assert (found.mode, found.borrowing) == (Mode.PREEMPT, 1)
    assert found.message().endswith("insufficient unused quota for cpu in flavor one, 1 more needed")


def test_qe_082_what_others_borrowed_is_missing() -> None:
    queue, other = (cluster_queue(name).cohort("c").quota("one", cpu=cpu) for name, cpu in (("cq", 3), ("other", 7)))
    used = {"cq": {("one", "cpu"): 2000}, "other": {("one", "cpu"): 8000}}
    found = assigned(place(queue, other, used=used), wl(cpu=2), oracle=always(Mode.RECLAIM))

    assert found.mode is Mode.RECLAIM
    assert found.message().endswith("insufficient unused quota for cpu in flavor one, 2 more needed")


def test_qe_083_each_pod_set_preempts_on_the_flavor_that_it_fits() -> None:
    queue = cluster_queue("cq").quota("one", cpu=4).quota("two", cpu=10)
    placed = place(queue, used={"cq": {("one", "cpu"): 3000, ("two", "cpu"): 9000}})
    pods = workload("wl").pod_sets(pod_set("a").request(cpu=3), pod_set("b").request(cpu=9))
    found = assigned(placed, pods, oracle=always(Mode.PREEMPT))

    assert (found.mode, chosen(found)) == (Mode.PREEMPT, [{"cpu": "one"}, {"cpu": "two"}])


BOLD = BorrowWithinCohort(policy="LowerPriority")


def lent(rule: dict[str, str], *, limit: int | None = 12) -> QueueSnapshot:
    """Flavor one would have to be taken back from another queue, and borrowed; flavor two is its own, and free."""
    queue = cluster_queue("cq").cohort("c").fungibility(**rule).preempt(
        reclaim_within_cohort="LowerPriority", borrow_within_cohort=BOLD
    )  # fmt: skip
    queue = queue.quota("one", cpu=limits(0, borrowing=limit)).quota("two", cpu=12)
    other = cluster_queue("other").cohort("c").quota("one", cpu=12)
    return place(queue, other, used={"other": {("one", "cpu"): 10000}})


STOP = {"when_can_borrow": "MayStopSearch", "when_can_preempt": "MayStopSearch"}


@pytest.mark.parametrize("limit", [12, None], ids=["QE-090", "QE-091 without a limit"])
def test_preempting_and_borrowing_stop_the_search(limit: int | None) -> None:
    found = assigned(lent(STOP, limit=limit), wl(cpu=12), oracle=lambda fr, amount: Grade(Mode.RECLAIM, 1))

    assert (found.mode, chosen(found)) == (Mode.RECLAIM, [{"cpu": "one"}])


def test_qe_092_unless_borrowing_may_try_the_next() -> None:
    found = assigned(
        lent(STOP | {"when_can_borrow": "TryNextFlavor"}), wl(cpu=12), oracle=lambda fr, amount: Grade(Mode.RECLAIM, 1)
    )

    assert (found.mode, chosen(found)) == (Mode.FIT, [{"cpu": "two"}])


def test_qe_093_a_limit_beyond_what_the_cohort_has_is_none() -> None:
    queue = cluster_queue("cq").cohort("c").quota("one", cpu=limits(1, borrowing=99))
    found = assigned(place(queue, cluster_queue("other").cohort("c").quota("one", cpu=10)), wl(cpu=12))

    assert found.mode is Mode.NO_FIT
    assert found.message().endswith("> maximum capacity (11)")


@pytest.mark.parametrize(
    ("second", "expected", "borrowing"),
    [pytest.param(10, "two", 0, id="QE-094 the second fits"), pytest.param(1, "one", 1, id="QE-095 it does not")],
)
def test_lending_limits_count_in_the_search(second: int, expected: str, borrowing: int) -> None:
    queue = cluster_queue("cq").cohort("c").fungibility(when_can_borrow="TryNextFlavor")
    queue = queue.quota("one", cpu=limits(10, lending=1)).quota("two", cpu=limits(second, lending=0))
    lender = cluster_queue("lender").cohort("c").quota("one", cpu=limits(1, lending=1))
    found = assigned(place(queue, lender, used={"cq": {("one", "cpu"): 2000}}), wl(cpu=9))

    assert (chosen(found), found.borrowing) == ([{"cpu": expected}], borrowing)


def test_qe_097_what_is_not_lent_by_others_does_not_count() -> None:
    queue = cluster_queue("cq").cohort("c").quota("one", cpu=limits(10, lending=0))
    lender = cluster_queue("lender").cohort("c").quota("one", cpu=limits(5, lending=0))
    found = assigned(place(queue, lender, used={"cq": {("one", "cpu"): 2000}}), wl(cpu=9), oracle=always(Mode.PREEMPT))

    assert found.mode is Mode.PREEMPT
    assert found.message().endswith("1 more needed")


GPUS = ("uno", "due", "tre")


@pytest.mark.parametrize(
    ("modes", "rule", "expected"),
    [
        pytest.param({"uno": Mode.PREEMPT, "due": Mode.RECLAIM}, {}, "tre", id="QE-100 the free one"),
        pytest.param(
            {"uno": Mode.PREEMPT, "due": Mode.RECLAIM, "tre": Mode.RECLAIM},
            {"when_can_preempt": "MayStopSearch"},
            "uno",
            id="QE-102 the first where that stops the search",
        ),
        pytest.param(dict.fromkeys(GPUS, Mode.PREEMPT), {}, "uno", id="QE-103 the first of equals"),
        pytest.param(
            {"uno": Mode.PREEMPT, "due": Mode.PREEMPT, "tre": Mode.RECLAIM},
            {},
            "tre",
            id="QE-104 the last if it is better",
        ),
    ],
)
def test_the_best_of_three_flavors(modes: dict[str, Mode], rule: dict[str, str], expected: str) -> None:
    queue = cluster_queue("cq").fungibility(**rule)
    for name in GPUS:
        queue = queue.quota(name, gpu=10)
    placed = place(queue, used={"cq": {(name, "gpu"): 2 for name in modes}})

    assert chosen(assigned(placed, wl(gpu=9), oracle=lambda fr, amount: Grade(modes[fr[0]]))) == [{"gpu": expected}]


def test_qe_108_a_flavor_that_does_not_exist() -> None:
    found = assigned(place(cluster_queue("cq").quota("x", cpu=4), flavors={}), wl(cpu=1))

    assert (found.mode, found.message()) == (Mode.NO_FIT, "couldn't assign flavors to pod set main: flavor x not found")
