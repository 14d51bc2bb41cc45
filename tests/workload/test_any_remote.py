"""Whatever a worker says of its copy and its job: the decision is made, can be written, and lets a sound worker win."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import Workload, WorkloadStatus
from multikueue.api.meta import Condition, decoder, encode
from multikueue.dispatch.remote import JobState, Remote, Unfit
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.testing import NOW
from multikueue.workload.case import Case
from multikueue.workload.handlers.evicting import is_holding
from tests.workload.builders import (
    ATTEMPT,
    admitted_copy,
    carried_out,
    case_of,
    copy,
    decided,
    remote_job,
    reserved,
    told,
    with_nomination,
    won,
    worker,
)

ODD_TIMES = (
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2036-01-01T12:00:00Z",
    "2026-01-01T12:00:00Z",
)
ODD_TEXTS = ("", "Inadmissible", "Succeeded", "Deactivated", "x" * 32768, "x" * 1_000_000, "\n\x00\u202e", "é" * 32768)
TYPES = ("QuotaReserved", "Admitted", "Evicted", "Finished", "DeactivationTarget", "")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from((*ODD_TEXTS[:4], *ODD_TIMES, "1e10", "-5Gi", "1" * 50)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ("podSets", "count", "template", "spec", "containers", "resources", "requests", "cpu", "queueName", "active",
         "conditions", "status", "suspend", "priority", "priorityClassRef")
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip

conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(TYPES),
            "status": st.sampled_from(("True", "False", "Unknown")),
            "reason": st.sampled_from(ODD_TEXTS),
            "message": st.sampled_from(ODD_TEXTS),
        },
        optional={"lastTransitionTime": st.sampled_from(ODD_TIMES)},
    ),
    max_size=6,
)
metadata = st.fixed_dictionaries(
    {"name": st.just("wl"), "namespace": st.just("default"), "uid": st.just("uid")},
    optional={
        "creationTimestamp": st.sampled_from(ODD_TIMES),
        "annotations": st.fixed_dictionaries({"multikueue.dev/attempt": st.sampled_from((ATTEMPT, "odd"))}),
    },
)


@st.composite
def copies(draw: st.DrawFn) -> Workload:
    body = {"metadata": draw(metadata), "spec": draw(JSON), "status": {"conditions": draw(conditions)}}
    return decoder(Workload)(encode(body))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    return decoder(Job)(encode({"metadata": draw(metadata), "spec": draw(JSON), "status": draw(JSON)}))


def has_ended(job: Any) -> bool:
    return BATCH_JOB.finished(job) is not None


def is_held(job: Any) -> bool:
    return BATCH_JOB.is_suspended(job) and not has_ended(job)


odd = st.builds(
    Remote,
    cluster=st.just("w1"),
    workload=st.none() | copies(),
    job=st.none() | jobs(),
    job_state=st.just(JobState(is_active=BATCH_JOB.is_active, has_ended=has_ended, is_held=is_held)),
    unfit=st.sampled_from((None, None, Unfit("x" * 1_000_000, NOW))),
)

LOCALS = (reserved(), reserved().nominated("w1"), reserved().nominated("w1", "w2"), won(), won().evicted())


@given(remote=odd, local=st.sampled_from(LOCALS))
def test_the_decision_is_made_and_can_be_written(remote: Remote, local: Any) -> None:
    seen = with_nomination(case_of(local, remote, worker("w2")))
    decision = carried_out(seen)
    is_holding(seen)
    assert decision.status is not None
    assert faults(decision.status, seen) == []
    assert all(len(event.message) <= 40_000 for event in decision.events)


@given(workload=st.none() | copies(), conflict=st.sampled_from(("", "x" * 1_000_000)))
def test_a_sound_worker_that_admits_wins(workload: Workload | None, conflict: str) -> None:
    """Unless the odd one says that it admitted it as well: then that may win."""
    if workload is not None and workload.has("Admitted"):
        return
    remotes = worker("w1", workload, unfit=conflict), worker("w2", admitted_copy())
    assert "CreateJob w2" in told(decided(reserved().nominated("w1", "w2"), *remotes))


def faults(status: WorkloadStatus, seen: Case) -> list[str]:
    """What the API would refuse of what differs from before."""
    assert seen.workload is not None
    found = []
    for condition in set(status.conditions) - set(seen.workload.status.conditions):
        if not re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", condition.reason) or len(condition.reason) > 1024:
            found.append(f"reason {condition.reason[:50]!r}")
        if len(condition.message) > 32768:
            found.append(f"message of {condition.type}")
    found += [f"message of {check.name}" for check in status.admission_checks if len(check.message) > 32768]
    assert len(encode(status)) < 1_000_000
    return found


@pytest.mark.parametrize("text", ["x" * 32768, "x" * 1_000_000])
@pytest.mark.parametrize("time", [*ODD_TIMES, None])
def test_what_makes_a_copy_inadmissible_is_shown_cut_and_in_time(text: str, time: str | None) -> None:
    when = {} if time is None else {"lastTransitionTime": time}
    said = {"type": "QuotaReserved", "status": "False", "reason": "Inadmissible", "message": text} | when
    condition = decoder(Condition)(encode(said))
    built = copy().build()
    odd_copy = msgspec.structs.replace(built, status=WorkloadStatus(conditions=(condition,)))
    remotes = worker("w1", odd_copy), worker("w2", odd_copy)
    decision = decided(reserved().nominated("w1", "w2"), *remotes)
    if decision.again_after is not None:
        assert decision.again_after <= timedelta(seconds=5)
    assert decision.status is not None
    assert len(decision.status.admission_checks[0].message) < 3000


def test_an_eviction_with_a_long_message_reaches_the_worker() -> None:
    evicted = won().evicted().build()
    long = tuple(msgspec.structs.replace(c, message="x" * 32768) for c in evicted.status.conditions)
    local = msgspec.structs.replace(evicted, status=msgspec.structs.replace(evicted.status, conditions=long))
    seen = replace(case_of(won().evicted(), worker("w1", admitted_copy(), remote_job().running())), workload=local)
    (action,) = carried_out(seen).actions
    patch = decoder(WorkloadStatus)(encode(action.body["status"]))  # type: ignore[attr-defined]
    assert [len(c.message) for c in patch.conditions if c.type == "DeactivationTarget"] == [32768]
