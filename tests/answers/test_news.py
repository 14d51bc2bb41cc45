"""Which changes become an event of the job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.answers.answer import answer
from multikueue.answers.news import is_lasting, is_news, may_be_news
from multikueue.answers.seen import Seen, typed_name
from multikueue.api.kueue.workload import EVICTED
from multikueue.api.meta import ConditionStatus
from tests.answers.situations import BEYOND, LATER, PREEMPTION, UNUSED, reserved, train, waiting, won
from tests.builders import WorkloadBuilder


def told(before: WorkloadBuilder, after: WorkloadBuilder) -> tuple[bool, bool, str]:
    """Whether it may be news, whether it is, and the sentence."""
    one, two = before.build(), after.build()
    seen = Seen(name=typed_name(two), namespace="team-a", workload=one)
    old, new = answer(seen, LATER), answer(replace(seen, workload=two), LATER)
    return may_be_news(one, two), is_news(old, new), new.summary


LEAVING = won().evicted("Preempted", message=PREEMPTION)
WAS_EVICTED: tuple[str, ConditionStatus] = (EVICTED, "False")
AGAIN = won("w2").condition(*WAS_EVICTED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(train(), reserved("w1"), id="it gets quota"),
        pytest.param(reserved("w1"), won(), id="a worker admits it"),
        pytest.param(won(), won().finished(), id="it ends"),
    ],
)
def test_a_job_that_just_runs_has_no_news(before: WorkloadBuilder, after: WorkloadBuilder) -> None:
    may_be, _, _ = told(before, after)
    assert not may_be


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        pytest.param(
            train(), waiting(BEYOND), "Pending: it asks for 25 cpu, and its ClusterQueue", id="it can never run"
        ),
        pytest.param(won(), LEAVING, "Pending: it is being stopped on w1", id="it is evicted"),
        pytest.param(reserved("w2").condition(*WAS_EVICTED), AGAIN, "Starting on w2", id="it runs again"),
        pytest.param(
            waiting().evicted("PodsReadyTimeout"),
            waiting().inactive().evicted("DeactivatedDueToRequeuingLimitExceeded", message="too many restarts"),
            "Held since 2026-01-01T12:00:00Z: it was given up",
            id="it is given up",
        ),
    ],
)
def test_a_change_that_lasts_is_news(before: WorkloadBuilder, after: WorkloadBuilder, sentence: str) -> None:
    may_be, is_so, summary = told(before, after)
    assert (may_be, is_so) == (True, True)
    assert summary.startswith(sentence)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(train(), waiting(UNUSED), id="it waits for quota"),
        pytest.param(waiting(UNUSED), waiting(f"{UNUSED}, as before"), id="other words about quota"),
        pytest.param(
            waiting(BEYOND), waiting(BEYOND.replace("(25)", "(26)")), id="other words about what can never be"
        ),
        pytest.param(LEAVING, waiting().evicted("Preempted"), id="it has given its quota back"),
    ],
)
def test_what_passes_by_itself_is_none(before: WorkloadBuilder, after: WorkloadBuilder) -> None:
    _, is_so, _ = told(before, after)
    assert not is_so


def test_only_what_lasts_is_a_warning() -> None:
    seen = Seen(name="job/train", namespace="team-a", workload=waiting(BEYOND).build())
    assert is_lasting(answer(seen, LATER))
    assert not is_lasting(answer(replace(seen, workload=won().build()), LATER))
