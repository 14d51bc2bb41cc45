"""No copy is made yet, or never: without quota, and of what cannot be dispatched."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api.kueue.workload import UNDISPATCHABLE_ANNOTATION
from multikueue.workload.phases import Phase
from tests.builders import NOW, workload
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import BOTH, LATE, away, but, check_of, decided, pending, reserved, worker


def test_without_quota_nothing_stays_recorded() -> None:
    status = decided(pending().check().cluster_name("w1")).status
    assert status is not None
    assert (status.cluster_name, status.nominated_cluster_names) == (None, ())


def test_without_quota_the_nomination_of_a_worker_not_yet_seen_stays() -> None:
    unseen = away(but(worker("w2"), is_known=False))
    local = pending().nominated("w1", "w2").check()
    decision = decided(local, worker("w1"), unseen)
    assert decision.status is not None
    assert (decision.status.nominated_cluster_names, decision.again_after) == (("w2",), timedelta(minutes=15))
    for gone, now in ((unseen, LATE), (away(worker("w2")), NOW)):
        status = decided(local, worker("w1"), gone, now=now).status
        assert status is not None
        assert status.nominated_cluster_names == ()


NO_ADAPTER = "No multikueue adapter found"


@pytest.mark.parametrize("local", [pending().check(), reserved()], ids=["before it has quota", "with quota"])
def test_an_undispatchable_workload_is_rejected(local: WorkloadBuilder) -> None:
    decision = decided(local, *BOTH, problem=NO_ADAPTER)
    assert check_of(decision.status) == ("Rejected", f'{NO_ADAPTER}, Previously: "Pending"')


@pytest.mark.parametrize(
    ("phase", "local"),
    [(Phase.UNRESERVED, pending().check("mk", "Rejected")), (Phase.EVICTED, reserved().evicted())],
    ids=["it is rejected already", "it is to give its quota back first"],
)
def test_an_undispatchable_workload_is_rejected_once_and_in_its_turn(phase: Phase, local: WorkloadBuilder) -> None:
    decision = decided(local, *BOTH, problem=NO_ADAPTER)
    assert (decision.phase, decision.events) == (phase, ())


def test_one_whose_job_may_still_come_is_not_rejected_before_it_has_quota() -> None:
    local = workload("wl").queue("main").request(cpu=1).check()
    assert check_of(decided(local, *BOTH, problem=NO_ADAPTER).status)[0] == "Pending"


def test_one_that_explains_itself_already_is_not_rejected_before_it_has_quota() -> None:
    local = pending().check().annotations({UNDISPATCHABLE_ANNOTATION: "recreate the job"})
    assert check_of(decided(local, *BOTH, problem="not managed").status)[0] == "Pending"
