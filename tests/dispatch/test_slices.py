"""Slices of elastic jobs on workers (contract 3.2 step 1, 3.5, 3.10 step 4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.workload import REPLACES_ANNOTATION
from multikueue.dispatch.copies.effects import PatchJob, PatchWorkload
from multikueue.dispatch.remote import Remote
from multikueue.dispatch.slices import Slice, scale_down_patch
from multikueue.testing import NOW
from multikueue.workload.case import Case
from multikueue.workload.decide import decide
from multikueue.workload.handlers.evicting import is_holding
from multikueue.workload.phases import Phase
from tests.builders.workloads import WorkloadBuilder, pod_set
from tests.workload.builders import (
    EARLIER,
    admitted_copy,
    away,
    but,
    case_of,
    copy,
    decided,
    pending,
    remote_job,
    reserved,
    told,
    won,
    worker,
)

ELASTIC = Slice(is_elastic=True)
STAYS = Slice(is_elastic=True, stays="w1")
EARLY = Slice(is_elastic=True, stays="w1", is_too_early=True)
PATCH = {"spec": {"parallelism": 5}}


def staying() -> WorkloadBuilder:
    return reserved().cluster_name("w1")


def running(workload: WorkloadBuilder | None = None, **more: Any) -> Remote:
    """The worker where the slice before it runs."""
    job = remote_job(EARLIER).prebuilt("before").running(active=3)
    return worker("w1", workload, job, is_inherited=True, patch=PATCH, **more)


STEPS: dict[str, tuple[Phase, WorkloadBuilder | None, tuple[Remote, ...], Slice, list[str]]] = {
    "while the slice before it has its quota, it waits": (Phase.SLICE_TOO_EARLY, staying(), (running(),), EARLY, []),
    "even where it has no worker to stay on": (
        Phase.SLICE_TOO_EARLY,
        reserved(),
        (worker("w1"), worker("w2")),
        Slice(is_elastic=True, is_too_early=True),
        [],
    ),
    "it goes to the worker of the slice before it, and to no other": (
        Phase.SLICE_PINNED,
        staying(),
        (running(), worker("w2")),
        STAYS,
        ["CreateWorkload w1"],
    ),
    "also where nobody wrote down which that is": (
        Phase.SLICE_PINNED,
        reserved(),
        (running(), worker("w2")),
        STAYS,
        ["CreateWorkload w1"],
    ),
    "what is elsewhere goes": (
        Phase.SLICE_PINNED,
        staying(),
        (running(copy()), worker("w2", copy())),
        STAYS,
        ["DeleteWorkload w2"],
    ),
    "while that worker is away, it waits": (Phase.SLICE_PINNED, staying(), (away(running()), worker("w2")), STAYS, []),
    "and for no longer than for a winner": (
        Phase.SLICE_PIN_LOST,
        staying(),
        (away(running(), since=NOW - timedelta(hours=1)),),
        STAYS,
        [],
    ),
    "a worker that turns it down ends the attempt": (
        Phase.DECLINED_BY_ALL,
        staying(),
        (running(copy().evicted("Deactivated")),),
        STAYS,
        [],
    ),
    "a worker that nobody knows is lost": (Phase.SLICE_PIN_LOST, staying(), (worker("w2"),), STAYS, []),
    "once it is admitted there, the job becomes its own": (
        Phase.ADMITTED,
        staying(),
        (running(admitted_copy()),),
        STAYS,
        ["PatchJob w1"],
    ),
    "a job that is gone is recreated": (
        Phase.ADMITTED,
        staying(),
        (worker("w1", admitted_copy()),),
        STAYS,
        ["CreateJob w1"],
    ),
    "the winner's job follows the size of the job": (
        Phase.ADMITTED,
        won(),
        (worker("w1", admitted_copy(), remote_job(), patch=PATCH),),
        ELASTIC,
        ["PatchJob w1"],
    ),
    "until it has quota, what runs is left alone": (Phase.UNRESERVED, pending().check(), (running(),), ELASTIC, []),
    "once it was evicted, it is not": (
        Phase.UNRESERVED,
        pending().check().evicted(),
        (running(),),
        ELASTIC,
        ["DeleteJob w1"],
    ),
    "while another check is not ready, what runs is left alone": (
        Phase.WAITING,
        staying().check("other"),
        (running(), worker("w2", copy())),
        STAYS,
        ["DeleteWorkload w2"],
    ),
    "while its checks are not listed yet, what runs is left alone": (
        Phase.UNCHECKED,
        pending().reserved("cq").cluster_name("w1"),
        (running(),),
        STAYS,
        [],
    ),
    "admitted without a check of ours it runs elsewhere": (
        Phase.UNCHECKED,
        pending().reserved("cq").admitted(),
        (running(),),
        ELASTIC,
        ["DeleteJob w1"],
    ),
    "in its next attempt, what came back is left from the last one": (
        Phase.NOMINATING,
        reserved().nominated("w1"),
        (running(),),
        ELASTIC,
        ["DeleteJob w1"],
    ),
    "even on the worker that admits it": (
        Phase.ADMITTED,
        reserved().nominated("w1"),
        (running(admitted_copy()),),
        ELASTIC,
        ["DeleteJob w1"],
    ),
    "evicted before it took over, it stops what runs": (
        Phase.EVICTED,
        staying().evicted(),
        (running(),),
        STAYS,
        ["DeleteJob w1"],
    ),
    "its copy goes too": (
        Phase.EVICTED,
        staying().evicted(),
        (running(admitted_copy()),),
        STAYS,
        ["DeleteJob w1", "DeleteWorkload w1"],
    ),
    "what a replaced slice left belongs to the next": (
        Phase.FINISHED,
        won().finished("WorkloadSliceReplaced"),
        (worker("w1", copy()), worker("w2", copy())),
        Slice(is_elastic=True, heir=("w1",)),
        ["DeleteWorkload w2"],
    ),
    "and after it is gone": (Phase.GONE, None, (worker("w1", copy()),), Slice(is_elastic=True, heir=("w1",)), []),
    "unless the job is over": (
        Phase.FINISHED,
        won().finished("WorkloadSliceReplaced"),
        (worker("w1", copy()),),
        ELASTIC,
        ["DeleteWorkload w1"],
    ),
}


@pytest.mark.parametrize(("phase", "local", "remotes", "joined", "actions"), STEPS.values(), ids=STEPS.keys())
def test_a_slice(
    phase: Phase, local: WorkloadBuilder | None, remotes: tuple[Remote, ...], joined: Slice, actions: list[str]
) -> None:
    decision = decided(local, *remotes, slice=joined)
    assert (decision.phase, told(decision)) == (phase, actions)


def test_the_win_is_recorded_once_the_job_is_its_own() -> None:
    decision = decided(staying(), worker("w1", admitted_copy(), remote_job()), slice=STAYS)
    assert decision.status is not None
    assert (decision.status.admission_checks[0].state, decision.status.cluster_name) == ("Ready", "w1")


def test_a_slice_that_finds_no_job_gives_its_quota_back_where_none_can_be_made() -> None:
    """The job on the manager is not stopped while another slice of it is to go on, so nothing could be copied."""
    decision = decided(staying(), worker("w1", admitted_copy()), slice=STAYS, may_copy_job=False)
    assert told(decision) == []
    assert decision.status is not None
    (check,) = decision.status.admission_checks
    assert (check.state, 'no longer exists on worker cluster "w1"' in check.message) == ("Retry", True)


def test_no_strategy_is_asked_where_a_slice_stays() -> None:
    def ask(case: Case) -> Case:
        raise AssertionError(case)

    decide(case_of(staying(), running(), slice=STAYS), ask)


def test_a_lost_worker_ends_the_attempt() -> None:
    lost = away(running(), since=NOW - timedelta(hours=1))
    status = decided(staying(), lost, slice=STAYS).status
    assert status is not None
    assert status.admission_checks[0].state == "Retry"


def test_quota_is_kept_while_a_job_of_the_slice_before_it_runs() -> None:
    idle = but(running(), is_active=lambda _job: False)
    assert is_holding(case_of(staying().evicted(), idle, slice=STAYS))
    assert not is_holding(case_of(staying().evicted(), worker("w1"), slice=STAYS))


def sized(count: int) -> WorkloadBuilder:
    return reserved().check("mk", "Ready").admitted().cluster_name("w1").count(count)


def copied(count: int) -> WorkloadBuilder:
    return admitted_copy().count(count)


def test_a_scaled_down_copy_is_changed_before_its_job() -> None:
    there = worker("w1", copied(5), remote_job(), patch=PATCH)
    decision = decided(sized(2), there, slice=ELASTIC)
    patch, job = decision.actions
    assert isinstance(patch, PatchWorkload)
    assert [each["count"] for each in patch.body["spec"]["podSets"]] == [2]
    assert isinstance(job, PatchJob)
    assert (job.job, job.body) == (there.job, PATCH)


def test_without_elastic_jobs_a_copy_of_another_size_goes() -> None:
    assert told(decided(reserved().nominated("w1").count(2), worker("w1", copy().count(5)))) == ["DeleteWorkload w1"]


def test_a_scaled_down_copy_is_compared_with_its_job_no_more() -> None:
    """Or the worker's Kueue ends it, should it look between the two changes."""
    (patch, *_) = decided(sized(2), worker("w1", copied(5), remote_job()), slice=ELASTIC).actions
    assert isinstance(patch, PatchWorkload)
    assert patch.body["metadata"]["annotations"] == {REPLACES_ANNOTATION: "default/wl"}


