"""Which queues of workers are known to admit nothing: while they are watched, and for how long that is so."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.meta import ObjectKey
from multikueue.store.caches.closed_queues import ClosedQueues, SeenQueues
from tests.builders import cluster_queue, local_queue

LQ, ELSEWHERE = ObjectKey("default", "lq"), ObjectKey("elsewhere", "lq")
PARTS = (("clusterqueues", ""), ("localqueues", ""))


class Known:
    """What is known of the queues of `w1`, to which `lq` leads. `told` and `doubts` are what was said since."""

    def __init__(self, *leading: ObjectKey) -> None:
        self.told: list[ObjectKey] = []
        self.doubts: list[bool] = []
        self.leading = leading or (LQ,)
        self.queues = ClosedQueues(lambda _worker: self.leading, self._tell)
        self.queues.when_doubted("w1", self.doubts.append)

    def _tell(self, news: Iterable[ObjectKey]) -> None:
        self.told += news

    def watched(
        self, *there: LocalQueue, shared: Iterable[ClusterQueue] = (), parts: Iterable[tuple[str, str]] = PARTS
    ) -> SeenQueues:
        """All is listed, and the watches stand."""
        seen = self.queues.watch("w1", parts)
        seen.local_queues.replace(there)
        seen.cluster_queues.replace(shared)
        for plural, namespace in parts:
            seen.report(plural, namespace, stands=True)
        return seen

    def why(self, queue: ObjectKey = LQ) -> str:
        return self.queues.of(queue).get("w1", "")


OPEN = local_queue("lq", "theirs").build()
THEIRS = cluster_queue("theirs").quota("default", cpu=10)


def test_a_worker_is_doubted_once_it_is_connected_and_no_more_where_all_its_queues_are_open() -> None:
    known = Known()
    assert known.doubts == [True]
    known.watched(OPEN, shared=[THEIRS.build()])
    assert known.doubts == [True, False]
    assert (known.why(), known.told, bool(known.queues)) == ("", [], False)


def test_a_queue_that_is_closed_is_told_of_once_and_again_when_it_opens() -> None:
    known = Known()
    seen = known.watched(shared=[THEIRS.build()])
    assert known.why() == "LocalQueue lq doesn't exist"
    assert (known.told, known.doubts) == ([LQ], [True])
    seen.report("localqueues", "", stands=True)
    assert known.told == [LQ]
    seen.local_queues.upsert(OPEN)
    assert (known.why(), known.told, known.doubts) == ("", [LQ, LQ], [True, False])


def test_only_queues_of_the_manager_are_told_of() -> None:
    known = Known()
    known.watched(OPEN, local_queue("theirs-alone", "missing").build(), shared=[THEIRS.build()])
    assert (known.told, known.doubts) == ([], [True, False])


@pytest.mark.parametrize("part", PARTS, ids=["its ClusterQueues", "its LocalQueues"])
def test_nothing_is_known_while_a_watch_does_not_stand(part: tuple[str, str]) -> None:
    known = Known()
    seen = known.watched()
    seen.report(*part, stands=False)
    assert (known.why(), known.told) == ("", [LQ, LQ])
    seen.report(*part, stands=True)
    assert known.why() != ""


def test_nothing_is_known_after_the_watch_has_ended_unless_the_next_one_has_begun() -> None:
    known = Known()
    first = known.watched()
    known.queues.unwatch("w1", first)
    assert (known.why(), known.told) == ("", [LQ, LQ])
    second = known.watched()
    known.queues.unwatch("w1", first)
    assert known.why() != ""
    known.queues.unwatch("w1", second)
    assert known.why() == ""


def test_of_a_namespace_that_is_not_watched_nothing_is_known() -> None:
    known = Known(LQ, ELSEWHERE)
    known.watched(parts=(("clusterqueues", ""), ("localqueues", "default")))
    assert (known.why() != "", known.why(ELSEWHERE)) == (True, "")


def test_a_doubt_begins_a_look_unless_the_queues_are_watched_by_now() -> None:
    known = Known()
    seen = known.watched(OPEN, shared=[THEIRS.build()])
    known.leading = (LQ, ELSEWHERE)
    known.queues.doubt(["w1", "another"])
    assert known.doubts == [True, False]
    assert known.why(ELSEWHERE) == "LocalQueue lq doesn't exist"
    known.queues.unwatch("w1", seen)
    known.queues.doubt(["w1"])
    assert known.doubts == [True, False, True]
    known.queues.forget_worker("w1")
    known.queues.doubt(["w1"])
    assert known.doubts == [True, False, True]


def test_what_changes_with_each_job_is_not_judged() -> None:
    known = Known()
    seen = known.watched(shared=[THEIRS.build()])
    known.leading = ()
    seen.cluster_queues.upsert(THEIRS.version(2).active().build())
    assert known.told == [LQ]
    seen.cluster_queues.upsert(THEIRS.version(3).active(False).build())
    assert known.told == [LQ, LQ], "it is judged: the queue leads there no more"
