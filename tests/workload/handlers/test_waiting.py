"""No copy is made yet, or never: without quota, and of what cannot be dispatched."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.kueue.workload import UNDISPATCHABLE_ANNOTATION
from tests.builders import NOW, workload
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


def test_an_undispatchable_workload_is_rejected() -> None:
    decision = decided(reserved(), *BOTH, problem="No multikueue adapter found")
    assert check_of(decision.status) == ("Rejected", 'No multikueue adapter found, Previously: "Pending"')


def test_an_undispatchable_workload_is_rejected_before_it_has_quota() -> None:
    decision = decided(pending().check(), *BOTH, problem="No multikueue adapter found")
    assert check_of(decision.status)[0] == "Rejected"


def test_one_whose_job_may_still_come_is_not_rejected_before_it_has_quota() -> None:
    local = workload("wl").queue("main").request(cpu=1).check()
    assert check_of(decided(local, *BOTH, problem="No multikueue adapter found").status)[0] == "Pending"


def test_one_that_explains_itself_already_is_not_rejected_before_it_has_quota() -> None:
    local = pending().check().annotations({UNDISPATCHABLE_ANNOTATION: "recreate the job"})
    assert check_of(decided(local, *BOTH, problem="not managed").status)[0] == "Pending"
