"""What the copies on a worker teach of how long jobs wait there."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.waits import WorkerWaits, like
from multikueue.strategy import Fleet, Waits, Worker
from tests.builders import NOW, WorkloadBuilder, workload

MINUTE = timedelta(minutes=1)
FLEET = Fleet(workers=(Worker(name="w1"), Worker(name="w2")), now=NOW)
ASKED = workload("asked").queue("lq").request(cpu=2).reserved("manager-cq").build()


class Known:
    """A worker `w1` with copies; `w2` is not connected."""

    def __init__(self) -> None:
        self.workloads: Cache[Workload] = Cache()
        self.local: Cache[Workload] = Cache()
        self.clock = NOW
        self.known = WorkerWaits({"w1": self}, self.local, lambda: self.clock)

    def put(self, name: str, *, waited: timedelta | None = None, is_known: bool = True) -> WorkloadBuilder:
        """A copy there; without `waited` it waits."""
        mine = workload(name).queue("lq").request(cpu=2)
        if is_known:
            self.local.upsert(mine.reserved("manager-cq").build())
        copy = mine.created(self.clock - (waited or timedelta()))
        copy = copy if waited is None else copy.reserved("theirs", at=self.clock)
        self.workloads.upsert(copy.build())
        return copy

    def shown(self) -> Waits:
        found, other = self.known.shown(FLEET, ASKED).workers
        assert other.waits is None
        assert found.waits is not None
        return found.waits


def test_nothing_is_known_of_a_worker_without_copies() -> None:
    assert Known().shown() == Waits()


def test_copies_that_were_there_before_anybody_asked_teach_by_their_own_times() -> None:
    known = Known()
    for number in range(6):
        known.put(f"wl-{number}", waited=MINUTE)
    waits = known.shown()
    assert (waits.seen, waits.of) == (6, "its queue and size")
    assert MINUTE <= (waits.within(0.5) or timedelta()) < 1.5 * MINUTE


def test_copies_that_come_and_get_quota_later_count_once() -> None:
    known = Known()
    known.shown()
    copies = [known.put(f"wl-{number}") for number in range(6)]
    known.clock += 2 * MINUTE
    for copy in copies:
        known.workloads.upsert(copy.reserved("theirs", at=known.clock).version(2).build())
        known.workloads.upsert(copy.reserved("theirs", at=known.clock).version(3).build())
    waits = known.shown()
    assert waits.seen == 6
    assert 2 * MINUTE <= (waits.within(0.5) or timedelta()) < 3 * MINUTE


def test_a_copy_that_goes_without_quota_counts_as_one_that_waited() -> None:
    known = Known()
    known.shown()
    copy = known.put("wl").build()
    known.clock += MINUTE
    known.workloads.remove(copy)
    waits = known.shown()
    assert (round(waits.seen), waits.steps) == (1, ())
    assert waits.longest >= MINUTE


def test_what_the_worker_evicts_is_told() -> None:
    known = Known()
    known.shown()
    copies = [known.put(f"wl-{number}", waited=MINUTE) for number in range(4)]
    known.workloads.upsert(copies[0].evicted().version(2).build())
    known.clock += MINUTE
    assert known.shown().evicted == 0.25


def test_a_copy_of_a_workload_that_is_not_known_teaches_nothing() -> None:
    known = Known()
    known.put("wl", waited=MINUTE, is_known=False)
    assert known.shown() == Waits()


def test_a_worker_that_is_forgotten_begins_anew() -> None:
    known = Known()
    known.put("wl", waited=MINUTE)
    known.shown()
    known.known.forget_worker("w1")
    known.workloads.remove(known.workloads.get(ObjectKey("default", "wl")) or ASKED)
    assert known.shown() == Waits()


def test_what_workloads_have_in_common() -> None:
    assert like(ASKED) == like(workload("other").queue("lq").request(cpu=3).reserved("cq").build())
    assert like(ASKED) != like(workload("other").queue("lq").request(cpu=4).reserved("cq").build())
    assert like(ASKED) != like(workload("other").queue("night").request(cpu=2).reserved("cq").build())


def test_jobs_that_are_alike_are_shown_the_same_worker_for_a_while() -> None:
    known = Known()
    known.put("wl", waited=MINUTE)
    first, again = (known.known.shown(FLEET, ASKED).workers[0] for _ in range(2))
    assert first is again
    known.clock += MINUTE
    known.put("other", waited=3 * MINUTE)
    assert known.known.shown(FLEET, ASKED).workers[0] is not first
