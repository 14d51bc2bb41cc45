"""What the job controller says of a run: its statuses over time, played on a job that takes them in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.jobs.job import Job
from multikueue.api.meta import decoder, encode, render_time
from multikueue.testing import NOW
from multikueue_simulator.workers.jobs.runs import NO_PODS, Life, Pods, Status, Sync, status_of, sync, vanishes_at

SECOND = timedelta(seconds=1)
ALL = 1000


class Run:
    """A job, its pods, and a clock; statuses are taken in at once."""

    def __init__(self, *, life: Life | None = None, status: Status | None = None, **spec: Any) -> None:
        self.spec: dict[str, Any] = {"parallelism": 1, "completions": 1, "backoffLimit": 6} | spec
        self.status: Status = status or {}
        self.life, self.now, self.pods = life or Life(), NOW, NO_PODS
        self.statuses: list[Status] = []
        self.meta: dict[str, Any] = {"name": "job", "namespace": "default", "uid": "uid"}

    @property
    def job(self) -> Job:
        seen: Job = decoder(Job)(encode({"metadata": self.meta, "spec": self.spec, "status": self.status}))
        return seen

    def look(self, *, forgetful: bool = False) -> Sync:
        outcome = sync(self.job, None if forgetful else self.pods, self.life, self.now)
        self.pods = outcome.pods
        self.statuses += outcome.statuses
        self.status = outcome.statuses[-1] if outcome.statuses else self.status
        return outcome

    def play(self, *, until: timedelta = timedelta(days=1)) -> Run:
        """Look whenever something is due."""
        end = NOW + until
        due = self.look().due
        while due is not None and due <= end:
            assert due >= self.now
            self.now = max(due, self.now)
            due = self.look().due
        return self

    def told(self) -> list[str]:
        """The conditions in the end, as `Type=Status`."""
        return [f"{c['type']}={c['status']}" for c in self.status.get("conditions", [])]

    def counts(self, *names: str) -> list[tuple[int, ...]]:
        return [tuple(status.get(name, 0) for name in names) for status in self.statuses]


def test_a_job_runs_once_and_is_complete() -> None:
    run = Run(life=Life(lasts=5 * SECOND)).play()
    start, end = render_time(NOW), render_time(NOW + 5 * SECOND)
    announced = {
        "lastProbeTime": end,
        "lastTransitionTime": end,
        "message": "Reached expected number of succeeded pods",
        "reason": "CompletionsReached",
        "status": "True",
    }
    quiet = {"terminating": 0, "uncountedTerminatedPods": {}, "startTime": start}
    criteria, complete = {"type": "SuccessCriteriaMet", **announced}, {"type": "Complete", **announced}
    assert run.statuses == [
        {**quiet, "active": 1, "ready": 1},
        {**quiet, "ready": 0, "succeeded": 1, "conditions": [criteria]},
        {**quiet, "ready": 0, "succeeded": 1, "conditions": [criteria, complete], "completionTime": end},
    ]
    assert run.pods == NO_PODS


def test_pods_are_ready_when_they_have_started() -> None:
    run = Run(life=Life(lasts=5 * SECOND, starting=2 * SECOND)).play()
    assert run.counts("active", "ready")[:2] == [(1, 0), (1, 1)]


def test_a_suspended_job_says_so_and_has_no_start() -> None:
    run = Run(suspend=True).play()
    (status,) = run.statuses
    assert run.told() == ["Suspended=True"]
    assert "startTime" not in status
    assert status["conditions"][0]["reason"] == "JobSuspended"


def test_a_job_that_goes_on_starts_over() -> None:
    run = Run(suspend=True).play()
    run.now += 60 * SECOND
    run.spec["suspend"] = False
    run.look()
    assert run.told() == ["Suspended=False"]
    assert run.status["startTime"] == render_time(NOW + 60 * SECOND)
    assert run.status["active"] == 1


def test_a_job_suspended_on_its_way_loses_its_pods_and_none_counts_as_failed() -> None:
    run = Run(parallelism=2, completions=2, life=Life(lasts=10 * SECOND, leaving=3 * SECOND))
    run.look()
    run.now += 4 * SECOND
    run.spec["suspend"] = True
    run.look()
    assert run.counts("active", "ready", "terminating", "failed")[-1] == (0, 0, 2, 0)
    assert run.told() == ["Suspended=True"]
    assert run.status["startTime"] == render_time(NOW), "the start is for Kueue to take back"
    run.now += 3 * SECOND
    run.look()
    assert run.counts("active", "terminating", "failed")[-1] == (0, 0, 0)


def test_what_has_succeeded_before_a_suspension_is_not_done_again() -> None:
    run = Run(completions=2, life=Life(lasts=SECOND))
    run.play(until=SECOND)
    assert run.counts("active", "succeeded")[-1] == (1, 1)
    run.spec["suspend"] = True
    run.look()
    run.spec["suspend"] = False
    run.play()
    assert run.status["succeeded"] == 2
    assert run.told() == ["Suspended=False", "SuccessCriteriaMet=True", "Complete=True"]


def test_pods_come_in_waves_where_fewer_run_than_must_succeed() -> None:
    run = Run(parallelism=2, completions=5, life=Life(lasts=SECOND)).play()
    assert run.counts("active", "succeeded") == [(2, 0), (2, 2), (1, 4), (0, 5), (0, 5)]


def test_an_indexed_job_names_the_indexes_that_are_done() -> None:
    run = Run(parallelism=2, completions=5, completionMode="Indexed", life=Life(lasts=SECOND)).play()
    assert [status.get("completedIndexes", "") for status in run.statuses] == ["", "0,1", "0-3", "0-4", "0-4"]
    assert run.status["succeeded"] == 5


def test_an_index_that_failed_is_tried_again() -> None:
    run = Run(parallelism=3, completions=3, completionMode="Indexed", life=Life(lasts=SECOND, failures=1)).play()
    assert [status.get("completedIndexes", "") for status in run.statuses] == ["", "1,2", "1,2", "0-2", "0-2"]
    assert run.counts("succeeded", "failed")[-1] == (3, 1)


def test_without_completions_one_success_is_enough_and_the_others_end_in_peace() -> None:
    run = Run(parallelism=3, completions=None, life=Life(lasts=SECOND, failures=2)).play()
    assert run.counts("succeeded", "failed")[-1] == (1, 2)
    assert run.told()[-1] == "Complete=True"


def test_after_a_failure_the_next_pod_waits_longer_each_time() -> None:
    run = Run(life=Life(lasts=SECOND, failures=3)).play()
    began = [0, 1 + 10, 1 + 10 + 1 + 20, 1 + 10 + 1 + 20 + 1 + 40]
    assert run.counts("active", "failed")[::2] == [(1, 0), (1, 1), (1, 2), (1, 3), (0, 3)]
    assert run.now == NOW + (began[-1] + 1) * SECOND


def test_a_job_fails_when_more_pods_failed_than_may() -> None:
    run = Run(backoffLimit=1, life=Life(lasts=SECOND, failures=ALL)).play()
    assert run.told() == ["FailureTarget=True", "Failed=True"]
    assert run.status["failed"] == 2
    assert "completionTime" not in run.status
    assert {c["reason"] for c in run.status["conditions"]} == {"BackoffLimitExceeded"}


def test_pods_that_still_run_when_a_job_fails_count_as_failed() -> None:
    run = Run(parallelism=3, completions=3, backoffLimit=0, life=Life(lasts=9 * SECOND, failures=1))
    run.look()
    run.pods = Pods((*run.pods.running[:1], *(_younger(pod) for pod in run.pods.running[1:])), made=3)
    run.play()
    assert run.status["failed"] == 3


def _younger(pod: Any) -> Any:
    return type(pod)(pod.number, pod.began + 5 * SECOND, pod.fails, pod.index)


def test_a_job_fails_when_its_time_is_over() -> None:
    run = Run(activeDeadlineSeconds=3, life=Life(lasts=60 * SECOND)).play()
    assert run.now == NOW + 3 * SECOND
    assert run.counts("active", "failed")[-1] == (0, 1)
    assert {c["message"] for c in run.status["conditions"]} == {"Job was active longer than specified deadline"}


def test_a_suspended_job_has_no_deadline() -> None:
    run = Run(activeDeadlineSeconds=3, life=Life(lasts=60 * SECOND))
    run.look()
    run.spec["suspend"] = True
    run.now += 10 * SECOND
    run.play()
    assert run.told() == ["Suspended=True"]


def test_the_end_waits_for_pods_that_take_their_time() -> None:
    run = Run(activeDeadlineSeconds=3, life=Life(lasts=60 * SECOND, leaving=5 * SECOND)).play()
    assert run.counts("terminating") == [(0,), (1,), (0,), (0,)]
    assert run.now == NOW + 8 * SECOND
    assert run.told() == ["FailureTarget=True", "Failed=True"]


def test_a_job_that_should_be_smaller_sends_its_youngest_pods_away() -> None:
    run = Run(parallelism=3, completions=6, life=Life(lasts=10 * SECOND))
    run.look()
    run.spec["parallelism"] = 1
    run.look()
    assert [pod.number for pod in run.pods.running] == [0]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"managedBy": "example.com/other"}, id="of another controller"),
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, id="of a MultiKueue manager"),
    ],
)
def test_a_job_of_others_is_left_alone(spec: dict[str, Any]) -> None:
    assert Run(**spec).look() == Sync()


def test_a_job_that_names_the_controller_we_stand_for_is_run() -> None:
    assert Run(managedBy="kubernetes.io/job-controller").play().told()[-1] == "Complete=True"


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    run = Run()
    run.meta["deletionTimestamp"] = render_time(NOW)
    assert run.look() == Sync()


def test_a_finished_job_is_left_alone() -> None:
    run = Run().play()
    assert run.look() == Sync()


def test_who_forgot_the_pods_goes_on_with_what_the_status_tells() -> None:
    run = Run(parallelism=2, completions=4, completionMode="Indexed", life=Life(lasts=4 * SECOND))
    run.play(until=4 * SECOND)
    run.now = NOW + 6 * SECOND
    assert run.counts("active", "succeeded")[-1] == (2, 2)
    outcome = run.look(forgetful=True)
    assert [(pod.index, pod.began) for pod in outcome.pods.running] == [(n, NOW + 4 * SECOND) for n in (2, 3)]
    assert outcome.due == NOW + 8 * SECOND


def test_an_end_that_was_announced_is_brought_to_its_end_by_the_next_one() -> None:
    run = Run(life=Life(lasts=SECOND)).play()
    run.status = run.statuses[-2]
    assert run.told() == ["SuccessCriteriaMet=True"]
    (status,) = run.look(forgetful=True).statuses
    assert run.told() == ["SuccessCriteriaMet=True", "Complete=True"]
    assert status["succeeded"] == 1


@pytest.mark.parametrize(
    ("ttl", "wait"),
    [
        pytest.param(None, None, id="not without a wish"),
        pytest.param(0, 0, id="at once"),
        pytest.param(60, 60, id="later"),
    ],
)
def test_a_finished_job_vanishes_after_its_time(ttl: int | None, wait: int | None) -> None:
    run = Run(ttlSecondsAfterFinished=ttl, life=Life(lasts=SECOND))
    assert vanishes_at(run.job) is None
    run.play()
    assert vanishes_at(run.job) == (None if wait is None else NOW + (1 + wait) * SECOND)


@given(
    parallelism=st.integers(1, 5),
    completions=st.one_of(st.none(), st.integers(1, 9)),
    indexed=st.booleans(),
    failures=st.integers(0, 9),
    backoff_limit=st.integers(0, 6),
    suspensions=st.lists(st.integers(0, 40), max_size=4),
    leaving=st.integers(0, 3),
    starting=st.integers(0, 2),
)
def test_every_run_comes_to_an_end_that_adds_up(
    parallelism: int,
    completions: int | None,
    indexed: bool,
    failures: int,
    backoff_limit: int,
    suspensions: list[int],
    leaving: int,
    starting: int,
) -> None:
    mode = "Indexed" if indexed and completions is not None else "NonIndexed"
    life = Life(lasts=3 * SECOND, failures=failures, leaving=leaving * SECOND, starting=starting * SECOND)
    run = Run(
        parallelism=parallelism, completions=completions, completionMode=mode, backoffLimit=backoff_limit, life=life
    )
    for span in suspensions:
        run.play(until=run.now - NOW + span * SECOND)
        run.spec["suspend"] = not run.spec.get("suspend", False)
    run.spec["suspend"] = False
    run.play()
    assert run.told()[-1] in ("Complete=True", "Failed=True")
    assert run.counts("active", "ready", "terminating")[-1] == (0, 0, 0)
    for status in run.statuses:
        assert status["ready"] <= status.get("active", 0) <= parallelism
    for before, after in zip(run.statuses, run.statuses[1:], strict=False):
        assert before != after
        assert all(before.get(name, 0) <= after.get(name, 0) for name in ("succeeded", "failed"))
    if run.told()[-1] == "Complete=True":
        assert run.status["succeeded"] >= (1 if completions is None else completions)
        assert run.status.get("failed", 0) <= backoff_limit
    assert status_of(run.job) == run.status
