"""The room of a worker's queue: what is free there, for whom, and what is only assumed to be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from multikueue.api.kueue.queues import FlavorUsage, ResourceUsage
from multikueue.api.kueue.workload import workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.quota.capacity.occupancy import ASSUMED_FOR, Occupancy, Use, use_of
from multikueue.strategy import FlavorRoom, Room
from tests.builders import NOW, WorkloadBuilder, cluster_queue, cohort, local_queue, workload
from tests.builders.queues import ClusterQueueBuilder

LQ, OTHER = ObjectKey("default", "lq"), ObjectKey("default", "other")
ASKING = ObjectKey("default", "asking")
CPU = ("default", "cpu")
MINE = cluster_queue("mine").quota("default", cpu=10)
THEIRS = cluster_queue("theirs").quota("default", cpu=10)


def worker(*queues: ClusterQueueBuilder, whole: bool = True, names: Mapping[str, str] | None = None) -> Occupancy:
    """A worker whose LocalQueue `lq` leads to the first of these queues, and `other` to the last."""
    made = Occupancy(lambda flavor: (names or {}).get(flavor, flavor))
    made.is_whole = whole
    for each in queues:
        made.cluster_queue_changed(None, each.build())
    made.local_queue_changed(None, local_queue("lq", queues[0].build().metadata.name).build())
    made.local_queue_changed(None, local_queue("other", queues[-1].build().metadata.name).build())
    return made


def key(number: int) -> ObjectKey:
    return ObjectKey("default", f"wl-{number}")


def uses(made: Occupancy, *, queue: str = "mine", cpu: int, priority: int = 0, number: int = 0) -> Occupancy:
    made.see(key(number), Use(OTHER, priority, queue, {CPU: 1000 * cpu}))
    return made


def cpu_room(made: Occupancy, local_queue: ObjectKey = LQ, *, after: timedelta = timedelta()) -> FlavorRoom:
    (only,) = made.room(local_queue, NOW + after, ASKING).quotas
    return only


def cores(amount: int) -> float:
    return amount / 1000


SHARED, LENDING = MINE.cohort("all"), THEIRS.cohort("all")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(worker(MINE), (10, 0, 0, 0, 10, 10), id="an empty queue"),
        pytest.param(uses(worker(MINE), cpu=4), (10, 4, 0, 0, 10, 6), id="a part is used"),
        pytest.param(worker(SHARED, LENDING), (10, 0, 0, 0, 20, 20), id="it may borrow"),
        pytest.param(uses(worker(SHARED, LENDING), cpu=14), (10, 14, 4, 0, 20, 6), id="it borrows"),
        pytest.param(uses(worker(SHARED, LENDING), queue="theirs", cpu=14), (10, 0, 0, 4, 20, 6), id="it lends"),
        pytest.param(worker(MINE.stopped("Hold")), (10, 0, 0, 0, 0, 0), id="it admits nothing"),
    ],
)
def test_what_a_queue_has(made: Occupancy, expected: tuple[float, ...]) -> None:
    room = cpu_room(made)
    found = (room.nominal, room.used, room.borrowed, room.lent, room.most, room.free)
    assert tuple(map(cores, found)) == expected


def test_a_cohort_s_own_quota_counts() -> None:
    made = worker(SHARED)
    assert cores(cpu_room(made).free) == 10
    made.cohort_changed(None, cohort("all").quota("default", cpu=5).build())
    assert cores(cpu_room(made).free) == 15


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(uses(worker(MINE, THEIRS), cpu=4), (20, 4, 16), id="two queues"),
        pytest.param(uses(worker(MINE), cpu=4), (10, 4, 6), id="a queue that two LocalQueues lead to counts once"),
        pytest.param(uses(worker(SHARED, LENDING), cpu=14), (20, 14, 6), id="what is borrowed is not free elsewhere"),
        pytest.param(
            uses(worker(SHARED, cluster_queue("third").quota("default", cpu=10).cohort("all"), LENDING), cpu=14),
            (20, 14, 10),
            id="others may have lent it",
        ),
        pytest.param(worker(MINE.stopped("Hold"), THEIRS), (20, 0, 10), id="one admits nothing"),
    ],
)
def test_what_all_queues_have_together(made: Occupancy, expected: tuple[float, ...]) -> None:
    (total,) = made.total().values()
    assert tuple(map(cores, (total.nominal, total.used, total.free))) == expected


def test_queues_that_no_local_queue_leads_to_are_of_no_use_here_and_flavors_have_the_manager_s_names() -> None:
    made = worker(MINE, names={"default": "spot"})
    made.cluster_queue_changed(None, THEIRS.build())
    assert {fr: cores(total.nominal) for fr, total in made.total().items()} == {("spot", "cpu"): 10}


@pytest.mark.parametrize("queue", ["nowhere", ""])
def test_a_local_queue_that_leads_nowhere_has_no_room(queue: str) -> None:
    made = worker(MINE)
    made.local_queue_changed(None, local_queue("lq", queue).build())
    assert made.room(LQ, NOW, ASKING) == Room()
    assert made.room(ObjectKey("default", "unknown"), NOW, ASKING) == Room()


# Who may lose quota.


@pytest.mark.parametrize(
    ("within", "priority", "after"),
    [("Never", 9, 2), ("LowerPriority", 9, 10), ("LowerPriority", 5, 5), ("LowerPriority", 0, 2)],
)
def test_what_its_own_lower_workloads_would_lose(within: str, priority: int, after: int) -> None:
    made = worker(MINE.preempt(within_cluster_queue=within))
    uses(made, cpu=3, priority=1, number=1)
    uses(made, cpu=5, priority=5, number=2)
    room = cpu_room(made)
    assert cores(room.free) == 2
    assert cores(room.free_after_preemption(priority)) == after
    assert room.free_after_reclaim(priority) == room.free


@pytest.mark.parametrize(
    ("reclaim", "priority", "after"),
    [("Never", 9, 4), ("Any", 0, 10), ("LowerPriority", 9, 10), ("LowerPriority", 5, 7), ("LowerPriority", 1, 4)],
)
def test_what_others_borrow_of_it_comes_back_up_to_its_own_quota(reclaim: str, priority: int, after: int) -> None:
    made = worker(SHARED.preempt(reclaim_within_cohort=reclaim), LENDING)
    uses(made, queue="theirs", cpu=3, priority=1, number=1)
    uses(made, queue="theirs", cpu=13, priority=5, number=2)
    room = cpu_room(made)
    assert cores(room.free) == 4
    assert cores(room.free_after_reclaim(priority)) == after


# Who is seen.


def told(queue: ClusterQueueBuilder, cpu: int, *, pending: int = 0) -> ClusterQueueBuilder:
    usage = FlavorUsage(name="default", resources=(ResourceUsage(name="cpu", total=str(cpu)),))
    status = replace(queue.build().status, flavors_reservation=(usage,), pending_workloads=pending)
    return ClusterQueueBuilder(replace(queue.build(), status=status))


def test_where_not_all_workloads_are_seen_the_queue_s_own_word_counts() -> None:
    made = worker(told(MINE.preempt(within_cluster_queue="LowerPriority"), 7, pending=3), whole=False)
    uses(made, cpu=2)
    room = made.room(LQ, NOW, ASKING)
    assert cores(room.quotas[0].free) == 3
    assert room.quotas[0].preemptible == ()
    assert room.waiting_before(1000) == 3
    uses(made, cpu=9)
    assert cores(cpu_room(made).free) == 1, "what is seen is more by now"
    made.is_whole = True
    assert cores(cpu_room(made).free) == 1
    assert made.room(LQ, NOW, ASKING).waiting == ()


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(workload("wl").queue("lq").request(cpu=2), Use(LQ, 0), id="it waits"),
        pytest.param(workload("wl").queue("lq").priority(3).request(cpu=2), Use(LQ, 3), id="it waits with a priority"),
        pytest.param(
            workload("wl").queue("lq").request(cpu=2).reserved("mine"),
            Use(LQ, 0, "mine", {CPU: 2000}),
            id="it has quota",
        ),
        pytest.param(workload("wl").queue("lq").request(cpu=2).reserved("mine").finished(), None, id="it is over"),
        pytest.param(workload("wl").queue("lq").request(cpu=2).inactive(), None, id="it is switched off"),
    ],
)
def test_what_a_workload_counts_for(seen: WorkloadBuilder, expected: Use | None) -> None:
    built = seen.build()
    assert use_of(built.key, workload_spec(built), built.status) == expected


def test_those_who_wait_count_by_priority() -> None:
    made = worker(MINE)
    for number, priority in enumerate((0, 5, 5)):
        made.see(key(number), Use(LQ, priority))
    room = made.room(LQ, NOW, ASKING)
    assert [room.waiting_before(priority) for priority in (0, 5, 6)] == [3, 2, 0]
    made.see(key(1), None)
    assert made.room(LQ, NOW, ASKING).waiting_before(0) == 2


# What is assumed.


def assumed(made: Occupancy, cpu: int = 4, *, number: int = 0, flavor: str = "default") -> Occupancy:
    made.assume(key(number), LQ, {(flavor, "cpu"): 1000 * cpu}, NOW)
    return made


def waits(made: Occupancy, *, then_gone: bool = False) -> None:
    made.see(key(0), Use(LQ, 0))
    if then_gone:
        made.see(key(0), None)


END: Mapping[str, tuple[Callable[[Occupancy], object], timedelta, int]] = {
    "until it is dropped": (lambda made: made.drop(key(0)), timedelta(), 10),
    "until its copy has quota, which counts then": (lambda made: uses(made, cpu=3), timedelta(), 7),
    "until its copy is gone": (lambda made: waits(made, then_gone=True), timedelta(), 10),
    "until no copy came for long": (lambda _: None, ASSUMED_FOR, 10),
    "still, before that": (lambda _: None, ASSUMED_FOR - timedelta(seconds=1), 6),
    "still, while its copy waits": (waits, 10 * ASSUMED_FOR, 6),
    "still, however often it is assumed": (assumed, timedelta(), 6),
}


@pytest.mark.parametrize(("then", "after", "free"), END.values(), ids=END)
def test_what_is_nominated_counts_as_used(then: Callable[[Occupancy], object], after: timedelta, free: int) -> None:
    made = assumed(worker(MINE))
    assert cores(cpu_room(made).free) == 6
    then(made)
    assert cores(cpu_room(made, after=after).free) == free


def test_more_may_be_assumed_than_there_is() -> None:
    made = worker(SHARED, LENDING)
    for number in range(7):
        assumed(made, number=number)
    assert cores(cpu_room(made).free) == -8


def test_it_counts_in_the_cohort_too() -> None:
    made = assumed(worker(SHARED, LENDING), 14)
    assert cores(cpu_room(made, OTHER).free) == 6


def test_it_is_not_assumed_of_what_has_quota_already() -> None:
    made = assumed(uses(worker(MINE), cpu=3), 3)
    assert cores(cpu_room(made).free) == 7


@pytest.mark.parametrize(
    ("flavor", "used"),
    [("b", {"a": 0, "b": 4}), ("theirs", {"a": 4, "b": 0}), ("unlike", {"a": 0, "b": 4})],
    ids=[
        "that of the manager",
        "one that has the manager's name",
        "that with most room where the manager has none like it",
    ],
)
def test_the_flavor_in_which_it_counts(flavor: str, used: Mapping[str, int]) -> None:
    made = worker(cluster_queue("mine").quota("a", cpu=8).quota("b", cpu=10), names={"a": "theirs"})
    assumed(made, flavor=flavor)
    found = {each.flavor: cores(each.used) for each in made.room(LQ, NOW, ASKING).quotas}
    assert found == {"theirs": used["a"], "b": used["b"]}


def test_what_is_assumed_before_anything_is_known_counts_once_it_is() -> None:
    made = Occupancy(lambda flavor: flavor)
    made.is_whole = True
    assumed(made)
    assert made.room(LQ, NOW, ASKING) == Room()
    made.local_queue_changed(None, local_queue("lq", "mine").build())
    made.cluster_queue_changed(None, MINE.build())
    assert cores(cpu_room(made).free) == 6


def test_the_same_room_is_the_same_value_until_something_changes() -> None:
    made = worker(MINE)
    first = made.room(LQ, NOW, ASKING)
    assert made.room(LQ, NOW + timedelta(hours=1), ASKING) is first
    assumed(made)
    assert made.room(LQ, NOW, ASKING) is not first


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assume", "drop", "wait", "hold", "gone", "shrink", "partial", "later"]),
        st.integers(0, 5),
        st.integers(1, 9),
    ),
    max_size=40,
)


@dataclass
class Model:
    """What must be the case after some steps, from the facts alone."""

    held: dict[int, int] = field(default_factory=dict)
    waits: set[int] = field(default_factory=set)
    assumed: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    """The cores, and when it ends if no copy is seen."""

    def used(self) -> int:
        return sum(self.held.values()) + sum(amount for amount, _ in self.assumed.values())


@given(STEPS)
def test_sums_of_assumed_load_never_drift(steps: list[tuple[str, int, int]]) -> None:
    made, model, quota, now = worker(SHARED, LENDING), Model(), 10, 0
    for what, number, cpu in steps:
        if what == "assume":
            made.assume(key(number), LQ, {CPU: 1000 * cpu}, NOW + timedelta(seconds=now))
            if number not in model.held and model.assumed.get(number, (0, None))[0] != cpu:
                ends = None if number in model.waits else now + int(ASSUMED_FOR.total_seconds())
                model.assumed[number] = cpu, ends
        elif what == "drop":
            made.drop(key(number))
            model.assumed.pop(number, None)
        elif what == "wait":
            made.see(key(number), Use(LQ, 0))
            model.held.pop(number, None)
            model.waits.add(number)
            if number in model.assumed:
                model.assumed[number] = model.assumed[number][0], None
        elif what == "hold":
            made.see(key(number), Use(LQ, 0, "mine", {CPU: 1000 * cpu}))
            model.waits.discard(number)
            model.held[number] = cpu
            model.assumed.pop(number, None)
        elif what == "gone":
            made.see(key(number), None)
            if number in model.held or number in model.waits:
                model.assumed.pop(number, None)
            model.held.pop(number, None)
            model.waits.discard(number)
        elif what == "shrink":
            quota = cpu
            made.cluster_queue_changed(None, cluster_queue("mine").cohort("all").quota("default", cpu=cpu).build())
        elif what == "partial":
            made.is_whole = not made.is_whole
        else:
            now += 30 * cpu
            model.assumed = {n: each for n, each in model.assumed.items() if each[1] is None or each[1] > now}
        own = model.held.get(number, 0) + model.assumed.get(number, (0, None))[0]
        (itself,) = made.room(LQ, NOW + timedelta(seconds=now), key(number)).quotas
        assert cores(itself.used) == model.used() - own
        room = cpu_room(made, after=timedelta(seconds=now))
        assert cores(room.used) == model.used()
        assert cores(room.free) == quota + 10 - model.used()
        assert made.assumed() == {key(number) for number in model.assumed}
