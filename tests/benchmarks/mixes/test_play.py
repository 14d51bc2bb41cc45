"""A fleet on virtual time: who starts where, what losers hold, and that no job is lost or started twice."""

from __future__ import annotations

import pytest

from benchmarks.mixes.contestants import CONTESTANTS
from benchmarks.mixes.play import Result, play
from benchmarks.mixes.traces import MIXES, PARTS, Cluster, Job, drawn, fleet
from multikueue.strategy import Fleet, Nomination, Worker, Workload

TWO = (Cluster("c1", 4 * PARTS, "a", 1.0), Cluster("c2", 4 * PARTS, "a", 3.0))


def gpus(
    number: int, name: str = "job", *, at: float = 0.0, seconds: float = 100.0, priority: int = 0, local: str = ""
) -> Job:
    return Job(name, at, "user", number * PARTS, seconds, priority, local=local)


def played(strategy: str, *jobs: Job, clusters: tuple[Cluster, ...] = TWO) -> Result:
    return play(clusters, jobs, CONTESTANTS[strategy].make(clusters))


def test_of_a_race_the_first_wins_and_the_loser_holds_quota_for_a_moment() -> None:
    result = played("race", gpus(1))
    (record,) = result.records
    assert (record.copies, record.starts, record.started, record.ended) == (2, 1, 2.0, 102.0)
    assert result.held_by_losers == 2 * PARTS


def test_one_copy_by_room_goes_beside_what_runs() -> None:
    result = played("room", gpus(3, "first"), gpus(3, "second", at=1), gpus(1, "third", at=2))
    first, second, _ = result.records
    assert {first.cluster, second.cluster} == {"c1", "c2"}
    assert result.held_by_losers == 0


def test_what_does_not_fit_waits_for_an_end() -> None:
    result = played("room", gpus(4, "a"), gpus(4, "b"), gpus(4, "c", at=10))
    assert result.records[2].started == pytest.approx(103.0, abs=2)


def test_a_higher_priority_preempts_who_goes_on_from_the_last_checkpoint() -> None:
    low, high = gpus(4, "low", seconds=1_000, local="c1"), gpus(4, "high", at=700, priority=1, local="c1")
    result = played("race", low, high)
    first, second = result.records
    assert (second.started, result.preempted) == (700, 1)
    assert first.ended == pytest.approx(700 + 100 + 400)
    assert first.lost == pytest.approx(100 * 4 * PARTS)


def test_copies_that_lose_preempt_for_nothing() -> None:
    busy = (gpus(4, "x", seconds=900, local="c1"), gpus(4, "y", seconds=900, local="c2"))
    result = played("race", *busy, gpus(4, "urgent", at=50, priority=1))
    assert (result.preempted, result.preempted_by_losers) == (2, 1)
    assert played("room", *busy, gpus(4, "urgent", at=50, priority=1)).preempted_by_losers == 0


class Reader:
    """A strategy that says what it reads, and names a worker when it is asked for the last time."""

    def __init__(self, *reads: str, times: int = 1) -> None:
        self.reads, self.times, self.seen = reads, times, list[tuple[Worker, ...]]()

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        self.seen.append(fleet.workers)
        return Nomination(fleet.names[:1] if len(self.seen) == self.times else ())


@pytest.mark.parametrize("reads", [(), ("room",), ("waits",), ("room", "waits")], ids=str)
def test_a_strategy_sees_what_it_reads(reads: tuple[str, ...]) -> None:
    reader = Reader(*reads)
    play(TWO, (gpus(1),), reader)
    for worker in (each for workers in reader.seen for each in workers):
        assert ((worker.room is not None), (worker.waits is not None)) == ("room" in reads, "waits" in reads)


def test_who_names_nobody_is_asked_again_once_something_has_changed() -> None:
    """Every ten seconds, as by the manager, but for the same question: a pure strategy would answer the same."""
    reader = Reader("room", times=3)
    others = (gpus(1, "other", at=25, local="c1"), gpus(1, "third", at=75, local="c2"))
    (first, *_) = play(TWO, (gpus(1), *others), reader).records
    assert first.started == 82.0


@pytest.mark.parametrize(("name", "began", "where"), [("anywhere", 902, "c2"), ("yields", 801, "c1")])
def test_a_copy_that_yields_takes_nobodys_turn(name: str, began: float, where: str) -> None:
    """The second copy is there before another job of its worker comes."""
    busy = (gpus(4, "x", seconds=900, local="c1"), gpus(4, "y", seconds=800, local="c2"))
    waits = gpus(4, "z", at=10, seconds=1, local="c2")
    result = played(name, *busy, waits, gpus(4, at=50), gpus(4, "late", at=400, local="c2"))
    by_name = {each.job.name: each for each in result.records}
    assert (by_name["late"].started, by_name["job"].cluster) == (began, where)
    assert by_name["job"].copies == 2


def test_a_copy_that_yields_goes_for_anybody_until_it_has_won() -> None:
    busy = (gpus(4, "x", seconds=900, local="c1"), gpus(4, "y", seconds=800, local="c2"))
    waits = gpus(4, "z", at=10, seconds=1, local="c2")
    in_time, too_late = (
        played("yields", *busy, waits, gpus(4, at=50), gpus(4, "late", at=at, local="c2")) for at in (801.5, 803)
    )
    assert [each.preempted for each in (in_time, too_late)] == [1, 0]


@pytest.mark.parametrize("name", CONTESTANTS)
def test_each_job_ends_once_whoever_chooses(name: str) -> None:
    clusters = fleet(5, equal=False)
    jobs = drawn(MIXES["seren"], clusters, days=0.05, load=1.2, seed=3)
    result = play(clusters, jobs, CONTESTANTS[name].make(clusters))
    assert sorted(each.job.name for each in result.records) == sorted(job.name for job in jobs)
    by_name = {each.name: each for each in clusters}
    for record in result.records:
        assert record.ended >= record.job.at + record.job.seconds
        assert record.job.parts <= by_name[record.cluster].parts
        assert record.job.gpu in ("", by_name[record.cluster].gpu)
        assert record.job.local in ("", record.cluster)
    for cluster in clusters:
        changes = sorted(
            change
            for each in result.records
            if each.cluster == cluster.name
            for change in ((each.started, 1, each.job.parts), (each.ended, 0, -each.job.parts))
        )
        used = 0
        for _, _, parts in changes:
            used += parts
            assert used <= cluster.parts, f"{cluster.name} gives out more than it has"
