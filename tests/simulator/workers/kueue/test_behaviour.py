from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from multikueue.api.kueue.workload import EvictionCount, SchedulingStats, Workload
from multikueue_simulator.workers.kueue.behaviour import (
    PROMPT,
    Behaviour,
    CheckAnswer,
    Scripted,
    always,
    drawn,
    held_until,
    scripted,
)
from tests.builders import NOW, workload

SECOND = timedelta(seconds=1)
CONTROLLER = "example.com/check"
CONTROLLERS = {"check": CONTROLLER}
PENDING = workload("w").created(NOW)
RESERVED = workload("w").reserved(at=NOW).check("check", at=NOW)
ADMITTED = workload("w").reserved(at=NOW).admitted(at=NOW)


def says(answer: CheckAnswer) -> Behaviour:
    return Behaviour(checks={CONTROLLER: lambda _workload, _check: answer})


def at(seconds: float) -> datetime:
    return NOW + seconds * SECOND


def test_nothing_happens_by_itself() -> None:
    for seen in (PENDING, RESERVED, ADMITTED):
        built = seen.build()
        assert scripted(built, PROMPT, CONTROLLERS, at(1000)) == Scripted(built.status)
        assert held_until(built, PROMPT) is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(PENDING, at(5), id="from its creation"),
        pytest.param(PENDING.condition("Requeued", "True", at=at(60)), at(65), id="from its last requeueing"),
        pytest.param(RESERVED, None, id="not once it has quota"),
        pytest.param(PENDING.finished(), None, id="not once it is finished"),
    ],
)
def test_a_workload_is_looked_at_after_its_delay(seen: object, expected: datetime | None) -> None:
    built: Workload = seen.build()  # type: ignore[attr-defined]
    assert held_until(built, Behaviour(admission_delay=always(5 * SECOND))) == expected


def test_what_is_drawn_is_the_same_each_time_and_another_for_each_attempt() -> None:
    delay = drawn(7, shortest=SECOND, longest=9 * SECOND)
    first = PENDING.build()
    stats = SchedulingStats(evictions=(EvictionCount(reason="Preempted", underlying_cause="", count=1),))
    again = msgspec.structs.replace(first, status=msgspec.structs.replace(first.status, scheduling_stats=stats))
    assert delay(first) == delay(PENDING.build()) != delay(again)
    assert drawn(8, shortest=SECOND, longest=9 * SECOND)(first) != delay(first)
    assert SECOND <= delay(first) <= 9 * SECOND


def test_a_check_is_answered_after_its_time() -> None:
    behaviour = says(CheckAnswer(after=5 * SECOND, state="Retry", message="no", requeue_after_seconds=7))
    built = RESERVED.build()
    assert scripted(built, behaviour, CONTROLLERS, at(4)) == Scripted(built.status, at(5))
    outcome = scripted(built, behaviour, CONTROLLERS, at(5.5))
    (check,) = outcome.status.admission_checks
    assert (check.state, check.message, check.requeue_after_seconds) == ("Retry", "no", 7)
    assert check.last_transition_time == at(5)


@pytest.mark.parametrize(
    ("seen", "controllers"),
    [
        pytest.param(RESERVED, {"check": "example.com/other"}, id="of a controller that somebody else plays"),
        pytest.param(RESERVED, {}, id="that does not exist"),
        pytest.param(workload("w").reserved().check("check", "Rejected"), CONTROLLERS, id="that is answered already"),
        pytest.param(workload("w").check("check"), CONTROLLERS, id="of a workload without quota"),
        pytest.param(RESERVED.evicted(), CONTROLLERS, id="of an evicted workload"),
    ],
)
def test_a_check_is_not_answered(seen: object, controllers: dict[str, str]) -> None:
    built: Workload = seen.build()  # type: ignore[attr-defined]
    assert scripted(built, says(CheckAnswer()), controllers, at(0)) == Scripted(built.status)


def test_an_admitted_workload_is_evicted_after_its_time() -> None:
    behaviour = Behaviour(preempted_after=lambda _workload: 5 * SECOND)
    built = ADMITTED.build()
    assert scripted(built, behaviour, {}, at(1)) == Scripted(built.status, at(5))
    evicted = msgspec.structs.replace(built, status=scripted(built, behaviour, {}, at(5)).status)
    assert evicted.has("Evicted")
    assert evicted.has("Preempted")
    assert evicted.has("QuotaReserved"), "its quota goes back when nothing of it runs any more"
    condition = evicted.condition("Evicted")
    assert condition is not None
    assert condition.reason == "Preempted"
    assert scripted(evicted, behaviour, {}, at(9)) == Scripted(evicted.status)


def test_one_that_is_not_admitted_is_not() -> None:
    behaviour = Behaviour(preempted_after=lambda _workload: SECOND)
    built = RESERVED.build()
    assert scripted(built, behaviour, {}, at(9)) == Scripted(built.status)
