"""What is known of the room of workers: how much of it, under which names of flavors, and for how long it is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.rooms import UNREAD, Rooms, WorkerRoom
from multikueue.strategy import Fleet, Room, Worker
from tests.builders import NOW, WorkloadBuilder, cluster_queue, flavor, local_queue, workload

LQ = ObjectKey("default", "lq")
LOCAL = workload("wl").queue("lq").request(cpu=4).reserved("manager-cq")
OTHER = workload("other").queue("lq").request(cpu=4).reserved("manager-cq").build()
SCALARS = ("clusterqueues", "cohorts", "resourceflavors")
NO_FLAVORS: Mapping[str, str] = {}
FLEET = Fleet(workers=(Worker(name="w1"), Worker(name="w2")), now=NOW)


class Known:
    """The rooms of workers that are watched, `w1` and `w2`, each with 10 cores."""

    def __init__(self, *manager: ResourceFlavor) -> None:
        self.copies: dict[str, Cache[Workload]] = {"w1": Cache(), "w2": Cache()}
        self.flavors: Cache[ResourceFlavor] = Cache()
        self.flavors.replace(manager)
        self.rooms = Rooms(lambda name: self.copies[name], self.flavors, lambda: NOW)

    def read(self, *, namespaces: tuple[str, ...] = ("",), but: tuple[str, ...] = ()) -> Known:
        """Each worker is read, but for the parts that it refuses."""
        self.rooms.need(NO_FLAVORS)
        for name in self.copies:
            made = self.rooms.worker(name)
            parts = [*((plural, "") for plural in SCALARS)]
            parts += [(plural, namespace) for plural in ("localqueues", "workloads") for namespace in namespaces]
            made.begin(parts)
            made.cluster_queues.replace([cluster_queue("theirs").quota("default", cpu=10).build()])
            made.local_queues.replace([local_queue("lq", "theirs").build()])
            for plural, namespace in parts:
                is_refused = plural in but
                made.report(plural, namespace, "forbidden" if is_refused else "", is_refused=is_refused)
        return self

    @property
    def first(self) -> WorkerRoom:
        return self.rooms.worker("w1")

    def free(self, asking: Workload | None = None) -> list[float]:
        """By worker, for another workload than `wl` unless it asks itself."""
        shown = self.rooms.shown(FLEET, asking or OTHER, NO_FLAVORS)
        return [each.room.quotas[0].free / 1000 for each in shown.workers if each.room is not None]

    def waiting(self, asking: Workload) -> list[int]:
        shown = self.rooms.shown(FLEET, asking, NO_FLAVORS)
        return [sum(number for _, number in each.room.waiting) for each in shown.workers if each.room is not None]


def test_before_anybody_asks_nothing_is_known() -> None:
    known = Known()
    woken: list[str] = []
    known.rooms.wanted.when_wanted("w1", lambda: woken.append("w1"))
    assert woken == []
    assert known.rooms.shown(FLEET, LOCAL.build(), NO_FLAVORS) == FLEET
    assert woken == ["w1"]
    known.rooms.wanted.when_wanted("w2", lambda: woken.append("w2"))
    assert woken == ["w1", "w2"]


def test_all_queues_of_a_worker_together_are_told_once_they_were_read() -> None:
    assert [total.free for total in Known().read().first.total().values()] == [10_000]
    assert Known().read(but=("clusterqueues",)).first.total() == {}


def test_the_room_of_a_worker_is_that_of_its_queue() -> None:
    assert Known().read().free() == [10, 10]


@pytest.mark.parametrize(
    ("known", "doubt", "is_known"),
    [
        pytest.param(Known().read(), "", True, id="all is watched"),
        pytest.param(Known().read(but=("clusterqueues",)), UNREAD, False, id="its queues are refused"),
        pytest.param(
            Known().read(but=("cohorts",)), "not all of its cohorts may be read", True, id="cohorts are refused"
        ),
        pytest.param(
            Known().read(but=("workloads",)), "not all of its workloads may be read", True, id="workloads are refused"
        ),
        pytest.param(
            Known().read(namespaces=("a", "default")),
            "not all of its workloads may be read",
            True,
            id="it offers some namespaces",
        ),
    ],
)
def test_what_may_not_be_watched_is_told(known: Known, doubt: str, is_known: bool) -> None:
    room = known.first.room(LQ, NOW, OTHER.key)
    assert room.doubt == doubt
    assert bool(room.quotas) is is_known
    assert known.first.occupancy.is_whole is (doubt in ("", UNREAD) or "cohorts" in doubt)


def test_a_watch_that_breaks_is_told_and_what_was_seen_stays() -> None:
    known = Known().read()
    known.first.report("workloads", "", "connection reset")
    room = known.first.room(LQ, NOW, OTHER.key)
    assert room.doubt == "its workloads are not watched just now"
    assert room.quotas[0].free == 10_000
    known.first.report("workloads", "", "")
    assert known.first.room(LQ, NOW, OTHER.key).doubt == ""
    known.first.end()
    assert "are not watched just now" in known.first.room(LQ, NOW, OTHER.key).doubt


def test_nothing_is_known_before_the_first_list() -> None:
    known = Known()
    known.first.begin([("clusterqueues", "")])
    assert known.first.room(LQ, NOW, OTHER.key) == Room(doubt=UNREAD)


# Workloads.


def test_our_copies_and_the_workloads_of_others_count() -> None:
    known = Known().read()
    copy = workload("wl").queue("lq").request(cpu=3).reserved("theirs").build()
    known.copies["w1"].upsert(copy)
    assert known.free() == [7, 10]
    known.copies["w1"].remove(copy)
    assert known.free() == [10, 10]


def test_copies_that_were_there_before_anybody_asked_count() -> None:
    known = Known()
    known.copies["w1"].upsert(workload("wl").queue("lq").request(cpu=3).reserved("theirs").build())
    assert known.read().free() == [7, 10]


def test_what_is_nominated_counts_where_it_is() -> None:
    known = Known().read()
    known.rooms.assume(LOCAL.build(), ("w1",))
    assert known.free() == [6, 10]
    known.rooms.assume(LOCAL.build(), ("w2", "unknown"))
    assert known.free() == [10, 6]
    known.rooms.assume(LOCAL.build(), ("w1", "w2"))
    assert known.free() == [6, 6]
    known.rooms.release(LOCAL.build().key)
    assert known.free() == [10, 10]


@pytest.mark.parametrize(
    "but", [pytest.param((), id="all is seen"), pytest.param(("workloads",), id="only queues are")]
)
@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(None, id="no copy yet"),
        pytest.param(workload("wl").queue("lq").request(cpu=4), id="a copy that waits"),
        pytest.param(workload("wl").queue("lq").request(cpu=4).reserved("theirs"), id="a copy with quota"),
    ],
)
def test_what_a_workload_takes_itself_is_free_for_it(but: tuple[str, ...], copy: WorkloadBuilder | None) -> None:
    """It is asked again before its nomination is written: where it is nominated is no worse than before."""
    known = Known().read(but=but)
    known.rooms.assume(LOCAL.build(), ("w1",))
    if copy is not None:
        known.copies["w1"].upsert(copy.build())
    for _ in range(2):
        assert known.free() == [6, 10]
        assert known.free(LOCAL.build()) == [10, 10]
        assert known.waiting(LOCAL.build()) == [0, 0]
    known.rooms.release(LOCAL.build().key)
    if copy is not None:
        known.copies["w1"].remove(copy.build())
    assert known.free() == [10, 10]


def test_a_burst_that_nobody_has_seen_yet_spreads() -> None:
    known = Known().read()
    for number in range(500):
        free = known.free()
        best = f"w{free.index(max(free)) + 1}"
        known.rooms.assume(workload(f"wl-{number}").queue("lq").request(cpu=4).reserved("manager-cq").build(), (best,))
    assert [len(known.rooms.worker(name).occupancy.assumed()) for name in ("w1", "w2")] == [250, 250]


# Names of flavors.


GPUS = flavor("a100").node_labels(gpu="a100")


@pytest.mark.parametrize(
    ("manager", "own", "mapping", "name"),
    [
        pytest.param((flavor("default"),), flavor("default"), {}, "default", id="the same name"),
        pytest.param((GPUS,), flavor("default").node_labels(gpu="a100"), {}, "a100", id="the same labels of nodes"),
        pytest.param((GPUS,), flavor("default").node_labels(gpu="h100"), {}, "default", id="other labels"),
        pytest.param((flavor("x"),), flavor("default"), {}, "default", id="no labels are no likeness"),
        pytest.param(
            (GPUS, flavor("b").node_labels(gpu="a100")),
            flavor("default").node_labels(gpu="a100"),
            {},
            "default",
            id="two that are alike",
        ),
        pytest.param((GPUS, flavor("default")), flavor("default"), {"default": "a100"}, "a100", id="as configured"),
        pytest.param((GPUS,), flavor("default"), {"w1/default": "a100", "default": "b"}, "a100", id="for one worker"),
    ],
)
def test_the_manager_s_name_of_a_flavor(
    manager: tuple[object, ...], own: object, mapping: Mapping[str, str], name: str
) -> None:
    known = Known(*(each.build() for each in manager)).read()  # type: ignore[attr-defined]  # builders
    known.first.flavors.upsert(own.build())  # type: ignore[attr-defined]
    known.rooms.need(mapping)
    assert [each.flavor for each in known.first.room(LQ, NOW, OTHER.key).quotas] == [name]


def test_the_manager_s_flavors_may_change() -> None:
    known = Known().read()
    known.first.flavors.upsert(flavor("default").node_labels(gpu="a100").build())
    assert known.first.room(LQ, NOW, OTHER.key).quotas[0].flavor == "default"
    known.flavors.upsert(GPUS.build())
    assert known.first.room(LQ, NOW, OTHER.key).quotas[0].flavor == "a100"


# The same value.


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (lambda known: None, True),
        (lambda known: known.rooms.assume(LOCAL.build(), ("w2",)), True),
        (lambda known: known.rooms.assume(LOCAL.build(), ("w1",)), False),
        (lambda known: known.first.report("cohorts", "", "broken"), False),
    ],
    ids=["nothing", "load elsewhere", "load here", "a watch that breaks"],
)
def test_a_worker_is_the_same_value_while_its_room_is(change: Callable[[Known], object], is_same: bool) -> None:
    known = Known().read()
    before = known.rooms.shown(FLEET, LOCAL.build(), NO_FLAVORS).workers[0]
    change(known)
    assert (known.rooms.shown(FLEET, LOCAL.build(), NO_FLAVORS).workers[0] is before) is is_same


def test_a_worker_that_is_forgotten_has_no_room() -> None:
    known = Known().read()
    known.rooms.assume(LOCAL.build(), ("w1",))
    known.rooms.forget_worker("w1")
    assert [each.room is None for each in known.rooms.shown(FLEET, LOCAL.build(), NO_FLAVORS).workers] == [True, False]
    known.rooms.release(LOCAL.build().key)
