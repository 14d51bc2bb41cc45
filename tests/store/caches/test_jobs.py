"""Jobs of several kinds in one cluster."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import GROUP_LABEL, Pod
from multikueue.api.kinds import JOBS, POD_GROUPS, PODS
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.meta import ObjectKey, ObjectMeta
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.store.caches.jobs import JobCaches
from multikueue.store.workers.known_objects import prebuilt_key
from tests.builders import job
from tests.jobs.gadgets import GADGETS, WITH_GADGETS, gadget

GADGET, JOB = JobKey("Gadget.example.com", "default", "same"), JobKey("Job.batch", "default", "same")
WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"


class Told:
    """Keeps what was told: the kind and the names of old and new."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []

    def __call__(self, adapter: Adapter, old: AnyJob | None, new: AnyJob | None) -> None:
        self.changes.append((adapter.kind.kind, old.metadata.name if old else "", new.metadata.name if new else ""))


def test_kubernetes_own_kinds_are_on_and_others_once_they_are_opened() -> None:
    jobs = JobCaches(WITH_GADGETS, Told())
    assert jobs.kinds == (JOBS,)
    assert jobs.get(GADGET) is None
    with pytest.raises(KeyError):
        jobs.upsert(gadget("same"))
    assert jobs.open(GADGETS) is jobs.open(GADGETS)
    assert jobs.kinds == (JOBS, GADGETS)
    jobs.upsert(gadget("same"))
    assert jobs.get(GADGET) == gadget("same")


def test_jobs_of_one_name_and_two_kinds_are_two() -> None:
    told = Told()
    jobs = JobCaches(WITH_GADGETS, told)
    jobs.open(GADGETS)
    jobs.upsert(job("same").build())
    jobs.upsert(gadget("same"))
    assert len(jobs) == 2
    assert [type(each).__name__ for each in jobs] == ["Job", "Gadget"]
    jobs.remove(gadget("same"))
    assert jobs.get(JOB) is not None
    assert jobs.get(GADGET) is None
    assert told.changes == [("Job", "", "same"), ("Gadget", "", "same"), ("Gadget", "same", "")]


def test_an_index_goes_over_all_kinds() -> None:
    jobs = JobCaches(WITH_GADGETS, Told(), indexes={"workload": prebuilt_key})
    jobs.open(GADGETS)
    jobs.upsert(gadget("g", labels={WORKLOAD: "wl"}))
    found = jobs.first("workload", ObjectKey("default", "wl"))
    assert found is not None
    assert found.metadata.name == "g"
    assert jobs.first("workload", ObjectKey("default", "other")) is None


def test_who_looks_on_hears_of_kinds_that_are_opened_later() -> None:
    seen: list[str] = []
    jobs = JobCaches(WITH_GADGETS, Told())
    jobs.observe(lambda _old, new: seen.append(new.metadata.name if new else ""))
    jobs.open(GADGETS)
    jobs.upsert(gadget("g"))
    jobs.upsert(job("j").build())
    assert seen == ["g", "j"]


def test_a_kind_that_is_opened_is_told_of_once_and_only_meanwhile() -> None:
    opened: list[str] = []
    jobs = JobCaches(WITH_GADGETS, Told())
    with jobs.telling(lambda kind, _cache: opened.append(kind.name)):
        jobs.open(GADGETS)
        jobs.open(GADGETS)
    assert opened == ["Gadget.example.com"]
    with jobs.telling(lambda kind, _cache: opened.append(kind.name)):
        pass
    assert opened == ["Gadget.example.com"]


def test_what_cannot_be_read_is_hidden_under_its_kind() -> None:
    jobs = JobCaches(WITH_GADGETS, Told())
    jobs.open(GADGETS).unreadable[GADGET.object] = "odd"
    assert jobs.has_unreadable(GADGET)
    assert not jobs.has_unreadable(JOB)
    assert not JobCaches(BATCH_ONLY, Told()).has_unreadable(GADGET)


def test_all_kinds_are_forgotten_together() -> None:
    jobs = JobCaches(WITH_GADGETS, Told())
    jobs.open(GADGETS)
    jobs.upsert(gadget("g"))
    jobs.upsert(job("j").build())
    jobs.forget()
    assert len(jobs) == 0


@pytest.mark.parametrize("is_listed", [False, True], ids=["watched", "listed"])
def test_before_kueue_0_18_an_annotation_names_no_workload_of_a_job_at_home(*, is_listed: bool) -> None:
    adapters = Adapters((BATCH_JOB,), compatibility=Compatibility.of("0.16"))
    here, there = (JobCaches(adapters, indexes={"workload": prebuilt_key}, are_copies=far) for far in (False, True))
    seen = job("j").annotations({WORKLOAD: "by-annotation", "note": "x"}).prebuilt("by-label").build()
    for jobs in (here, there):
        if is_listed:
            jobs.of(JOBS).replace((seen, job("k").build()))
        else:
            jobs.upsert(seen)
    (found,) = here.by("workload", ObjectKey("default", "by-label"))

    assert found.metadata.annotations == {"note": "x"}
    assert there.first("workload", ObjectKey("default", "by-annotation")) is seen


def test_jobs_that_have_ended_are_packed_where_they_are_to_be() -> None:
    over, running = job("over").complete().build(), job("running").running().build()
    for should_pack, left in ((True, [running]), (False, [over, running])):
        jobs = JobCaches(BATCH_ONLY, should_pack=should_pack)
        jobs.upsert(over)
        jobs.upsert(running)
        assert list(jobs.of(JOBS).going_on()) == left
        assert list(jobs) == [over, running]
        assert jobs.all_keys() == (JobKey("Job.batch", "default", "over"), JobKey("Job.batch", "default", "running"))


def test_pods_that_have_ended_stay_whole_as_their_group_holds_them() -> None:
    jobs = JobCaches(Adapters((PLAIN_POD,)), should_pack=True)
    jobs.open(PODS)
    over = Pod(metadata=ObjectMeta(name="p", labels={GROUP_LABEL: "g"}), status=msgspec.Raw(b'{"phase":"Succeeded"}'))
    jobs.upsert(over)
    assert list(jobs.of(PODS).going_on()) == [over]
    assert {key.kind for key in jobs.all_keys()} == {PODS.name, POD_GROUPS.name}


def test_a_job_whose_status_is_too_odd_to_tell_stays_whole() -> None:
    jobs = JobCaches(BATCH_ONLY, should_pack=True)
    odd = msgspec.structs.replace(job("odd").build(), status=msgspec.Raw(b'{"conditions": 7}'))
    jobs.upsert(odd)
    assert list(jobs.of(JOBS).going_on()) == [odd]
