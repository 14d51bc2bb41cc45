"""Who gets quota of which flavor: one file, the departments of quota-scenarios 9.1 to 9.4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from multikueue.api.kubernetes.builtins import LimitRange, LimitRangeItem, LimitRangeSpec
from multikueue.api.meta import ObjectMeta
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from tests.builders import (
    ClusterQueueBuilder,
    CohortBuilder,
    WorkloadBuilder,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    flavor_quotas,
    limits,
    local_queue,
    pod_set,
    workload,
)
from tests.quota.builders import Play, key_of, names, wants

GPU = "example.com/gpu"
ANY: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
NEXT = {"when_can_borrow": "TryNextFlavor", "when_can_preempt": "TryNextFlavor"}

Nodes = tuple[ClusterQueueBuilder | CohortBuilder, ...]


def engineers(name: str, *quotas: Any) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort("eng").strict_fifo().resource_group(*quotas).preempt(**ANY)


def machines(on_demand: Any, spot: Any) -> tuple[Any, Any]:
    return flavor_quotas("on-demand", cpu=on_demand), flavor_quotas("spot", cpu=spot)


SALES = cluster_queue("sales").strict_fifo().quota("default", cpu=50)
ALPHA = engineers("alpha", *machines(limits(50, borrowing=50), limits(100, borrowing=0)))
BETA = engineers("beta", *machines(limits(50, borrowing=10), limits(0, borrowing=100)))
BETA = BETA.quota("model-a", {GPU: limits(20, borrowing=0)})
GAMMA = engineers("gamma", *machines(limits(50, borrowing=10), limits(0, borrowing=100)))
DEPARTMENTS: Nodes = (SALES, ALPHA, BETA)


def scene(nodes: Nodes = DEPARTMENTS, fair: FairPreemption | None = None) -> Play:
    """The queues, each with a LocalQueue of its name, and all flavors."""
    made = Play(
        *(flavor(name).build() for name in ("on-demand", "spot", "model-a")),
        engine=Engine(EngineRules(fair_sharing=fair)),
    )
    made.apply(*(node.build() for node in nodes))
    queues = [node.value.metadata.name for node in nodes if isinstance(node, ClusterQueueBuilder)]
    made.apply(*(local_queue(name, name).build() for name in queues))
    return made


def holds(name: str, queue: str, on: str, *, priority: int = 0, **resources: Any) -> WorkloadBuilder:
    """One that is admitted with all its resources of that flavor."""
    wanted = wants(name, queue=queue, age=99, **resources).priority(priority)
    return wanted.reserved(queue, flavors=dict.fromkeys(resources, on)).admitted()


Outcome = dict[str, dict[str, str] | str]


def outcome(made: Play, *heads: WorkloadBuilder) -> Outcome:
    """One cycle: by head the flavors it got, or "waits", and by victim that it goes."""
    made.submit(*heads)
    found = made.engine.scheduler.cycle(made.now)
    told: Outcome = {head.build().metadata.name: "waits" for head in heads}
    for key in found.reserved:
        admission = made.engine.scheduler.reservation(key)
        assert admission
        pods = admission.pod_set_assignments
        told[key.name] = {f"{p.name}.{r}" if len(pods) > 1 else r: f for p in pods for r, f in p.flavors.items()}
    return told | dict.fromkeys(names(found.evicted), "goes")


@dataclass(frozen=True)
class Case:
    heads: tuple[WorkloadBuilder, ...]
    expected: Outcome
    used: tuple[WorkloadBuilder, ...] = ()
    nodes: Nodes = DEPARTMENTS
    fair: FairPreemption | None = None


def from_(queue: str, name: str = "", *, priority: int = 0, age: int = 0, **resources: Any) -> WorkloadBuilder:
    return wants(name or queue, queue=queue, age=age, **resources).priority(priority)


ON_DEMAND, SPOT = {"cpu": "on-demand"}, {"cpu": "spot"}

TWO_SETS = workload("beta").queue("beta").pod_sets(
    pod_set("one").count(10).request({"cpu": 6, GPU: 1}), pod_set("two").count(40).request(cpu=1)
)  # fmt: skip


def preferring(preference: str) -> Nodes:
    """Its own on-demand is in use by less important work; it could borrow spot."""
    own = cluster_queue("own").cohort("c").resource_group(*machines(limits(5, borrowing=0), limits(0, borrowing=5)))
    lender = cluster_queue("lender").cohort("c").quota("spot", cpu=5)
    return own.preempt(within_cluster_queue="LowerPriority").fungibility(**NEXT, preference=preference), lender


def sharing(reclaims: str) -> Nodes:
    """It has spot of its own; on-demand is its Cohort's, and used by another queue."""
    own = cluster_queue("own").cohort("c").resource_group(*machines(0, 4)).preempt(reclaim_within_cohort=reclaims)
    bank, other = cohort("c").quota("on-demand", cpu=4), cluster_queue("other").cohort("c").quota("on-demand", cpu=0)
    return bank, own.fungibility(when_can_preempt="MayStopSearch"), other


