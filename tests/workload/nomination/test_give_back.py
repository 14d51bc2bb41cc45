"""How long a workload keeps quota while no worker admits it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import NOMINATED, AdmissionCheckState
from multikueue.dispatch.slices import Slice
from multikueue.strategy import Fleet, Nomination, Workload
from multikueue.testing import NOW
from multikueue.workload.decide import decide, nominate
from multikueue.workload.handlers.nominating import give_back_after_of, give_back_at
from multikueue.workload.strategy_call import LoadedStrategy
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import RESERVED, case_of, copy, pending, reserved, with_nomination, worker

HOUR = timedelta(hours=1)
LATER = NOW + timedelta(minutes=5)


@dataclass(frozen=True)
class Plain:
    give_back_after: timedelta | None = None
    revisit: timedelta | None = None
    fails: bool = False

    def nominate(self, _workload: Workload, fleet: Fleet) -> Nomination:
        if self.fails:
            raise ValueError("no")
        return Nomination(fleet.names, revisit_after=self.revisit)


def untimed(local: WorkloadBuilder, check: str) -> WorkloadBuilder:
    """With another check that tells no time."""
    checks = (*local.value.status.admission_checks, AdmissionCheckState(name=check, state="Ready", message=""))
    return local._with_status(admission_checks=checks)


OWN = {
    "none is set": (Plain(), HOUR, HOUR),
    "its own": (Plain(timedelta(minutes=2)), HOUR, timedelta(minutes=2)),
    "its own, and none for the process": (Plain(timedelta(minutes=2)), None, timedelta(minutes=2)),
    "none at all": (Plain(), None, None),
    "nobody could be asked": (None, HOUR, HOUR),
    "its own of no time at all": (Plain(timedelta()), HOUR, HOUR),
    "an option of that name that is no time": (Plain("soon"), HOUR, HOUR),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("strategy", "default", "wanted"), OWN.values(), ids=OWN.keys())
def test_the_strategys_own_time_goes_first(strategy: Any, default: timedelta | None, wanted: timedelta | None) -> None:
    assert give_back_after_of(strategy, default) == wanted


ENDS: dict[str, tuple[WorkloadBuilder, Plain, Any]] = {
    "since it has quota": (reserved(), Plain(), RESERVED + HOUR),
    "since the newest worker was named": (
        reserved().nominated("w1").condition(NOMINATED, at=NOW - timedelta(seconds=9)),
        Plain(),
        NOW - timedelta(seconds=9) + HOUR,
    ),
    "since the other checks are ready": (
        reserved().check("other", "Ready", at=LATER),
        Plain(),
        LATER + HOUR,
    ),
    "not while the strategy has more to come": (reserved(), Plain(revisit=HOUR), None),
    "since it has quota, whoever fails": (reserved(), Plain(fails=True), RESERVED + HOUR),
}


@pytest.mark.parametrize(("local", "strategy", "wanted"), ENDS.values(), ids=ENDS.keys())
def test_when_it_ends(local: WorkloadBuilder, strategy: Plain, wanted: Any) -> None:
    seen = with_nomination(
        case_of(local, worker("w1", copy()), give_back_after=HOUR, now=NOW + HOUR), by=LoadedStrategy("plain", strategy)
    )
    assert give_back_at(seen) == wanted
    assert give_back_at(replace(seen, give_back_after=None)) is None


@pytest.mark.parametrize("ahead", [timedelta(seconds=1), HOUR, timedelta(days=1)], ids=str)
def test_a_time_that_is_still_to_come_is_not_believed_if_there_is_another(ahead: timedelta) -> None:
    """The clock of who has the other check is ahead of ours."""
    local = reserved().check("other", "Ready", at=NOW + ahead)
    assert give_back_at(case_of(local, worker("w1", copy()), give_back_after=HOUR)) == RESERVED + HOUR


TIMES: dict[str, tuple[WorkloadBuilder, Any]] = {
    "another check said so just now": (reserved().check("other", "Ready", at=NOW), NOW + HOUR),
    "all that is told is still to come": (pending().reserved("cq", at=LATER), LATER + HOUR),
    "another check tells no time": (untimed(reserved(), "other"), RESERVED + HOUR),
    "nothing is told": (untimed(pending(), "other"), None),
}


@pytest.mark.parametrize(("local", "wanted"), TIMES.values(), ids=TIMES)
def test_it_is_counted_from_what_is_told_where(local: WorkloadBuilder, wanted: Any) -> None:
    assert give_back_at(case_of(local, worker("w1", copy()), give_back_after=HOUR)) == wanted


def test_a_slice_stays_where_the_slice_before_it_runs_and_a_workload_that_is_gone_has_no_quota() -> None:
    assert give_back_at(case_of(reserved(), give_back_after=HOUR, slice=Slice(is_elastic=True, stays="w1"))) is None
    assert give_back_at(case_of(None, give_back_after=HOUR)) is None


@pytest.mark.parametrize("strategy", [Plain(), Plain(fails=True)], ids=["named", "failed"])
def test_then_the_quota_goes_back(strategy: Plain) -> None:
    end = RESERVED + HOUR
    before = end - timedelta(seconds=1)
    seen = case_of(reserved().nominated("w1"), worker("w1", copy()), give_back_after=HOUR, now=before)
    waits = decide(with_nomination(seen, by=LoadedStrategy("plain", strategy)))
    assert waits.again_after == timedelta(seconds=1)
    gives_back = decide(with_nomination(replace(seen, now=end), by=LoadedStrategy("plain", strategy)))
    assert gives_back.status is not None
    assert gives_back.status.admission_checks[0].state == "Retry"
    assert (
        gives_back.status.admission_checks[0].message == 'No worker admitted it within 1:00:00, Previously: "Pending"'
    )


def test_where_quota_is_kueue_s_it_stays() -> None:
    late = RESERVED + 2 * HOUR
    seen = case_of(reserved().nominated("w1"), worker("w1", copy()), give_back_after=HOUR, now=late)
    decision = nominate(with_nomination(seen))
    assert (decision.status, decision.events) == (reserved().nominated("w1").build().status, ())
