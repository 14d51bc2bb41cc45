"""Of the objects on a worker that nobody here knows, some at a time are cached; the rest once these are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from multikueue.api.kinds import JOBS
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey, ObjectMeta
from multikueue.dispatch.remote import Asked
from multikueue.store.caches import unknown_objects
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.unknown_objects import MOST_BYTES, UnknownObjects, UnknownObjectsRoom
from multikueue.store.store import Store
from multikueue.store.workers.worker import WorkerView
from tests.builders import NOW, job, workload
from tests.store.known import stored

X, Y = ObjectKey("default", "x"), ObjectKey("default", "y")
FOUR = tuple(f"unknown-{number}" for number in range(4))


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_objects, "MOST", 4)


class Told:
    """A cache that knows some names, and how often it had room for unknown_objects."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known, self.rooms = set(known), 0
        self.unknown_objects: UnknownObjects[Workload] = UnknownObjects(
            lambda item: item.key.name in self.known,
            lambda item: (item.key,),
            self._have_room,
            is_swept=lambda _: True,
            room=UnknownObjectsRoom(),
        )
        self.cache = Cache(unknown=self.unknown_objects)

    @property
    def left_out(self) -> set[str]:
        names = ("a", *FOUR, "one too many", "x", "y", "z")
        return {
            name
            for name in names
            for place in ("default", "other")
            if self.cache.may_have_left_out([ObjectKey(place, name)])
        }

    def _have_room(self) -> None:
        self.rooms += 1

    def watched(self, *names: str) -> None:
        for name in names:
            item = workload(name).build()
            if self.cache.should_keep(item):
                self.cache.upsert(item)

    def listed(self, *names: str) -> None:
        self.cache.expect_list()
        self.cache.replace([item for name in names if self.cache.should_keep(item := workload(name).build())])

    def sweep(self, *names: str) -> None:
        for name in names:
            self.cache.remove(workload(name).build())

    @property
    def names(self) -> list[str]:
        return sorted(item.key.name for item in self.cache)


@pytest.mark.parametrize("way", ["watched", "listed"])
def test_so_many_unknown_are_cached_and_all_that_is_known(way: str) -> None:
    told = Told(known=("a", "b"))
    getattr(told, way)("a", *FOUR, "one too many", "b")
    assert told.names == ["a", "b", *FOUR]
    assert told.left_out == {"one too many"}


def large(name: str, kibibytes: int, *, version: int = 1) -> Workload:
    return workload(name).annotations({"text": "x" * 1024 * kibibytes}).version(version).build()


