"""A workload whose pods are late: evicted, queued again, given up (quota-engine 4.4, 5.2; quota-scenarios 9.13)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from multikueue.api.kueue.workload import PODS_READY, EvictionCount, SchedulingStats, Workload, WorkloadStatus
from multikueue.api.meta import find_condition
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import RequeueBackoff, WaitForPodsReady
from multikueue.workload.life.rules import Step
from tests.builders import WorkloadBuilder, cluster_queue, local_queue, workload
from tests.quota.builders import SECOND, after, facts_of, step

PATIENCE = WaitForPodsReady(timeout=300 * SECOND, recovery_timeout=3 * SECOND)
MESSAGE = "Exceeded the PodsReady timeout default/wl"


def facts(
    now: datetime, *, ready_pods: int | None = 0, wait_for_pods_ready: WaitForPodsReady | None = PATIENCE, **known: Any
) -> Case:
    return facts_of(
        now,
        cluster_queue=cluster_queue("cq").build(),
        local_queue=local_queue("lq").build(),
        is_cluster_queue_active=True,
        ready_pods=ready_pods,
        wait_for_pods_ready=wait_for_pods_ready,
        **{"requeue": RequeueBackoff(first=60 * SECOND, cap=60 * SECOND), "may_run": True, **known},
    )


def running(*, pods: int = 2) -> WorkloadBuilder:
    return workload("wl").queue("lq").count(pods).admitted(at=after(0))


def taken(value: Workload, known: Case) -> Step:
    """The step, which repeated changes nothing."""
    found = step(value, known)
    assert step(shown(value, found), known).status is found.status
    return found


def shown(value: Workload, found: Step) -> Workload:
    return msgspec.structs.replace(value, status=found.status)


def told(status: WorkloadStatus, type_: str) -> tuple[str, str] | None:
    condition = find_condition(status.conditions, type_)
    return (condition.status, condition.reason) if condition else None


def test_pods_that_are_ready_are_told_of() -> None:
    found = taken(running().build(), facts(after(10), ready_pods=2))
    assert told(found.status, PODS_READY) == ("True", "Started")
    assert found.again_after is None


def test_pods_that_are_not_are_looked_at_again_at_the_deadline() -> None:
    found = taken(running().build(), facts(after(10), ready_pods=1))
    assert told(found.status, PODS_READY) == ("False", "WaitForStart")
    assert found.again_after == 290 * SECOND


def test_of_one_admitted_in_part_that_part_has_to_be_ready() -> None:
    value = running(pods=4).build()
    admission = value.status.admission
    assert admission
    part = tuple(msgspec.structs.replace(each, count=2) for each in admission.pod_set_assignments)
    smaller = msgspec.structs.replace(
        value.status, admission=msgspec.structs.replace(admission, pod_set_assignments=part)
    )
    found = taken(msgspec.structs.replace(value, status=smaller), facts(after(10), ready_pods=2))
    assert told(found.status, PODS_READY) == ("True", "Started")


def test_nothing_is_said_where_nobody_looks_at_pods() -> None:
    value = running().build()
    assert step(value, facts(after(999), wait_for_pods_ready=None)).status is value.status
    assert told(step(value, facts(after(10), ready_pods=None)).status, PODS_READY) is None


def test_one_that_nobody_has_judged_yet_costs_no_write() -> None:
    value = workload("wl").queue("lq").build()
    assert step(value, facts(after(1))).status is value.status


def test_qe_333_who_is_late_is_evicted_and_waits() -> None:
    found = taken(running().build(), facts(after(300)))
    evicted = find_condition(found.status.conditions, "Evicted")
    assert evicted
    assert (evicted.status, evicted.reason, evicted.message) == ("True", "PodsReadyTimeout", MESSAGE)
    assert found.status.scheduling_stats == SchedulingStats(
        evictions=(EvictionCount(reason="PodsReadyTimeout", underlying_cause="WaitForStart", count=1),)
    )
    state = found.status.requeue_state
    assert state
    assert (state.count, state.requeue_at) == (1, after(360))
    assert [(event.type, event.reason, event.message) for event in found.events] == [
        ("Normal", "EvictedDueToPodsReadyTimeout", MESSAGE)
    ]


def test_qe_334_it_queues_again_when_its_wait_is_over() -> None:
    value = running().build()
    value = shown(value, taken(value, facts(after(300))))
    value = shown(value, taken(value, facts(after(310), may_run=False)))
    assert told(value.status, "QuotaReserved") == ("False", "Pending")
    assert told(value.status, "Requeued") == ("False", "PodsReadyTimeout")
    assert told(value.status, PODS_READY) == ("False", "WaitForStart")
    found = taken(value, facts(after(360), may_run=False))
    assert told(found.status, "Requeued") == ("True", "BackoffFinished")
    state = found.status.requeue_state
    assert state
    assert (state.count, state.requeue_at) == (1, None)


def test_qe_333_who_lost_a_pod_has_the_time_to_recover() -> None:
    value = running().condition(PODS_READY, reason="Started", at=after(20)).build()
    value = shown(value, taken(value, facts(after(900), ready_pods=1)))
    assert told(value.status, PODS_READY) == ("False", "WaitForRecovery")
    assert told(value.status, "Evicted") is None
    found = taken(value, facts(after(903), ready_pods=1))
    assert told(found.status, "Evicted") == ("True", "PodsReadyTimeout")
    assert found.status.scheduling_stats
    assert found.status.scheduling_stats.evictions[0].underlying_cause == "WaitForRecovery"


def test_qe_333_who_was_late_too_often_is_deactivated() -> None:
    wait_for_pods_ready = WaitForPodsReady(timeout=300 * SECOND, limit=0)
    found = step(running().build(), facts(after(300), wait_for_pods_ready=wait_for_pods_ready))
    assert found.should_deactivate
    assert told(found.status, "DeactivationTarget") == ("True", "RequeuingLimitExceeded")
    assert (told(found.status, "Evicted"), found.events) == (None, ())

    off = running().inactive().build()
    found = taken(shown(off, found), facts(after(301), wait_for_pods_ready=wait_for_pods_ready))
    evicted = find_condition(found.status.conditions, "Evicted")
    assert evicted
    assert evicted.reason == "DeactivatedDueToRequeuingLimitExceeded"
    assert evicted.message == "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    assert found.status.requeue_state is None


def test_who_is_ready_just_in_time_stays() -> None:
    found = taken(running().build(), facts(after(300), ready_pods=2))
    assert told(found.status, "Evicted") is None


def test_the_earlier_of_two_deadlines_counts() -> None:
    builder = running().max_execution_time(100 * SECOND)
    assert taken(builder.build(), facts(after(10))).again_after == 90 * SECOND


def test_pods_of_a_finished_workload_are_what_they_were() -> None:
    value = running().condition(PODS_READY, reason="Started", at=after(20)).finished().build()
    assert step(value, facts(after(999))).status is value.status
