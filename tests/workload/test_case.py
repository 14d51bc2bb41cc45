"""A case that follows from another one carries over what was derived, as long as that holds."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.quota.workload.outcome import Verdict
from multikueue.workload.case import Case, Scheduling
from tests.builders import NOW
from tests.workload.builders import (
    admitted_copy,
    away,
    case_of,
    copy,
    pending,
    remote_job,
    reserved,
    won,
    worker,
)

DERIVED = tuple(name for name, value in vars(Case).items() if isinstance(value, cached_property))

CASES = [
    pytest.param(case_of(pending(), worker("w1")), id="it has no quota"),
    pytest.param(case_of(reserved(), worker("w1", copy()), worker("w2")), id="no worker admitted it"),
    pytest.param(
        case_of(reserved().nominated("w1", "w2"), worker("w1", admitted_copy()), worker("w2", admitted_copy())),
        id="two workers admitted it",
    ),
    pytest.param(
        case_of(
            reserved().nominated("w1", "w2"), worker("w1", admitted_copy()), worker("w2", admitted_copy()), choice="w2"
        ),
        id="the second one was chosen",
    ),
    pytest.param(
        case_of(reserved().nominated("w1"), worker("w1", admitted_copy(), remote_job()), worker("w2", asked="another")),
        id="a worker has the job",
    ),
    pytest.param(case_of(won("w1"), away(worker("w1", admitted_copy(), remote_job()))), id="the winner is away"),
    pytest.param(
        case_of(reserved().nominated("w1"), worker("w1", copy(), unfit="odd", never="cpu 4 of 2")), id="it fits nowhere"
    ),
    pytest.param(case_of(None, worker("w1", copy())), id="it is gone"),
]


def _derived(case: Case) -> dict[str, Any]:
    there = {"local": case.workload is not None, "won": case.winner is not None}
    return {name: getattr(case, name) for name in DERIVED if there.get(name, True)}


@pytest.mark.parametrize("case", CASES)
def test_what_is_derived_depends_neither_on_the_time_nor_on_the_scheduler(case: Case) -> None:
    before, later = _derived(case), NOW + timedelta(days=365)
    scheduling = Scheduling(verdict=Verdict("it waits"), is_switched_off=True, required_checks=("another",))

    assert before == _derived(case.scheduled(scheduling, later))
    assert before == _derived(replace(case, scheduling=scheduling, now=later))


@pytest.mark.parametrize("case", CASES)
def test_a_choice_confirms_what_was_derived(case: Case) -> None:
    if case.workload is None:
        return
    after = case.after(case.workload)

    assert after.choice == case.chosen
    assert _derived(case) == _derived(after) == _derived(replace(case, choice=case.chosen))