def test_large_unknown_take_as_much_memory_together_as_small_ones() -> None:
    told = Told(known=("known",))
    assert [told.cache.should_keep(large(name, MOST_BYTES // 2**11)) for name in FOUR[:3]] == [True, False, False]
    assert told.cache.should_keep(large("known", MOST_BYTES // 2**10))
    assert told.left_out == set(FOUR[1:3])


def test_one_unknown_object_is_cached_whatever_its_size() -> None:
    told = Told()
    assert told.cache.should_keep(large("x", 2 * MOST_BYTES // 2**10))


def test_an_unknown_object_that_grows_is_dropped_where_there_is_no_room_for_it() -> None:
    told = Told()
    for name in ("x", "y"):
        assert told.cache.should_keep(large(name, 1))
        told.cache.upsert(large(name, 1))
    assert not told.cache.should_keep(large("x", MOST_BYTES // 2**10, version=2))
    assert told.names == ["y"]
    assert told.left_out == {"x"}
    told.cache.should_keep(large("y", 2, version=2))
    assert told.names == ["y"]


def test_large_unknown_that_are_gone_make_room_for_a_list() -> None:
    told = Told()
    item = large("x", MOST_BYTES // 2**10 - 10)
    assert told.cache.should_keep(item)
    told.cache.upsert(item)
    assert not told.cache.should_keep(large("y", 20))
    told.cache.remove(item)
    assert told.rooms == 1
    told.cache.expect_list()
    assert told.cache.should_keep(large("y", 20))


def test_all_kinds_of_a_worker_share_the_memory() -> None:
    _, worker, _ = _worker(fill=())
    assert worker.workloads.should_keep(large("x", MOST_BYTES // 2**11))
    item = job("y").prebuilt("z").annotations({"text": "x" * (MOST_BYTES // 2)}).build()
    assert not worker.jobs.of(JOBS).should_keep(item)


def test_a_job_that_no_sweep_removes_is_not_cached() -> None:
    """It has our origin and names no workload: anybody may make as many as the worker lets them."""
    _, worker, _ = _worker(fill=())
    assert not worker.jobs.of(JOBS).should_keep(job("x").build())
    assert worker.jobs.of(JOBS).should_keep(job("x").prebuilt("gone").build())


def test_what_is_there_is_always_wanted() -> None:
    told = Told(known=("a",))
    told.watched("a", *FOUR)
    told.known.clear()
    assert all(told.cache.should_keep(workload(name).version(5).build()) for name in ("a", *FOUR))


def test_once_half_of_them_are_swept_there_is_room() -> None:
    told = Told()
    told.watched(*FOUR, "x", "y")
    told.sweep(FOUR[0])
    assert told.rooms == 0
    told.sweep(FOUR[1])
    assert told.rooms == 1
    told.listed(*FOUR[2:], "x", "y")
    assert told.names == [*FOUR[2:], "x", "y"]


def test_the_end_of_one_that_was_left_out_makes_no_room() -> None:
    told = Told()
    told.watched(*FOUR, "x")
    told.sweep("x")
    told.watched("y")
    assert (told.names, told.rooms, told.left_out) == (list(FOUR), 0, {"x", "y"})


def test_late_news_of_one_that_was_swept_take_no_room() -> None:
    told = Told()
    told.watched(*FOUR)
    told.sweep(*FOUR)
    told.watched(*FOUR)
    told.watched("a", "b", "c", "d")
    assert told.names == ["a", "b", "c", "d"]


def test_a_list_that_never_came_takes_no_room() -> None:
    told = Told()
    told.cache.expect_list()
    assert all(told.cache.should_keep(workload(name).build()) for name in FOUR)
    told.listed("a", "b", "c", "d")
    assert told.names == ["a", "b", "c", "d"]


def test_whom_somebody_knows_by_now_is_no_unknown_object() -> None:
    told = Told()
    told.watched(*FOUR)
    told.known.update(FOUR)
    told.listed(*FOUR, "a", "b")
    assert told.names == ["a", "b", *FOUR]


def test_a_list_names_all_that_is_left_out_and_no_more() -> None:
    told = Told()
    told.listed(*FOUR, "x", "y")
    told.listed(*FOUR, "y", "z")
    assert told.left_out == {"y", "z"}


def test_what_was_left_out_before_a_list_is_left_out_until_the_list_is_applied() -> None:
    told = Told()
    told.listed(*FOUR, "x")
    told.cache.expect_list()
    assert told.left_out == {"x"}
    assert not told.cache.should_keep(workload("y").build())
    assert told.left_out == {"x", "y"}
    told.cache.replace([workload(name).build() for name in FOUR])
    assert told.left_out == {"y"}


def test_a_list_of_one_namespace_says_nothing_about_others() -> None:
    told = Told()
    told.watched(*FOUR, "x")
    other = ObjectMeta(name="y", namespace="other")
    assert not told.cache.should_keep(Workload(metadata=other))
    told.cache.expect_list("default")
    told.cache.replace([], 0, "default")
    assert told.left_out == {"y"}


def _worker(fill: Iterable[str] = FOUR) -> tuple[Store, WorkerView, list[str]]:
    """One that has as many unknown objects of each kind as there may be, and notes when it is to be listed again."""
    store, _ = stored()
    worker, lists = store.worker("w1"), list[str]()
    worker.known_objects.list_anew = lambda: lists.append("lists")
    for name in fill:
        worker.workloads.should_keep(workload(name).build())
        worker.jobs.of(JOBS).should_keep(job(name).prebuilt(name).build())
    return store, worker, lists


def test_copies_and_jobs_that_nobody_knows_are_left_out() -> None:
    _, worker, _ = _worker()
    assert not worker.may_have_left_out((X, Y))
    assert not worker.workloads.should_keep(workload("x").build())
    assert not worker.jobs.of(JOBS).should_keep(job("y").build())
    assert worker.may_have_left_out((X,))
    assert worker.may_have_left_out((Y,))


KNOWN: Mapping[str, Callable[[Store, WorkerView], object]] = {
    "a workload that is there": lambda store, _: store.workloads.upsert(workload("x").build()),
    "a workload that cannot be decoded": lambda store, _: store.workloads.unreadable.update({X: "odd"}),
    "a job that was requested": lambda _, worker: worker.ask_for_job(X, Asked("attempt", NOW)),
}


@pytest.mark.parametrize("what", KNOWN)
def test_the_copy_and_the_job_of_somebody_known_are_cached(what: str) -> None:
    store, worker, _ = _worker()
    KNOWN[what](store, worker)
    assert worker.workloads.should_keep(workload("x").build())
    assert worker.jobs.of(JOBS).should_keep(job("any").prebuilt("x").build())


def test_a_copy_that_is_being_made_is_cached() -> None:
    _, worker, _ = _worker()
    with worker.expectations.creating(X):
        assert worker.workloads.should_keep(workload("x").build())


def test_a_job_of_a_workload_that_is_gone_is_cached_where_its_job_is_here() -> None:
    """An elastic job is marked with the slice before it, for a while."""
    _, worker, _ = _worker()
    assert worker.jobs.of(JOBS).should_keep(job("job").prebuilt("gone").build())


LEFT_OUT: Mapping[str, Callable[[WorkerView], bool]] = {
    "its copy": lambda worker: worker.workloads.should_keep(workload("x").build()),
    "a job marked with it": lambda worker: worker.jobs.of(JOBS).should_keep(job("any").prebuilt("x").build()),
    "a job with the name of its own": lambda worker: worker.jobs.of(JOBS).should_keep(
        job("y").prebuilt("gone").build()
    ),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_a_new_workload_may_run_where_something_of_it_was_left_out(what: str) -> None:
    store, worker, lists = _worker()
    assert not LEFT_OUT[what](worker)
    store.workloads.upsert(workload("other").owner_job("other").build())
    assert lists == []
    store.workloads.upsert(workload("x").owner_job("y").build())
    assert lists == ["lists"]
    assert worker.may_run(X)
    assert store.places(X) == ("w1",)
    store.workloads.upsert(workload("x").owner_job("y").version(99).build())
    assert lists == ["lists"]


def test_a_request_whose_outcome_is_unknown_stays_as_it_is() -> None:
    store, worker, _ = _worker()
    assert not worker.workloads.should_keep(workload("x").build())
    worker.ask_for_job(X, Asked("attempt", NOW))
    store.workloads.upsert(workload("x").build())
    assert worker.expectations.asked(X) == Asked("attempt", NOW)


def test_a_worker_that_is_looked_at_alone_has_no_unknown() -> None:
    worker = WorkerView("w1")
    assert all(worker.workloads.should_keep(workload(f"x-{number}").build()) for number in range(9))
