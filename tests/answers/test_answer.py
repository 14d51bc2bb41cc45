"""Two answers about one job: that of whoever asks, and the manager's."""

from __future__ import annotations

import pytest

from multikueue.answers.answer import JobAnswer, StateName, better_seen
from multikueue.answers.codes import Code
from multikueue.answers.obstacle import Obstacle
from multikueue.answers.past import PastEvent


def told(state: StateName, code: Code | None = None, summary: str = "", **facts: object) -> JobAnswer:
    obstacles = (Obstacle(code=code.name, text="it is so"),) if code else ()
    return JobAnswer(job="job/a", state=state, summary=summary, obstacles=obstacles, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mine", "managers", "is_mine"),
    [
        pytest.param(Code.WaitsForQuota, Code.QuotaTaken, False, id="the quota is hidden from whoever asks"),
        pytest.param(Code.NoWorkerCanHold, Code.QuotaTaken, True, id="a worker that the manager has not asked"),
        pytest.param(Code.WorkerAway, Code.WorkerAway, False, id="the manager knows its own settings"),
        pytest.param(Code.NextInLine, Code.NotAskedYet, False, id="whoever asks has found nothing"),
        pytest.param(Code.NoManager, Code.BehindHead, False, id="who answers is a manager that runs"),
        pytest.param(Code.QuotaTaken, Code.MoreThanQueueHas, False, id="what can never be goes first"),
    ],
)
def test_the_heavier_obstacle_is_told(mine: Code, managers: Code, is_mine: bool) -> None:
    found = better_seen(told("Pending", mine, "mine"), told("Pending", managers, "the manager's"))
    assert found.summary == ("mine" if is_mine else "the manager's")


@pytest.mark.parametrize("state", ["Starting", "Running", "Finished", "Failed"])
def test_whoever_asks_sees_the_pods(state: StateName) -> None:
    mine = told(state, Code.PodsStarting)
    assert better_seen(mine, told(state, Code.WorkerAway)) is mine


def test_an_answer_about_another_state_is_older_or_younger() -> None:
    mine = told("Pending", Code.WaitsForQuota)
    assert better_seen(mine, told("Held", Code.Held)) is mine


def test_what_happened_before_has_the_names_that_whoever_asks_may_see() -> None:
    mine = told("Pending", Code.QuotaTaken, past=(PastEvent(text="preempted by job/b"),))
    managers = told("Pending", Code.QuotaTaken, past=(PastEvent(text="preempted by a workload that you may not see"),))
    assert [event.text for event in better_seen(mine, managers).past] == ["preempted by job/b"]
