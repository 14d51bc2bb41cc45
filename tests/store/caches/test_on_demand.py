"""What connections do only once it is wanted."""

from __future__ import annotations

from multikueue.store.caches.on_demand import OnDemand


def test_each_worker_begins_once_it_is_wanted_and_later_ones_at_once() -> None:
    wanted = OnDemand()
    begun: list[str] = []
    wanted.when_wanted("w1", lambda: begun.append("w1"))
    assert (begun, wanted.is_wanted) == ([], False)
    assert (wanted.want(), wanted.want()) == (True, False)
    wanted.when_wanted("w2", lambda: begun.append("w2"))
    assert begun == ["w1", "w2"]


def test_a_worker_that_is_forgotten_begins_nothing() -> None:
    wanted = OnDemand()
    begun: list[str] = []
    wanted.when_wanted("w1", lambda: begun.append("w1"))
    wanted.forget_worker("w1")
    wanted.want()
    assert begun == []
