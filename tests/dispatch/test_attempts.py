"""What belongs to the present attempt of a workload, and what does not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeVar

import pytest
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, Workload
from multikueue.api.meta import Object
from multikueue.dispatch.remote import (
    LEEWAY,
    Link,
    Reach,
    Remote,
    attempt_of,
    ends_attempt,
    is_of_attempt,
    is_taken_over,
)
from multikueue.testing import NOW
from multikueue.workload.phases import Phase
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    ATTEMPT,
    EARLIER,
    RESERVED,
    admitted_copy,
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

T = TypeVar("T", bound=Object)

ENDS = {
    "it holds its quota": (reserved(), False),
    "it runs": (won("w1"), False),
    "it was evicted before this reservation": (reserved().condition("Evicted", "False", reason="QuotaReserved"), False),
    "it is evicted, and still holds its quota": (reserved().evicted(), True),
    "its check asks for a retry": (reserved().check("mk", "Retry"), True),
    "its check rejects it": (reserved().check("mk", "Rejected"), True),
    "it has given its quota back": (reserved().unreserved(), True),
    "it had no quota yet": (pending(), True),
}


@pytest.mark.parametrize(("local", "ends"), ENDS.values(), ids=ENDS)
def test_an_attempt_ends_with_the_status_of_a_workload_of_which_it_is_said(local: WorkloadBuilder, ends: bool) -> None:
    assert ends_attempt(local.build().status) is ends


def leaving(item: T) -> T:
    return replace(item, metadata=replace(item.metadata, deletion_timestamp=NOW))


def unmarked(item: T) -> T:
    """As Kueue's own MultiKueue makes it, just after the reservation."""
    kept = {key: value for key, value in item.metadata.annotations.items() if key != ATTEMPT_ANNOTATION}
    created = RESERVED + timedelta(seconds=1)
    return replace(item, metadata=replace(item.metadata, annotations=kept, creation_timestamp=created))


@pytest.mark.parametrize("is_marked", [True, False], ids=["with our mark", "without a mark"])
@pytest.mark.parametrize("is_won", [True, False], ids=["on the recorded winner", "before a win"])
def test_what_is_being_deleted_is_of_no_attempt(is_marked: bool, is_won: bool) -> None:
    copy, job = admitted_copy().build(), remote_job().build()
    if not is_marked:
        copy, job = unmarked(copy), unmarked(job)
    local = won("w1") if is_won else reserved().nominated("w1", "w2")
    there = case_of(local, worker("w1", copy, job))
    assert (there.is_current(copy), there.is_current(job)) == (True, True)
    goes = case_of(local, worker("w1", leaving(copy), leaving(job)))
    [remote] = goes.remotes
    assert (goes.is_current(remote.workload), goes.is_current(remote.job)) == (False, False)


def test_a_copy_on_its_way_out_does_not_win() -> None:
    local = reserved().nominated("w1", "w2")
    decision = decided(local, worker("w1", leaving(admitted_copy().build())), worker("w2", admitted_copy().build()))
    assert told(decision) == ["CreateJob w2"]
    alone = decided(local, worker("w1", leaving(admitted_copy().build())), worker("w2"))
    assert alone.phase is Phase.NOMINATING
    assert not [action for action in told(alone) if action.startswith("CreateJob")]


def made(item: T, at: datetime | None) -> T:
    """Without a mark, and made then."""
    return replace(item, metadata=replace(unmarked(item).metadata, creation_timestamp=at))


LOCAL, COPY, JOB = reserved().build(), admitted_copy().build(), remote_job().build()
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)

ITEMS: dict[str, tuple[Workload | None, str, bool]] = {
    "with its mark": (COPY, ATTEMPT, True),
    "with that of another": (COPY, EARLIER, False),
    "without a mark, made with the reservation": (made(COPY, RESERVED), ATTEMPT, True),
    "without a mark, made before": (made(COPY, RESERVED - SECOND), ATTEMPT, False),
    "without a mark, made nobody knows when": (made(COPY, None), ATTEMPT, False),
    "nothing": (None, ATTEMPT, False),
    "without quota": (admitted_copy("").build(), "", False),
}


@pytest.mark.parametrize(("item", "attempt", "is_of_it"), ITEMS.values(), ids=ITEMS)
def test_what_is_of_an_attempt(item: Workload | None, attempt: str, is_of_it: bool) -> None:
    assert is_of_attempt(item, LOCAL, attempt) is is_of_it


