"""Single steps from status to status (quota-engine 4.1-4.3)."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.kueue.workload import (
    Admission,
    AdmissionCheckState,
    CheckState,
    EvictionCount,
    PodSetAssignment,
    SchedulingStats,
    WorkloadStatus,
    put_condition,
)
from multikueue.api.meta import Condition, find_condition
from multikueue.quota.workload.outcome import Reasons
from multikueue.workload.life.transitions import (
    evict,
    release,
    reserve,
    synchronise_admitted,
    synchronise_checks,
    unreserve,
)
from tests.builders import NOW, WorkloadBuilder, workload
from tests.quota.builders import after

ADMISSION = Admission(cluster_queue="cq")


def status(builder: WorkloadBuilder) -> WorkloadStatus:
    return builder.build().status


def condition(found: WorkloadStatus, type_: str) -> Condition:
    condition = find_condition(found.conditions, type_)
    assert condition
    return condition


def told(found: WorkloadStatus, type_: str) -> tuple[str, str, str]:
    each = condition(found, type_)
    return each.status, each.reason, each.message


# --- reserving -------------------------------------------------------------------------------------------------------


def test_a_reservation_is_written_with_its_checks() -> None:
    before = msgspec.structs.replace(status(workload("a")), resource_requests=())
    found = reserve(before, ADMISSION, ("mk", "other"), generation=3, now=after(1.7))

    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert condition(found, "QuotaReserved").observed_generation == 3
    assert condition(found, "QuotaReserved").last_transition_time == after(1)
    assert found.admission == ADMISSION
    assert [(check.name, check.state) for check in found.admission_checks] == [("mk", "Pending"), ("other", "Pending")]


@pytest.mark.parametrize("now", [after(5), after(5.9), after(3), after(6)])
def test_each_reservation_has_a_later_second_than_whatever_was_before(now: object) -> None:
    before = status(workload("a").reserved().unreserved(at=after(5)))
    found = reserve(before, ADMISSION, (), generation=1, now=now)  # type: ignore[arg-type]

    assert condition(found, "QuotaReserved").last_transition_time == after(6)


def test_past_evictions_are_history_after_a_reservation() -> None:
    before = status(
        workload("a")
        .evicted("Preempted", message="for another")
        .condition("Preempted", reason="InClusterQueue", message="for another")
        .condition("Requeued", reason="Preempted")
    )
    found = reserve(before, ADMISSION, (), generation=1, now=after(9))

    assert told(found, "Evicted") == ("False", "QuotaReserved", "Previously: for another")
    assert told(found, "Preempted") == ("False", "QuotaReserved", "Previously: for another")
    assert told(found, "Requeued") == ("True", "Preempted", "")


def test_history_is_not_rewritten_by_the_next_reservation() -> None:
    before = status(workload("a").condition("Evicted", "False", reason="QuotaReserved", message="Previously: x"))

    assert told(reserve(before, ADMISSION, (), generation=1, now=after(9)), "Evicted")[2] == "Previously: x"


# --- checks and Admitted ---------------------------------------------------------------------------------------------


def test_the_list_of_checks_follows_what_is_required() -> None:
    before = status(workload("a").check("old", "Ready").check("kept", "Ready", message="done"))
    found = synchronise_checks(before, ("kept", "new"), now=after(1))

    assert [(check.name, check.state, check.message) for check in found.admission_checks] == [
        ("kept", "Ready", "done"),
        ("new", "Pending", ""),
    ]
    assert synchronise_checks(found, ("new", "kept"), now=after(2)) is found


CHECKS: dict[str, tuple[CheckState, ...]] = {
    "ready": ("Ready", "Ready"),
    "one pending": ("Ready", "Pending"),
    "none": (),
}


def with_checks(builder: WorkloadBuilder, states: tuple[CheckState, ...]) -> WorkloadBuilder:
    for index, state in enumerate(states):
        builder = builder.check(f"check{index}", state)
    return builder


@pytest.mark.parametrize("reserved", [True, False], ids=["reserved", "not reserved"])
@pytest.mark.parametrize("states", CHECKS.values(), ids=CHECKS)
def test_qe_338_admitted_needs_quota_and_all_checks(reserved: bool, states: tuple[CheckState, ...]) -> None:
    builder = with_checks(workload("a"), states)
    before = status(builder.reserved() if reserved else builder)
    found = synchronise_admitted(before, 2, after(1))

    if reserved and "Pending" not in states:
        assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")
        assert condition(found, "Admitted").observed_generation == 2
    else:
        assert found is before


def test_qe_338_topology_that_is_still_to_come_delays_admission() -> None:
    pods = PodSetAssignment(name="main", count=1, delayed_topology_request="Pending")
    waits = msgspec.structs.replace(
        status(workload("a").reserved()), admission=Admission(cluster_queue="cq", pod_set_assignments=(pods,))
    )

    assert synchronise_admitted(waits, 1, NOW) is waits


def test_an_admitted_workload_stays_so_while_it_has_quota() -> None:
    before = status(workload("a").admitted().check("mk", "Retry"))

    assert synchronise_admitted(before, 1, after(9)) is before


GRANULAR, EXPLICIT = Reasons(is_granular=True), Reasons(is_granular=True, is_explicit=True)
PLACED_LATER = PodSetAssignment(name="main", count=1, delayed_topology_request="Pending")

NOT_ADMITTED = {
    "no quota": (workload("a").unreserved().check("mk", "Pending"), "NoReservation"),
    "a check pending": (workload("a").reserved().check("mk", "Pending"), "UnsatisfiedAdmissionChecks"),
    "no place yet": (
        workload("a")
        .reserved()
        ._with_status(admission=Admission(cluster_queue="cq", pod_set_assignments=(PLACED_LATER,))),
        "PendingDelayedTopologyRequests",
    ),
    "an admission ended": (
        workload("a").admitted().check("mk", "Pending").condition("QuotaReserved", "False"),
        "NoReservation",
    ),
}


@pytest.mark.parametrize(("builder", "reason"), NOT_ADMITTED.values(), ids=NOT_ADMITTED)
def test_granular_reasons_say_why_a_workload_is_not_admitted(builder: WorkloadBuilder, reason: str) -> None:
    found = synchronise_admitted(status(builder), 1, after(1), GRANULAR)

    assert told(found, "Admitted")[:2] == ("False", reason)
    assert synchronise_admitted(found, 1, after(2), GRANULAR) is found


def test_only_explicitly_a_workload_says_so_before_a_cycle_has_looked_at_it() -> None:
    new = status(workload("a"))

    assert synchronise_admitted(new, 1, NOW, GRANULAR) is new
    assert told(synchronise_admitted(new, 1, NOW, EXPLICIT), "Admitted")[:2] == ("False", "NoReservation")


LOST = {
    "all checks ready": (("Ready",), "NoReservation", "The workload has no reservation"),
    "a check pending": (
        ("Pending",),
        "NoReservationUnsatisfiedChecks",
        "The workload has no reservation and not all checks ready",
    ),
}


@pytest.mark.parametrize(("states", "reason", "message"), LOST.values(), ids=LOST)
def test_admission_ends_with_the_reservation_and_its_time_is_added_up(
    states: tuple[CheckState, ...], reason: str, message: str
) -> None:
    lost = with_checks(workload("a").admitted(), states).condition("QuotaReserved", "False", at=after(9))
    before = msgspec.structs.replace(status(lost), accumulated_past_execution_time_seconds=5)
    found = synchronise_admitted(before, 1, after(9.5))

    assert told(found, "Admitted") == ("False", reason, message)
    assert found.accumulated_past_execution_time_seconds == 14
    assert synchronise_admitted(found, 1, after(20)) is found


# --- evicting --------------------------------------------------------------------------------------------------------


def running() -> WorkloadBuilder:
    return workload("a").admitted().check("mk", "Ready").cluster_name("worker-1")


def test_an_eviction_keeps_quota_and_the_winner_until_nothing_runs_any_more() -> None:
    before = status(running())
    found = evict(before, reason="Preempted", message="for another", generation=4, now=after(9))

    assert told(found, "Evicted") == ("True", "Preempted", "for another")
    assert condition(found, "Evicted").observed_generation == 4
    assert found.admission == before.admission
    assert told(found, "QuotaReserved")[0] == told(found, "Admitted")[0] == "True"
    assert found.cluster_name == "worker-1"
    assert release(found, generation=4, now=after(9)).cluster_name is None
    assert found.admission_checks == (
        AdmissionCheckState(
            name="mk",
            state="Pending",
            message="Reset to Pending after eviction. Previously: Ready",
            last_transition_time=after(9),
        ),
    )


def test_an_eviction_ends_nominations() -> None:
    found = evict(status(workload("a").reserved().nominated("w1", "w2")), reason="X", message="", generation=1, now=NOW)

    assert found.nominated_cluster_names == ()


def test_a_retry_is_counted_on_its_check() -> None:
    first = evict(status(workload("a").check("mk", "Retry")), reason="X", message="", generation=1, now=NOW)
    (check,) = first.admission_checks
    assert check.retry_count == 1

    again = msgspec.structs.replace(first, admission_checks=(msgspec.structs.replace(check, state="Retry"),))
    (check,) = evict(again, reason="X", message="", generation=1, now=NOW).admission_checks
    assert check.retry_count == 2


def test_a_delay_that_a_check_asked_for_ends_with_the_eviction() -> None:
    asked = AdmissionCheckState(name="mk", state="Retry", message="", requeue_after_seconds=60)
    before = msgspec.structs.replace(status(workload("a").reserved()), admission_checks=(asked,))

    assert (
        evict(before, reason="X", message="", generation=1, now=NOW).admission_checks[0].requeue_after_seconds is None
    )


def test_evictions_are_counted_by_reason_and_cause() -> None:
    found = status(running())
    for reason, cause in (("Preempted", ""), ("Deactivated", "AdmissionCheck"), ("Preempted", "")):
        found = evict(found, reason=reason, message="", cause=cause, generation=1, now=NOW)

    assert found.scheduling_stats == SchedulingStats(
        evictions=(
            EvictionCount(reason="Preempted", underlying_cause="", count=2),
            EvictionCount(reason="Deactivated", underlying_cause="AdmissionCheck", count=1),
        )
    )
    assert told(found, "Evicted")[1] == "Preempted"


CAUSES = {
    "a deactivation with a cause": ("Deactivated", "AdmissionCheck", "DeactivatedDueToAdmissionCheck"),
    "one without": ("Deactivated", "", "Deactivated"),
    "another eviction with a cause": ("PodsReadyTimeout", "WaitForStart", "PodsReadyTimeout"),
}


@pytest.mark.parametrize(("reason", "cause", "full"), CAUSES.values(), ids=CAUSES)
def test_the_cause_is_part_of_the_reason_of_a_deactivation(reason: str, cause: str, full: str) -> None:
    found = evict(status(running()), reason=reason, message="m", cause=cause, generation=1, now=NOW)

    assert told(found, "Evicted") == ("True", full, "m")


RELEASES = {"Preempted": "True", "NodeFailures": "True", "AdmissionCheck": "False", "ClusterQueueStopped": "False"}


@pytest.mark.parametrize(("reason", "requeued"), RELEASES.items())
def test_the_end_of_an_eviction_gives_quota_back(reason: str, requeued: str) -> None:
    evicted = evict(status(running()), reason=reason, message="why", generation=1, now=after(5))
    found = release(evicted, generation=2, now=after(9))

    assert told(found, "QuotaReserved") == ("False", "Pending", "why")
    assert told(found, "Admitted")[:2] == ("False", "NoReservationUnsatisfiedChecks")
    assert told(found, "Requeued") == (requeued, reason, "why")
    assert told(found, "Evicted")[0] == "True"
    assert found.admission is None
    assert found.accumulated_past_execution_time_seconds == 9


def test_a_workload_that_used_up_its_time_gets_all_of_it_again() -> None:
    evicted = evict(
        status(running()),
        reason="Deactivated",
        message="",
        cause="MaximumExecutionTimeExceeded",
        generation=1,
        now=after(5),
    )

    assert release(evicted, generation=1, now=after(9)).accumulated_past_execution_time_seconds is None


def test_losing_quota_without_eviction_resets_checks_and_leaves_nominations_to_who_dispatches() -> None:
    before = status(workload("a").reserved().check("mk", "Ready").check("b").nominated("w1"))
    found = unreserve(before, reason="Inadmissible", message="stopped", generation=1, now=after(1))

    assert told(found, "QuotaReserved") == ("False", "Inadmissible", "stopped")
    assert [check.state for check in found.admission_checks] == ["Pending", "Pending"]
    assert (found.admission, found.cluster_name, found.nominated_cluster_names) == (None, None, ("w1",))
    assert find_condition(found.conditions, "Admitted") is None


@pytest.mark.parametrize("states", [("Pending", "Pending"), ("Pending", "Ready"), ("Ready",)])
def test_checks_that_are_pending_alone_are_as_they_are_without_quota(states: tuple[CheckState, ...]) -> None:
    builder = workload("a").reserved()
    for number, state in enumerate(states):
        builder = builder.check(f"c{number}", state, message="as said")
    found = unreserve(status(builder), reason="Inadmissible", message="", generation=1, now=after(1))

    as_said = set(states) == {"Pending"}
    assert {check.message == "as said" for check in found.admission_checks} == {as_said}


def test_why_a_workload_was_switched_off_ends_with_its_eviction() -> None:
    """A reactivation would end at once."""
    off = evict(status(running()), reason="Deactivated", message="", cause="AdmissionCheck", generation=1, now=NOW)
    target = put_condition(
        off, "DeactivationTarget", "True", reason="AdmissionCheck", message="", generation=1, now=NOW
    )

    assert find_condition(release(target, generation=1, now=NOW).conditions, "DeactivationTarget") is None


def test_a_condition_that_says_the_same_is_the_same() -> None:
    before = put_condition(WorkloadStatus(), "X", "True", reason="r", message="m", generation=1, now=NOW)

    assert put_condition(before, "X", "True", reason="r", message="m", generation=1, now=after(9)) is before
