from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import Workload
from multikueue_console.history.runs import Outcome
from multikueue_console.history.story import news_of, news_of_removal
from tests.builders.workloads import workload
from tests.console.history.lives import at, evicted, finished, readmitted, running, submitted


def test_a_run_has_where_it_runs_what_it_uses_and_how_long_it_waited() -> None:
    news = news_of(running(start=10).build())
    assert news.end is None
    assert news.run is not None
    assert (news.run.namespace, news.run.name, news.run.queue, news.run.cluster_queue) == (
        "team",
        "train",
        "main",
        "cq",
    )
    assert (news.run.cluster, news.run.cpu, news.run.gpu) == ("east", 1.5, 2)
    assert (news.run.queued_at, news.run.started_at) == (at(0), at(10))
    assert news.run.waited == 600


@pytest.mark.parametrize(
    ("shown", "outcome", "minute"),
    [
        pytest.param(finished(end=100), Outcome.SUCCEEDED, 100, id="a job that succeeds ends its run"),
        pytest.param(finished(reason="Failed"), Outcome.FAILED, 100, id="so does one that fails"),
        pytest.param(
            finished(reason="WorkloadSliceReplaced"),
            Outcome.REPLACED,
            100,
            id="a slice that a later one replaces ends too",
        ),
        pytest.param(
            evicted(end=30).build(), Outcome.PREEMPTED, 30, id="a preempted run ends when its quota is given back"
        ),
        pytest.param(
            evicted(end=30, reason="AdmissionCheck").build(), Outcome.EVICTED, 30, id="an eviction for another reason"
        ),
    ],
)
def test_ends(shown: Workload, outcome: Outcome, minute: int) -> None:
    end = news_of(shown).end
    assert end is not None
    assert (end.outcome, end.at) == (outcome, at(minute))


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(submitted().build(), id="a workload that waits"),
        pytest.param(submitted().finished("Failed").build(), id="a workload that failed without quota"),
        pytest.param(workload("odd").uid("odd").build(), id="a workload without a queue"),
    ],
)
def test_nothing_is_told_of(shown: Workload) -> None:
    news = news_of(shown)
    assert (news.run, news.end) == (None, None)


def test_a_run_that_is_being_evicted_goes_on_until_its_quota_is_given_back() -> None:
    news = news_of(running().evicted(at=at(29)).build())
    assert news.run is not None
    assert news.end is None


def test_a_second_run_has_another_mark_and_does_not_know_since_when_it_waits() -> None:
    first, second = news_of(running().build()).run, news_of(readmitted().build()).run
    assert first is not None
    assert second is not None
    assert first.attempt != second.attempt
    assert second.queued_at is None
    assert second.cluster == "west"


def test_the_user_is_named_by_the_label_or_else_by_the_namespace() -> None:
    labelled = running().labels({"multikueue.dev/user": "ada"}).build()
    assert [run.user for each in (labelled, running().build()) if (run := news_of(each).run)] == ["ada", "team"]


def test_the_run_of_a_workload_that_is_deleted_ends() -> None:
    end = news_of_removal(news_of(running().build()), at(50)).end
    assert end is not None
    assert (end.outcome, end.at) == (Outcome.DELETED, at(50))
    assert news_of_removal(news_of(submitted().build()), at(50)).end is None
    told = news_of_removal(news_of(finished()), at(500)).end
    assert told is not None
    assert told.outcome is Outcome.SUCCEEDED