OLD = made(COPY, RESERVED - HOUR)
PINNED = reserved().cluster_name("w1")
OLDEST = RESERVED - LEEWAY

TAKEN: dict[str, tuple[WorkloadBuilder, Remote, bool]] = {
    "on the recorded winner": (won("w1"), worker("w1", OLD), True),
    "on the recorded winner, as all checks say": (PINNED.check("mk", "Ready"), worker("w1", OLD), True),
    "on the recorded winner, whose check is new": (PINNED.admitted(), worker("w1", OLD), True),
    "with our mark, on the recorded winner": (won("w1"), worker("w1", admitted_copy(EARLIER)), False),
    "elsewhere": (won("w2"), worker("w1", OLD), False),
    "where a slice is to run": (PINNED, worker("w1", OLD), False),
    "where a workload without checks is to run": (
        pending().reserved("cq", at=RESERVED).cluster_name("w1"),
        worker("w1", OLD),
        False,
    ),
    "beside a job that is as old as clocks may differ": (reserved(), worker("w1", OLD, made(JOB, OLDEST)), True),
    "beside a job that is older": (reserved(), worker("w1", OLD, made(JOB, OLDEST - SECOND)), False),
    "beside a job made nobody knows when": (reserved(), worker("w1", OLD, made(JOB, None)), False),
    "beside a job with our mark": (reserved(), worker("w1", OLD, remote_job(EARLIER)), False),
    "nothing": (won("w1"), worker("w1"), False),
}


@pytest.mark.parametrize(("local", "remote", "is_taken"), TAKEN.values(), ids=TAKEN)
def test_what_is_taken_over_from_kueue(local: WorkloadBuilder, remote: Remote, is_taken: bool) -> None:
    built = local.build()
    assert is_taken_over(remote.workload, built, attempt_of(built), remote) is is_taken
    assert not is_taken_over(remote.workload, built, "", remote), "without quota"


LINKS = {
    "reached, whatever was before": (Link(since=NOW - HOUR), False),
    "away since nobody knows when": (Link(Reach.SUSPECT), False),
    "away for a moment less": (Link(Reach.ISOLATED, NOW - HOUR + SECOND), False),
    "away for so long": (Link(Reach.ISOLATED, NOW - HOUR), True),
    "asked too early": (Link(Reach.ISOLATED, NOW - 2 * HOUR, NOW - HOUR - SECOND), False),
    "asked in its last moment": (Link(Reach.ISOLATED, NOW - 2 * HOUR, NOW - HOUR), True),
    "asked by a clock that is ahead": (Link(Reach.ISOLATED, NOW - SECOND, NOW + 2 * HOUR), False),
    "given time by who has just begun": (
        Link(Reach.ISOLATED, NOW - 2 * HOUR, never_lost_before=NOW + SECOND),
        False,
    ),
    "given time that is over": (Link(Reach.ISOLATED, NOW - 2 * HOUR, never_lost_before=NOW), True),
}


@pytest.mark.parametrize(("link", "is_lost"), LINKS.values(), ids=LINKS)
def test_who_is_lost_after_an_hour(link: Link, is_lost: bool) -> None:
    assert link.is_lost(NOW, HOUR) is is_lost
    assert Remote(cluster="w1", link=link).is_lost(NOW, HOUR) is is_lost


def malformed(_job: AnyJob) -> bool:
    raise ValueError("no number")


RUNNING = {
    "no job": (worker("w1", admitted_copy()), False),
    "one whose pods run": (worker("w1", copy(), remote_job().running()), True),
    "one whose status says nothing": (worker("w1", copy(), remote_job(), is_active=malformed), True),
    "the one of the slice before it": (worker("w1", copy(), remote_job(), is_inherited=True), True),
    "one that is admitted": (worker("w1", admitted_copy(), remote_job()), True),
    "one that waits": (worker("w1", copy(), remote_job()), False),
    "one that is evicted": (worker("w1", admitted_copy().evicted(), remote_job()), False),
    "one that is over": (worker("w1", admitted_copy().finished(), remote_job()), False),
}


@pytest.mark.parametrize(("remote", "may_run"), RUNNING.values(), ids=RUNNING)
def test_which_job_may_be_running(remote: Remote, may_run: bool) -> None:
    assert remote.may_be_running is may_run