NOT_SCALED_DOWN = {
    "more pods": (sized(5), copied(2)),
    "fewer pods of another kind": (sized(2).request(cpu=2), copied(5)),
    "fewer kinds of pods": (
        sized(2),
        admitted_copy().pod_sets(pod_set("main", count=2).request(cpu=1), pod_set("more").request(cpu=1)),
    ),
    "fewer of one and more of another": (
        sized(1).pod_sets(pod_set("a", count=1), pod_set("b", count=3)),
        admitted_copy().pod_sets(pod_set("a", count=2), pod_set("b", count=2)),
    ),
}


@pytest.mark.parametrize(("local", "remote"), NOT_SCALED_DOWN.values(), ids=NOT_SCALED_DOWN.keys())
def test_what_is_not_scaled_down(local: WorkloadBuilder, remote: WorkloadBuilder) -> None:
    assert scale_down_patch(local.build(), remote.build()) is None


def test_the_copy_keeps_its_own_words_and_the_slice_it_replaces() -> None:
    remote = copied(5).annotations({REPLACES_ANNOTATION: "default/before"}).build()
    spec = msgspec.json.decode(remote.spec)
    spec["podSets"][0]["template"]["spec"]["dnsPolicy"] = ""
    remote = msgspec.structs.replace(remote, spec=msgspec.Raw(msgspec.json.encode(spec)))
    patch = scale_down_patch(sized(2).build(), remote)
    assert patch is not None
    assert patch["metadata"]["annotations"] == {REPLACES_ANNOTATION: "default/before"}
    assert patch["spec"]["podSets"][0]["template"]["spec"]["dnsPolicy"] == ""


def test_a_slice_that_was_pinned_by_nobody_records_its_worker_with_the_win() -> None:
    decision = decided(reserved(), worker("w1", admitted_copy(), remote_job()), worker("w2"), slice=STAYS)
    assert decision.status is not None
    assert decision.status.cluster_name == "w1"
