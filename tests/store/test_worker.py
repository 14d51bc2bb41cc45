"""One worker's view: what is there, what may be there, and what is in the way."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from multikueue.api.job import Job, JobKey
from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey
from multikueue.store.worker import Asked, Conflict, WorkerView
from multikueue.testing import NOW, job, workload

KEY = ObjectKey("default", "wl")
ASKED = Asked("attempt", NOW)


def view() -> WorkerView:
    return WorkerView("w1", lambda *_: None, lambda *_: None, lambda *_: None)


def test_a_job_is_found_by_the_workload_it_names() -> None:
    worker = view()
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    found = worker.job_of(KEY)
    assert found is not None
    assert found.metadata.name == "job"
    assert worker.held() == {KEY}


def test_a_job_that_appears_answers_what_was_asked() -> None:
    worker = view()
    worker.asked[KEY] = ASKED
    assert worker.holds(KEY)
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    assert worker.asked == {}


def test_a_conflict_is_forgotten_in_time() -> None:
    worker = view()
    worker.conflicts[KEY] = Conflict("taken", NOW + timedelta(minutes=5))
    assert worker.conflict(KEY, NOW) == worker.conflicts[KEY]
    assert worker.conflict(KEY, NOW + timedelta(minutes=5)) is None
    assert worker.conflicts == {}


def test_a_copy_that_is_expected_is_no_news_until_something_happens_to_it() -> None:
    told: list[ObjectKey] = []
    worker = WorkerView(
        "w1", lambda key, *_: told.append(key), lambda *_: None, lambda *_: None, settled=lambda old, *_: old is None
    )
    worker.workloads.upsert(workload("wl").version(1).build())
    assert told == []
    worker.workloads.upsert(workload("wl").reserved().admitted().version(2).build())
    assert told == [KEY]


def test_what_the_worker_s_kueue_writes_beside_is_no_news() -> None:
    told: list[ObjectKey] = []
    worker = WorkerView("w1", lambda key, *_: told.append(key), lambda *_: None, lambda *_: None)
    worker.workloads.upsert(workload("wl").version(1).build())
    worker.workloads.upsert(workload("wl").reserved().version(2).build())
    assert told == [KEY]


def test_copies_without_jobs_are_held_too() -> None:
    worker = view()
    worker.workloads.upsert(workload("wl").build())
    assert worker.holds(KEY)
    assert not worker.holds(ObjectKey("default", "other"))


def test_a_name_given_to_another_cluster_forgets_the_one_before() -> None:
    worker = view()
    worker.workloads.upsert(workload("wl").version(10_000).build())
    worker.jobs.upsert(job("job").prebuilt("wl").version(10_000).build())
    worker.asked[KEY], worker.conflicts[KEY], worker.known = ASKED, Conflict("taken", NOW), True
    worker.forget()
    assert not worker.holds(KEY)
    assert not worker.known
    assert worker.conflicts == {}
    worker.workloads.upsert(workload("other").version(1).build())
    assert worker.held() == {ObjectKey("default", "other")}


def test_a_job_that_speaks_nonsense_is_seen_when_it_makes_sense_again() -> None:
    told: list[ObjectKey] = []
    worker = WorkerView("w1", lambda key, *_: told.append(key), lambda *_: None, lambda key, *_: told.append(key))
    sound = job("job").prebuilt("wl").build()
    odd = msgspec.structs.replace(_at(sound, 1), status=msgspec.Raw(b'{"active": "many"}'))
    for each in (odd, _at(sound, 2), _at(sound, 3)):
        worker.jobs.upsert(each)

    found = worker.job_of(KEY)
    assert found is not None
    assert found.version == 3
    assert not worker.hides(KEY, JobKey(JOBS.name, "default", "job"))
    assert told == [KEY, KEY], "it came, and it changed"


def _at(seen: Job, version: int) -> Job:
    metadata = msgspec.structs.replace(seen.metadata, resource_version=str(version))
    return msgspec.structs.replace(seen, metadata=metadata)
