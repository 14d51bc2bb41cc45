"""One worker's view: what is there, what may be there, and what is in the way."""

from __future__ import annotations

from datetime import timedelta

from multikueue.api.meta import ObjectKey
from multikueue.store.worker import Conflict, WorkerView
from multikueue.testing import NOW, job, workload

KEY = ObjectKey("default", "wl")


def view() -> WorkerView:
    return WorkerView("w1", lambda _: None, lambda _: None)


def test_a_job_is_found_by_the_workload_it_names() -> None:
    worker = view()
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    found = worker.job_of(KEY)
    assert found is not None
    assert found.metadata.name == "job"
    assert worker.held() == {KEY}


def test_a_job_that_appears_answers_what_was_asked() -> None:
    worker = view()
    worker.asked[KEY] = "attempt"
    assert worker.holds(KEY)
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    assert worker.asked == {}


def test_a_conflict_is_forgotten_in_time() -> None:
    worker = view()
    worker.conflicts[KEY] = Conflict("taken", NOW + timedelta(minutes=5))
    assert worker.conflict(KEY, NOW) == worker.conflicts[KEY]
    assert worker.conflict(KEY, NOW + timedelta(minutes=5)) is None
    assert worker.conflicts == {}


def test_copies_without_jobs_are_held_too() -> None:
    worker = view()
    worker.workloads.upsert(workload("wl").build())
    assert worker.holds(KEY)
    assert not worker.holds(ObjectKey("default", "other"))
