"""The nomination alone, beside Kueue's own MultiKueue: nothing else is decided, whatever is seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.workload import NOMINATED, WorkloadStatus
from multikueue.dispatch.remote import Reach, Remote
from multikueue.strategy import Fleet, Nomination, Workload
from multikueue.workload.decide import nominate
from multikueue.workload.handlers.outcome import Outcome
from multikueue.workload.strategy_call import LoadedStrategy
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    BOTH,
    EVERYWHERE,
    away,
    case_of,
    pending,
    reserved,
    unusable,
    with_nomination,
    won,
    worker,
)


def nominated(local: WorkloadBuilder | None, *remotes: Remote, by: Any = None) -> Outcome:
    strategy = LoadedStrategy("mine", by) if by else EVERYWHERE
    return nominate(with_nomination(case_of(local, *remotes), by=strategy))


class Says:
    def __init__(self, answer: Nomination) -> None:
        self.answer = answer

    def nominate(self, _workload: Workload, _fleet: Fleet) -> Nomination:
        return self.answer


def test_who_is_nominated_is_all_that_changes() -> None:
    local = reserved()
    decision = nominated(local, *BOTH)
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == ("w1", "w2")
    assert but_for_names(decision) == local.build().status
    assert decision.desired == ()


def but_for_names(decision: Outcome) -> WorkloadStatus:
    assert decision.status is not None
    return msgspec.structs.replace(decision.status, nominated_cluster_names=())


def test_why_goes_into_a_condition_of_our_own_and_leaves_with_the_nomination() -> None:
    by = Says(Nomination(("w1",), timedelta(minutes=5), "Round 1"))
    first = nominated(reserved(), *BOTH, by=by)
    assert first.status is not None
    assert [(c.type, c.message) for c in first.status.conditions if c.type == NOMINATED] == [(NOMINATED, "Round 1")]
    assert first.again_after == timedelta(minutes=5)
    local = reserved().nominated("w1").condition(NOMINATED, reason="Mine", message="Round 1")
    quiet = nominated(local, *BOTH, by=Says(Nomination(("w1",))))
    assert quiet.status is not None
    assert NOMINATED not in [c.type for c in quiet.status.conditions]


@pytest.mark.parametrize(
    ("local", "remotes"),
    [
        pytest.param(pending(), BOTH, id="without quota"),
        pytest.param(reserved().check("mk", "Ready"), BOTH, id="Ready"),
        pytest.param(reserved().check("mk", "Retry"), BOTH, id="Retry"),
        pytest.param(reserved().check("mk", "Rejected"), BOTH, id="Rejected"),
        pytest.param(reserved().check("other"), BOTH, id="another check is not ready"),
        pytest.param(reserved().evicted(), BOTH, id="evicted"),
        pytest.param(reserved().finished(), BOTH, id="finished"),
        pytest.param(won("w1"), BOTH, id="won"),
        pytest.param(reserved().cluster_name("w1"), BOTH, id="recorded, and the check is still Pending"),
        pytest.param(won("w1"), (away(worker("w1"), reach=Reach.ISOLATED),), id="won, and the winner is away"),
        pytest.param(None, (), id="gone"),
    ],
)
def test_everything_else_is_kueues(local: WorkloadBuilder | None, remotes: tuple[Remote, ...]) -> None:
    decision = nominated(local, *remotes)
    assert decision.status == (local.build().status if local else None)
    assert decision.desired == ()
    assert decision.events == ()


def test_a_worker_that_cannot_run_it_gets_no_nomination_for_kueue_makes_the_copies() -> None:
    fleet = unusable("w1", "cordoned"), unusable("w2", "")
    by = LoadedStrategy("mine", Says(Nomination(("w1", "w2"))))
    decision = nominate(with_nomination(case_of(reserved(), *BOTH, fleet=fleet), by=by))
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == ("w2",)


def test_quota_cannot_be_given_back_here() -> None:
    local = reserved().nominated("w1")
    decision = nominated(local, *BOTH, by=Says(Nomination(give_back=True)))
    assert decision.status == local.build().status


def test_deciding_again_changes_nothing() -> None:
    local = reserved().nominated("w1", "w2")
    assert nominated(local, *BOTH).status == local.build().status
