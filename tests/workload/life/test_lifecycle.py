"""What comes next for a workload: several rules, one status (quota-scenarios 9.13, contract 3.11)."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.compatibility import NEWEST
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    Finish,
    ReclaimablePod,
)
from multikueue.api.meta import find_condition
from multikueue.quota.workload.outcome import Reasons, Verdict
from multikueue.workload.case import Case
from multikueue.workload.life.rules import Step
from tests.builders import NOW, WorkloadBuilder
from tests.builders import workload as new_workload
from tests.quota.builders import SECOND, after, knowing, step
from tests.workload.builders import copy, remote_job, worker
from tests.workload.life.steps import ADMISSION, LOCAL, VERDICT, events, facts, shown, taken, told, workload

# --- the end ---------------------------------------------------------------------------------------------------------


def test_nothing_happens_to_a_finished_workload() -> None:
    finished = workload().admitted().finished().check("mk", "Rejected").build()
    found = step(finished, facts(finished=Finish(reason="Failed", message=""), queue=None, required_checks=("x",)))

    assert found == Step(finished.status)
    assert found.status is finished.status


def test_a_finished_job_finishes_its_workload_and_nothing_else_happens() -> None:
    found = taken(
        workload().admitted().check("mk", "Retry"), facts(finished=Finish(reason="Succeeded", message="all done"))
    )

    assert told(found, "Finished") == ("True", "Succeeded", "all done")
    assert told(found, "Evicted") is None


def test_a_job_that_finished_while_its_workload_was_switched_off_counts() -> None:
    found = taken(workload().admitted().inactive(), facts(finished=Finish(reason="Failed", message="boom")))

    assert told(found, "Finished") == ("True", "Failed", "boom")
    assert told(found, "Evicted") is None


LET_GO = facts(is_let_go=True)
OLDER = replace(NEWEST, has_orphan_ends=False)
STARTED_THERE = worker("w1", copy().admitted(), remote_job())

ORPHANS = {
    "whose job has let it go": (LET_GO, "OwnerNotFound"),
    "whose job has let it go, of an older Kueue": (knowing(LET_GO, compatibility=OLDER), None),
    "whose job has let it go, and that may run here": (knowing(LET_GO, may_run=True), None),
    "whose job has let it go, and that runs there": (knowing(LET_GO, remotes=(STARTED_THERE,)), None),
    "whose job is there": (facts(), None),
    "whose job cannot be started with what it got": (
        facts(failed_start=lambda _: Finish(reason="FailedToStart", message="no")),
        "FailedToStart",
    ),
}


@pytest.mark.parametrize(("known", "reason"), ORPHANS.values(), ids=ORPHANS)
def test_a_workload_ends_by_itself(known: Case, reason: str | None) -> None:
    found = told(taken(workload().admitted(), known), "Finished")

    assert (found[1] if found else None) == reason


def test_an_evicted_workload_keeps_its_quota_while_its_job_is_on_a_worker() -> None:
    evicted = workload().admitted().evicted("Preempted").build()

    assert step(evicted, facts(remotes=(STARTED_THERE,))).status.admission is not None
    assert step(evicted, facts()).status.admission is None


def test_a_slice_makes_way_for_the_one_after_it() -> None:
    found = taken(workload().admitted(), facts(successor=new_workload("next").uid("u").build()))

    assert (told(found, "Finished") or ())[:2] == ("True", "WorkloadSliceReplaced")
    assert events(found) == ["WorkloadSliceReplaced"]


def test_one_whose_time_of_creation_is_unknown_is_not_waited_for() -> None:
    odd = workload().build()
    odd = replace(odd, metadata=replace(odd.metadata, creation_timestamp=None))

    found = step(odd, facts(required_checks=("mk",), reservation=ADMISSION))
    assert [check.name for check in found.status.admission_checks] == ["mk"]
    assert found.events[0].message.endswith(" 0s")
    assert step(odd, facts(required_checks=("mk",))).again_after is None


# --- reserving and admitting -----------------------------------------------------------------------------------------


def test_a_reservation_and_its_checks_are_one_write() -> None:
    found = taken(workload(), facts(reservation=ADMISSION, required_checks=("mk",)))

    assert told(found, "QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert found.status.admission == ADMISSION
    assert [check.name for check in found.status.admission_checks] == ["mk"]
    assert told(found, "Admitted") is None
    assert all(condition.observed_generation == 7 for condition in found.status.conditions)
    assert found.events == (
        Event("Normal", "QuotaReserved", "Quota reserved in ClusterQueue cq, wait time since queued was 100s"),
    )


def test_without_checks_it_is_admitted_in_the_same_write() -> None:
    found = taken(workload(), facts(reservation=ADMISSION))

    assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert events(found) == ["QuotaReserved", "Admitted"]


def test_the_wait_is_counted_from_the_last_requeueing() -> None:
    found = taken(workload().condition("Requeued", reason="Preempted", at=after(90)), facts(reservation=ADMISSION))

    assert found.events[0].message.endswith("was 10s")


def test_a_reservation_is_not_applied_twice() -> None:
    reserved = workload().reserved().check("mk")
    found = taken(reserved, facts(reservation=ADMISSION, required_checks=("mk",)))

    assert found.status is not None
    assert found.events == ()


def test_admission_follows_when_the_last_check_is_ready() -> None:
    found = taken(workload().reserved(at=after(60)).check("mk", "Ready"), facts(required_checks=("mk",)))

    assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")
    assert found.events[0].message == "Admitted by ClusterQueue cq, wait time since reservation was 40s"


def test_checks_that_are_no_longer_required_do_not_hold_up() -> None:
    found = taken(workload().reserved().check("old"), facts(required_checks=()))

    assert found.status.admission_checks == ()
    assert told(found, "Admitted") == ("True", "Admitted", "The workload is admitted")


def test_a_verdict_is_written_once_with_what_was_requested_and_the_checks() -> None:
    found = taken(workload(), facts(verdict=VERDICT, required_checks=("mk",)))

    assert told(found, "QuotaReserved") == ("False", "Pending", "no room")
    assert found.status.resource_requests == VERDICT.resource_requests
    assert [check.name for check in found.status.admission_checks] == ["mk"]
    assert found.events == (Event("Warning", "Pending", "no room"),)


def test_a_new_verdict_keeps_the_transition_time() -> None:
    before = workload().unreserved(message="little room", at=after(3))
    found = taken(before, facts(verdict=VERDICT))

    condition = find_condition(found.status.conditions, "QuotaReserved")
    assert condition
    assert condition.last_transition_time == after(3)


def test_a_long_verdict_makes_a_short_event() -> None:
    assert len(taken(workload(), facts(verdict=Verdict("x" * 5000))).events[0].message) == 1024


def test_a_workload_nobody_has_judged_yet_costs_no_write() -> None:
    pending = workload().build()
    found = step(pending, facts(NOW + SECOND, required_checks=("mk",)))

    assert found.status is pending.status
    assert found.again_after == SECOND


def test_a_workload_nobody_judges_lists_its_checks_nonetheless_after_a_while() -> None:
    found = taken(workload(), facts(NOW + 2 * SECOND, required_checks=("mk",)))

    assert [(check.name, check.state) for check in found.status.admission_checks] == [("mk", "Pending")]
    assert found.again_after is None


def test_a_workload_that_was_made_switched_off_lists_its_checks_too() -> None:
    found = taken(workload().inactive(), facts(required_checks=("mk",)))

    assert told(found, "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert [(check.name, check.state) for check in found.status.admission_checks] == [("mk", "Pending")]


INADMISSIBLE = {
    "LocalQueue lq doesn't exist": facts(local=None),
    "LocalQueue lq is inactive": facts(local=LOCAL.stopped()),
    "ClusterQueue cq doesn't exist": facts(queue=None, active=False),
    "ClusterQueue cq is inactive": facts(active=False),
}


@pytest.mark.parametrize(("message", "known"), INADMISSIBLE.items())
def test_qe_330_why_a_pending_workload_cannot_even_wait(message: str, known: Case) -> None:
    assert told(taken(workload(), known), "QuotaReserved") == ("False", "Inadmissible", message)


def test_being_inadmissible_outweighs_a_verdict() -> None:
    found = taken(workload(), facts(local=LOCAL.stopped(), verdict=VERDICT))

    assert told(found, "QuotaReserved") == ("False", "Inadmissible", "LocalQueue lq is inactive")


GATED = workload().annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a,example.com/b"})
GATED_TOLD = ("False", "AdmissionGated", "Admission is gated by: example.com/a,example.com/b")


def test_a_gated_workload_says_who_holds_it_back() -> None:
    found = taken(GATED, facts(verdict=VERDICT))

    assert told(found, "QuotaReserved") == GATED_TOLD
    assert events(found) == ["AdmissionGated"]


def test_a_gated_workload_waits_as_others_where_gates_are_off() -> None:
    found = taken(GATED, facts(verdict=VERDICT, should_check_gates=False))

    assert found == taken(workload(), facts(verdict=VERDICT))


def test_another_gate_that_opens_is_no_news() -> None:
    found = taken(GATED.unreserved(reason="AdmissionGated", message="Admission is gated by: more"), facts())

    assert told(found, "QuotaReserved") == GATED_TOLD
    assert events(found) == []


def test_the_last_gate_that_opens_leaves_it_waiting() -> None:
    found = taken(workload().unreserved(reason="AdmissionGated"), facts())

    waits = "AdmissionGatedBy cleared, waiting for quota reservation"
    assert told(found, "QuotaReserved") == ("False", "Pending", waits)
    assert events(found) == ["AdmissionGateCleared"]


def test_a_gate_takes_no_quota_back() -> None:
    assert told(taken(GATED.reserved(), facts()), "QuotaReserved") == told(
        taken(workload().reserved(), facts()), "QuotaReserved"
    )


def test_a_missing_queue_outweighs_a_gate() -> None:
    assert told(taken(GATED, facts(local=None)), "QuotaReserved") == (
        "False",
        "Inadmissible",
        "LocalQueue lq doesn't exist",
    )


# --- time ------------------------------------------------------------------------------------------------------------


def test_qe_336_a_workload_that_runs_too_long_is_switched_off() -> None:
    limited = workload().max_execution_time(timedelta(hours=1)).admitted()
    found = taken(limited, facts(after(3600), may_run=True))

    assert found.should_deactivate
    assert told(found, "DeactivationTarget") == (
        "True",
        "MaximumExecutionTimeExceeded",
        "exceeding the maximum execution time",
    )
    assert found.status.accumulated_past_execution_time_seconds is None
    assert events(found) == ["MaximumExecutionTimeExceeded"]


def test_that_its_time_is_up_is_said_until_nothing_of_it_runs() -> None:
    """Then it is over: otherwise who is switched on again would be switched off at once."""
    limited = workload().max_execution_time(timedelta(hours=1)).admitted()
    found = taken(limited, facts(after(3600), may_run=True))
    inactive = limited.inactive()

    leaving = step(shown(inactive.build(), found.status), facts(after(3601), may_run=True))
    assert told(leaving, "Evicted") == (
        "True",
        "DeactivatedDueToMaximumExecutionTimeExceeded",
        "The workload is deactivated due to exceeding the maximum execution time",
    )
    assert told(leaving, "DeactivationTarget") is not None

    again = step(shown(limited.build(), leaving.status), facts(after(3602), may_run=True))
    assert not again.should_deactivate

    gone = step(shown(inactive.build(), leaving.status), facts(after(3602)))
    assert (told(gone, "QuotaReserved") or "")[0] == "False"
    assert told(gone, "DeactivationTarget") is None


def test_qe_336_time_of_earlier_admissions_counts() -> None:
    limited = workload().max_execution_time(timedelta(hours=1)).admitted()
    before = limited._with_status(accumulated_past_execution_time_seconds=3000)

    assert taken(before, facts(after(599), may_run=True)).again_after == SECOND
    assert taken(before, facts(after(600), may_run=True)).should_deactivate


def test_a_workload_to_be_switched_off_says_so_until_it_is() -> None:
    target = workload().reserved().condition("DeactivationTarget", reason="X", message="y").build()
    found = step(target, facts())

    assert found == Step(target.status, should_deactivate=True)


# Pods that are over.
ADMITTED_WITH_FIVE = workload().count(5).admitted()
SCALED_DOWN = dataclasses.replace(ADMITTED_WITH_FIVE, value=ADMITTED_WITH_FIVE.build()).count(2)

RECLAIM: dict[str, tuple[WorkloadBuilder, dict[str, int] | None, dict[str, int]]] = {
    "are given back": (workload().admitted(), {"main": 1}, {"main": 1}),
    "are never taken again": (workload().count(3).admitted().reclaimable(main=2), {"main": 1}, {"main": 2}),
    "stay while nothing is known": (workload().count(3).admitted().reclaimable(main=2), {}, {"main": 2}),
    "stay where there is no job to ask": (workload().reclaimable(main=2), None, {"main": 2}),
    "are needed again without quota": (workload().reclaimable(main=2), {}, {}),
    "count no more in the end": (workload().admitted().finished(), {"main": 1}, {}),
    "are at most those of the pod set": (workload().count(2).admitted(), {"main": 3}, {"main": 2}),
    "are at most those of each pod set": (workload().admitted(), {"main": 9, "other": 1}, {"main": 1}),
    "are at most those of the pod set, also as known before": (
        workload().count(2).admitted().reclaimable(main=3),
        {},
        {"main": 2},
    ),
    "are fewer once the pod set was scaled down": (SCALED_DOWN.reclaimable(main=3), {"main": 1}, {"main": 1}),
    "are none once the pod set was scaled down to what runs": (SCALED_DOWN.reclaimable(main=3), {}, {}),
    "are at most those of a pod set that was scaled down": (SCALED_DOWN, {"main": 3}, {"main": 2}),
}


@pytest.mark.parametrize(("built", "over", "expected"), RECLAIM.values(), ids=RECLAIM.keys())
def test_pods_that_are_over(built: WorkloadBuilder, over: dict[str, int] | None, expected: dict[str, int]) -> None:
    pods = None if over is None else tuple(ReclaimablePod(name=n, count=c) for n, c in over.items())
    found = taken(built, facts(reclaimable=pods))
    assert {each.name: each.count for each in found.status.reclaimable_pods} == expected


# Members of a group of Pods that are to be replaced.
WAITS = "WaitingForReplacementPods"
NEEDED = ("True", "PodsFailed", "Some Failed pods need replacement")
GONE = "The group waits for Pods that replace failed or missing ones:"
WAITING = workload().admitted().condition(WAITS, reason="Preempted", message="for others")


REPLACE: dict[str, tuple[WorkloadBuilder, Case, tuple[str, str, str] | None]] = {
    "nobody asks where there is no group": (workload().admitted(), facts(), None),
    "nothing is said while all are there": (workload().admitted(), facts(replaceable=0), None),
    "one that is not there is told of": (workload().admitted(), facts(replaceable=1), NEEDED),
    "with why they went": (
        workload().admitted().evicted(message="for others"),
        facts(replaceable=2, may_run=True),
        ("True", "Preempted", "for others"),
    ),
    "which is said as long as it lasts": (WAITING, facts(replaceable=1), ("True", "Preempted", "for others")),
    "until all are there": (WAITING, facts(replaceable=0), ("False", "PodsReady", "No pods need replacement")),
    "also in the end": (
        workload().admitted(),
        facts(replaceable=1, finished=Finish(reason="Succeeded", message="")),
        NEEDED,
    ),
}


@pytest.mark.parametrize(("built", "known", "expected"), REPLACE.values(), ids=REPLACE.keys())
def test_members_that_are_to_be_replaced(
    built: WorkloadBuilder, known: Case, expected: tuple[str, str, str] | None
) -> None:
    assert told(taken(built, known), WAITS) == expected


def test_a_group_without_quota_says_that_it_waits_for_members_and_for_how_many() -> None:
    lost = workload().evicted("ClusterQueueStopped", message="drained").unreserved()
    found = taken(lost, facts(replaceable=2))

    assert told(found, "QuotaReserved") == ("False", "Pending", f"{GONE} 2")
    assert told(found, WAITS) == ("True", "ClusterQueueStopped", "drained")
    granular = facts(replaceable=1, reasons=Reasons(is_granular=True))
    assert told(taken(lost, granular), "QuotaReserved") == ("False", WAITS, f"{GONE} 1")


def test_a_group_whose_members_are_there_again_waits_for_a_cycle() -> None:
    lost, reasons = workload().evicted().unreserved(), Reasons(is_granular=True)
    waits = shown(lost.build(), taken(lost, facts(replaceable=1, reasons=reasons)).status)
    found = step(waits, facts(replaceable=0, reasons=reasons))

    message = "No scheduling cycle has looked at the workload yet"
    assert told(found, "QuotaReserved") == ("False", "PendingEvaluation", message)
    assert told(found, WAITS) == ("False", "PodsReady", "No pods need replacement")