TAKEN = tuple(holds(name, "other", "on-demand", cpu=1) for name in "abcd")
LOW = holds("low", "own", "on-demand", priority=-1, cpu=5)

NESTED: Nodes = (
    cohort("root").quota("on-demand", cpu=2).quota("spot", cpu=0),
    cohort("child").parent("root").quota("on-demand", cpu=5).quota("spot", cpu=7),
    cluster_queue("own").cohort("child").resource_group(*machines(3, 3)).fungibility(**NEXT),
)
NESTED_USE = (holds("a", "own", "on-demand", cpu=8), holds("b", "own", "spot", cpu=3))

CASES: dict[str, Case] = {
    "QE-009 more than there ever is": Case((from_("sales", cpu=100),), {"sales": "waits"}),
    "QE-010 also with fair sharing": Case((from_("sales", cpu=100),), {"sales": "waits"}, fair=FairPreemption()),
    "QE-030 one borrows what another does not use": Case(
        (from_("sales", cpu=1), from_("alpha", cpu=51)), {"sales": {"cpu": "default"}, "alpha": ON_DEMAND}
    ),
    "QE-031 each within its own": Case(
        (from_("alpha", cpu=40), from_("beta", cpu=40)), {"alpha": ON_DEMAND, "beta": ON_DEMAND}
    ),
    "QE-032 pod sets may have different flavors": Case(
        (TWO_SETS,), {"beta": {"one.cpu": "on-demand", f"one.{GPU}": "model-a", "two.cpu": "spot"}}
    ),
    "QE-033 what the first takes the second cannot borrow": Case(
        (from_("alpha", cpu=45, age=1), from_("beta", cpu=56)), {"alpha": ON_DEMAND, "beta": "waits"}
    ),
    "QE-034 what is left it can": Case(
        (from_("alpha", cpu=45, age=1), from_("beta", cpu=55)), {"alpha": ON_DEMAND, "beta": ON_DEMAND}
    ),
    "QE-035 who takes back one flavor does not stop another from borrowing the other": Case(
        (from_("alpha", cpu=100), from_("beta", cpu=1)),
        {"alpha": "waits", "beta": ON_DEMAND, "lent": "goes"},
        (holds("own", "beta", "on-demand", cpu=50), holds("lent", "beta", "spot", cpu=1)),
    ),
    "QE-038 a resource that the queue does not have": Case((from_("alpha").request({GPU: 1}),), {"alpha": "waits"}),
    "QE-039 where the first flavor is used the second serves": Case(
        (from_("alpha", cpu=60),), {"alpha": SPOT}, (holds("other", "beta", "on-demand", cpu=45),)
    ),
    "QE-043 nobody is admitted beyond what there is": Case(
        (from_("beta", cpu=50, age=9), from_("alpha", cpu=1), from_("gamma", cpu=50)),
        {"beta": ON_DEMAND, "alpha": ON_DEMAND, "gamma": "waits"},
        (holds("a", "gamma", "on-demand", cpu=51), holds("b", "gamma", "spot", cpu=100)),
        (ALPHA, BETA, GAMMA),
    ),
    "QE-044 without anybody to preempt the next flavor serves, whatever the rule": Case(
        (from_("own", cpu=20),),
        {"own": SPOT},
        (holds("equal", "own", "on-demand", cpu=50),),
        (
            cluster_queue("own").resource_group(*machines(50, 100)).preempt(**ANY)
            .fungibility(when_can_preempt="MayStopSearch"),
        ),
    ),
    "QE-046 what is borrowed from nearby comes first": Case(
        (from_("own", cpu=1),), {"own": SPOT}, NESTED_USE, NESTED, FairPreemption()
    ),
    "QE-047 also without fair sharing": Case((from_("own", cpu=1),), {"own": SPOT}, NESTED_USE, NESTED),
    "QE-049 a free flavor is taken before anybody is preempted": Case(
        (from_("own", cpu=1, priority=100),),
        {"own": SPOT},
        (holds("low", "own", "on-demand", priority=50, cpu=1),),
        (cluster_queue("own").resource_group(*machines(1, 1)).preempt(**ANY),),
    ),
    "QE-050 unless borrowing it is the greater evil": Case(
        (from_("own", cpu=5),), {"own": "waits", "low": "goes"}, (LOW,), preferring("PreemptionOverBorrowing")
    ),
    "QE-051 or the lesser": Case((from_("own", cpu=5),), {"own": SPOT}, (LOW,), preferring("BorrowingOverPreemption")),
    "QE-052 the greater one also with fair sharing": Case(
        (from_("own", cpu=5),),
        {"own": "waits", "low": "goes"},
        (LOW,),
        preferring("PreemptionOverBorrowing"),
        FairPreemption(),
    ),
    "QE-098 what a fair share is may be taken back by who has no quota of its own": Case(
        (from_("own", cpu=2),), {"own": "waits", "a": "goes", "b": "goes"}, TAKEN, sharing("Any"), FairPreemption()
    ),
    "QE-099 unless it may not": Case((from_("own", cpu=2),), {"own": SPOT}, TAKEN, sharing("Never"), FairPreemption()),
    "QE-054 of two flavors that are lent the one that nobody has": Case(
        (from_("own", cpu=1),),
        {"own": SPOT},
        (holds("equal", "own", "on-demand", cpu=1),),
        (
            cluster_queue("own").cohort("c").preempt(**ANY)
            .resource_group(*machines(limits(0, borrowing=1), limits(0, borrowing=1))),
            cluster_queue("lender").cohort("c").resource_group(*machines(1, 1)),
        ),
    ),
    "QE-055 QE-138 a queue without quota in a Cohort that has some": Case(
        (from_("own", cpu=1),),
        {"own": ON_DEMAND},
        nodes=(cohort("c").quota("on-demand", cpu=1), cluster_queue("own").cohort("c").quota("on-demand", cpu=0)),
    ),
    "QE-014 nothing of a resource that the queue does not have is no matter to who is preempted": Case(
        (from_("own", cpu=2, priority=1).request({GPU: 0}),),
        {"own": "waits", "low": "goes"},
        (holds("low", "own", "on-demand", cpu=2),),
        (cluster_queue("own").quota("on-demand", cpu=2).preempt(**ANY),),
    ),
    "QE-017 pods alone may be what counts": Case(
        (from_("own").count(3),),
        {"own": {"pods": "on-demand"}},
        nodes=(cluster_queue("own").quota("on-demand", pods=5),),
    ),
    "QE-019 too many of them": Case(
        (from_("own", cpu=1).count(3),),
        {"own": "waits"},
        nodes=(cluster_queue("own").quota("on-demand", cpu=10, pods=2),),
    ),
    "QE-020 those that are over do not count": Case(
        (from_("own", cpu=1).count(5).reclaimable(main=2),),
        {"own": {"cpu": "on-demand", "pods": "on-demand"}},
        nodes=(cluster_queue("own").quota("on-demand", cpu=10, pods=3),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_cycle(case: Case) -> None:
    made = scene(case.nodes, case.fair)
    made.submit(*case.used)
    assert outcome(made, *case.heads) == case.expected


def test_qe_019_the_reason_names_the_pods() -> None:
    made = scene((cluster_queue("own").quota("on-demand", cpu=10, pods=2),))
    outcome(made, from_("own", cpu=1).count(3))
    assert "insufficient quota for pods in flavor on-demand" in made.verdict("own")


def test_qe_038_the_reason_names_the_resource() -> None:
    made = scene()
    outcome(made, from_("alpha").request({GPU: 1}))
    assert f"resource {GPU} unavailable in ClusterQueue" in made.verdict("alpha")


def test_qe_041_two_borrow_what_a_third_does_not_use() -> None:
    made = scene(
        tuple(cluster_queue(name).cohort("c").quota("on-demand", cpu=limits(10, borrowing=10)) for name in "abc")
    )
    assert outcome(made, from_("a", cpu=16), from_("b", cpu=14)) == {"a": ON_DEMAND, "b": ON_DEMAND}


def test_qe_016_a_pod_set_without_pods_is_admitted_without_any() -> None:
    made = scene()
    none = (
        workload("sales")
        .queue("sales")
        .pod_sets(pod_set("main").request(cpu=1), pod_set("none").count(0).request(cpu=9))
    )
    outcome(made, none)
    admission = made.engine.scheduler.reservation(key_of("sales"))
    assert admission
    assert [(each.count, each.resource_usage["cpu"]) for each in admission.pod_set_assignments] == [(1, "1"), (0, "0")]


@pytest.mark.parametrize(("state", "admitted"), [("Ready", True), ("Pending", False)])
def test_qe_001_002_quota_and_checks_together_admit(state: Any, admitted: bool) -> None:
    made = scene((SALES.checks("x"),))
    made.apply(admission_check("x").controller("example.com/x").active().build())
    made.submit(from_("sales", cpu=1).count(10).check("x", state))
    assert made.settle() == ["sales"]
    assert made.workloads[key_of("sales")].has("Admitted") is admitted
    assert (made.used("sales"), made.engine.view.waiting("sales")) == ("10", (0, 0))


def test_qe_007_a_workload_whose_cluster_queue_does_not_exist_is_not_looked_at() -> None:
    made = scene()
    made.apply(local_queue("nowhere", "unknown").build())
    made.submit(from_("nowhere", cpu=1))
    made.wait(2)
    assert made.run() == []
    assert made.engine.scheduler.next_look(made.now) is None
    assert made.engine.view.verdict(key_of("nowhere")) is None


def test_qe_011_a_request_beyond_the_limits_of_its_namespace() -> None:
    made = scene()
    item = LimitRangeItem(type="Container", max={"cpu": "100m"})
    rules = LimitRange(metadata=ObjectMeta(name="r", namespace="default"), spec=LimitRangeSpec(limits=(item,)))
    made.engine.observe(None, rules, made.now)
    assert outcome(made, from_("sales", cpu="200m")) == {"sales": "waits"}
    assert made.verdict("sales").startswith("resources didn't satisfy LimitRange constraints:")


def test_qe_022_the_heads_of_a_queue_that_admits_nothing_stay_where_they_are() -> None:
    made = scene((SALES.stopped(),))
    assert outcome(made, from_("sales", cpu=1)) == {"sales": "waits"}
    assert (made.engine.view.verdict(key_of("sales")), made.engine.view.waiting("sales")) == (None, (0, 1))


def counted(made: Play, name: str) -> list[int | None]:
    admission = made.engine.scheduler.reservation(key_of(name))
    return [each.count for each in admission.pod_set_assignments] if admission else []


def test_qe_112_as_many_pods_as_fit() -> None:
    made = scene()
    outcome(made, workload("sales").queue("sales").pod_sets(pod_set("main").count(50).min_count(20).request(cpu=2)))
    assert (counted(made, "sales"), made.used("sales")) == ([25], "50")


@pytest.mark.parametrize("pods", [20, 30], ids=["QE-113", "QE-114"])
def test_others_are_preempted_for_all_pods_if_that_helps_else_for_fewer(pods: int) -> None:
    made = scene()
    made.submit(holds("old", "beta", "model-a", priority=-4, **{GPU: 10}))
    some = pod_set("main").count(pods).min_count(10).request({GPU: 1})
    assert outcome(made, workload("new").queue("beta").priority(4).pod_sets(some)) == {"new": "waits", "old": "goes"}


def test_qe_304_a_queue_that_becomes_active_is_looked_at() -> None:
    made = scene((SALES.checks("x"),))
    made.submit(from_("sales", cpu=1))
    made.wait(5)
    made.run()
    assert made.engine.scheduler.next_look(made.now) is None
    made.apply(admission_check("x").controller("example.com/x").active().build())
    assert made.engine.scheduler.next_look(made.now) == made.now
    assert made.run() == ["sales"]


def test_qe_302_what_is_freed_in_one_branch_wakes_another() -> None:
    made = scene(
        (
            cohort("root").quota("on-demand", cpu=2),
            *(cohort(name).parent("root") for name in ("left", "right")),
            cluster_queue("l").cohort("left").quota("on-demand", cpu=0),
            cluster_queue("r").cohort("right").quota("on-demand", cpu=0),
        )
    )
    made.submit(holds("first", "l", "on-demand", cpu=2), from_("r", cpu=2))
    made.wait(2)
    made.run()
    assert made.engine.view.waiting("r") == (0, 1)
    made.finish("first")
    made.wait(1)
    assert made.run() == ["r"]


def test_qe_309_a_cycle_looks_at_one_head_of_each_queue_that_admits() -> None:
    made = scene((SALES, ALPHA, BETA.stopped()))
    made.submit(*(from_(queue, f"{queue}{n}", cpu=999) for queue in ("sales", "alpha", "beta") for n in range(2)))
    assert made.engine.scheduler.cycle(made.now).heads == 2


CHAIN: Nodes = (
    cohort("root").quota("three", cpu=4),
    cohort("middle").parent("root").quota("two", cpu=4),
    cohort("near").parent("middle").quota("one", cpu=4),
    cluster_queue("own").cohort("near").fungibility(**NEXT)
    .resource_group(*(flavor_quotas(name, cpu=0) for name in ("one", "two", "three"))),
    cluster_queue("other").cohort("middle").quota("two", cpu=0),
)  # fmt: skip
OURS = holds("ours", "own", "one", cpu=4)


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param((OURS, holds("theirs", "other", "two", cpu=4)), "three", id="QE-105"),
        pytest.param((OURS,), "two", id="QE-106"),
    ],
)
def test_a_chain_of_cohorts_gives_from_the_nearest_that_has_some(
    used: tuple[WorkloadBuilder, ...], expected: str
) -> None:
    made = scene(CHAIN)
    made.apply(*(flavor(name).build() for name in ("one", "two", "three")))
    made.submit(*used)
    assert outcome(made, from_("own", cpu=4)) == {"own": {"cpu": expected}}


def scanning(**rule: str) -> Nodes:
    """A queue with two flavors, the first of which it could also borrow."""
    own = cluster_queue("own").cohort("c").preempt(within_cluster_queue="LowerPriority").fungibility(**rule)
    return own.resource_group(*machines(4, 4)), cluster_queue("lender").cohort("c").quota("on-demand", cpu=4)


def test_qe_315_who_stopped_the_search_to_preempt_gets_that_flavor() -> None:
    (own, _) = scanning(when_can_preempt="MayStopSearch")
    made = scene((own,))
    made.submit(holds("low", "own", "on-demand", priority=-1, cpu=4))
    assert outcome(made, from_("own", cpu=4)) == {"own": "waits", "low": "goes"}
    made.engine.observe(workload("low").build(), None, made.now)
    assert outcome(made) == {"own": ON_DEMAND}


FULL = holds("spot", "own", "spot", cpu=4)
SCANS: dict[str, tuple[dict[str, str], tuple[WorkloadBuilder, ...], Outcome]] = {
    "QE-316 it borrows before it tries the next": ({}, (holds("a", "own", "on-demand", cpu=4),), {"own": ON_DEMAND}),
    "QE-317 it tries the next": (NEXT, (holds("a", "own", "on-demand", cpu=4),), {"own": SPOT}),
    "QE-318 the next is full": (NEXT, (holds("a", "own", "on-demand", cpu=4), FULL), {"own": ON_DEMAND}),
    "QE-319 the next is full and nothing is lent": (
        NEXT,
        (
            holds("low", "own", "on-demand", priority=-1, cpu=4),
            holds("lent", "lender", "on-demand", cpu=4),
            FULL,
        ),
        {"own": "waits", "low": "goes"},
    ),
}


@pytest.mark.parametrize(("rule", "used", "expected"), SCANS.values(), ids=SCANS)
def test_a_search_over_two_flavors(rule: dict[str, str], used: tuple[WorkloadBuilder, ...], expected: Outcome) -> None:
    made = scene(scanning(**rule))
    made.submit(*used)
    assert outcome(made, from_("own", cpu=4)) == expected


def test_qe_320_after_the_last_flavor_the_first_is_tried_again() -> None:
    own = cluster_queue("own").preempt(within_cluster_queue="LowerOrNewerEqualPriority").fungibility(**NEXT)
    made = scene((own.resource_group(*machines(1, 1)),))
    younger, older = (holds(name, "own", on, cpu=1) for name, on in (("younger", "on-demand"), ("older", "spot")))
    made.submit(younger.created(made.now), older)
    assert outcome(made, from_("own", age=50, cpu=1)) == {"own": "waits", "younger": "goes"}
    made.engine.observe(workload("younger").build(), None, made.now)
    assert outcome(made) == {"own": ON_DEMAND}


def test_qe_348_who_becomes_more_important_preempts() -> None:
    made = scene((cluster_queue("own").quota("on-demand", cpu=1).preempt(**ANY),))
    made.submit(holds("running", "own", "on-demand", priority=1, cpu=1))
    assert outcome(made, from_("own", cpu=1)) == {"own": "waits"}
    assert outcome(made, from_("own", cpu=1, priority=2)) == {"own": "waits", "running": "goes"}


def test_qe_059_what_a_borrower_needs_no_more_is_not_given_out_twice() -> None:
    made = scene(tuple(cluster_queue(name).cohort("c").quota("on-demand", cpu=4) for name in ("a", "b")))
    borrower = holds("w", "a", "on-demand", cpu=1).count(6)
    made.submit(borrower, from_("b", "first", cpu=4, age=9), from_("b", "second", cpu=4))
    made.run()
    made.see(borrower.reclaimable(main=2).build())
    made.wait(1)
    assert made.run() == ["first"]


def test_qe_134_a_queue_that_leaves_its_cohort_takes_its_quota_along_and_keeps_what_it_uses() -> None:
    lender, borrower = (cluster_queue(name).cohort("c").quota("on-demand", cpu=2) for name in ("lender", "own"))
    made = scene((lender, borrower))
    made.submit(holds("w", "lender", "on-demand", cpu=1))
    made.apply(cluster_queue("lender").quota("on-demand", cpu=2).build())
    assert outcome(made, from_("own", "three", cpu=3)) == {"three": "waits"}
    assert made.used("lender", "on-demand") == "1"
    made.apply(lender.build())
    made.wait(1)
    assert made.run() == ["three"]


def test_qe_137_a_cohort_that_is_only_named_is_there_as_long_as_it_is_named() -> None:
    lender, borrower = (cluster_queue(name).cohort("c").quota("on-demand", cpu=2) for name in ("lender", "own"))
    made = scene((lender, borrower))
    made.cycle()
    assert made.engine.view.cohorts_above("own") == ("c",)
    made.apply(cluster_queue("own").quota("on-demand", cpu=2).build())
    made.cycle()
    assert made.engine.view.cohorts_above("own") == ()
