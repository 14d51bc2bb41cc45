"""Steps of any workload come to rest, and leave no contradiction."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kueue.queues import StopPolicy
from multikueue.api.kueue.workload import (
    Finish,
)
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import RequeueBackoff
from tests.builders import WorkloadBuilder
from tests.quota.builders import after, knowing, step
from tests.workload.life.steps import ADMISSION, LOCAL, MINUTELY, QUEUE, VERDICT, facts, shown, workload

# --- invariants ------------------------------------------------------------------------------------------------------


@st.composite
def anything(draw: st.DrawFn) -> WorkloadBuilder:
    """A workload in any state that could be met, sensible or not."""
    builder = workload()
    if draw(st.booleans()):
        builder = builder.reserved(at=after(draw(st.integers(0, 99))))
    if draw(st.booleans()):
        builder = builder.admitted(at=after(draw(st.integers(0, 99))))
    for type_ in draw(st.sets(st.sampled_from(["Evicted", "Preempted", "Requeued", "DeactivationTarget"]))):
        reasons = ["Preempted", "AdmissionCheck", "Deactivated", "ClusterQueueStopped", "LocalQueueStopped"]
        builder = builder.condition(
            type_, draw(st.sampled_from(["True", "False"])), reason=draw(st.sampled_from(reasons)), at=after(50)
        )
    for name in draw(st.sets(st.sampled_from(["mk", "x"]))):
        builder = builder.check(name, draw(st.sampled_from(["Pending", "Ready", "Retry", "Rejected"])))
    if draw(st.booleans()):
        builder = builder.requeue_state(draw(st.integers(0, 3)), at=after(draw(st.integers(0, 200))))
    if draw(st.booleans()):
        builder = builder.unreserved(at=after(60))
    if draw(st.booleans()):
        builder = builder.max_execution_time(timedelta(seconds=draw(st.integers(1, 200))))
    return builder.inactive() if draw(st.booleans()) else builder


@st.composite
def any_facts(draw: st.DrawFn) -> Case:
    stops: st.SearchStrategy[StopPolicy] = st.sampled_from(["None", "Hold", "HoldAndDrain"])
    local, queue = LOCAL.stopped(draw(stops)), QUEUE.stopped(draw(stops))
    return facts(
        local=draw(st.sampled_from([local, local, None])),
        queue=draw(st.sampled_from([queue, queue, None])),
        active=draw(st.booleans()),
        may_run=draw(st.booleans()),
        is_run_by_others=draw(st.booleans()),
        reservation=draw(st.sampled_from([None, ADMISSION])),
        verdict=draw(st.sampled_from([None, VERDICT])),
        required_checks=draw(st.sampled_from([(), ("mk",), ("mk", "x")])),
        requeue=draw(st.sampled_from([None, RequeueBackoff(first=timedelta(), cap=timedelta()), MINUTELY])),
        replaceable=draw(st.sampled_from([None, 0, 1])),
        finished=draw(st.sampled_from([None, None, None, Finish(reason="Succeeded", message="")])),
    )


@settings(max_examples=500)
@given(anything(), any_facts())
def test_repeating_a_step_comes_to_rest_at_once_or_in_one_more(builder: WorkloadBuilder, known: Case) -> None:
    value = builder.build()
    given_once = knowing(known, reservation=None)  # a reservation is confirmed once it was written
    for attempt in (known, given_once, given_once):
        found = step(value, attempt)
        value = shown(value, found.status)

    assert step(value, given_once).status is value.status


@settings(max_examples=500)
@given(anything(), any_facts())
def test_no_step_leaves_a_contradiction(builder: WorkloadBuilder, known: Case) -> None:
    before = builder.build()
    found = shown(before, step(before, known).status)

    if found.status != before.status and not found.has("Finished"):
        assert not (found.has("Admitted") and not found.has("QuotaReserved"))
        assert not (found.status.admission and found.status.cluster_name and found.status.nominated_cluster_names)
        if before.has("QuotaReserved") and not found.has("QuotaReserved"):
            assert found.status.admission is None
            assert all(check.state == "Pending" for check in found.status.admission_checks)
    if before.has("QuotaReserved") and before.has("Admitted") and known.job.may_run:
        assert found.has("QuotaReserved")
