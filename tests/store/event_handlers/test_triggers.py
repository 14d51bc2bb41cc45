"""Which keys are looked at again after a change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import Job, JobKey
from multikueue.api.kinds import JOBS, PODS
from multikueue.api.kueue.queues import FOLLOW_ANNOTATION, FairSharingStatus
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.copies.plan import Copied, Plan
from multikueue.dispatch.remote import Asked, attempt_of
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.quota.engine import Engine
from multikueue.store.event_handlers import changes, concerned, triggers
from multikueue.store.event_handlers.changes import Change
from multikueue.store.event_handlers.triggers import Row, Table, To, keys_after
from multikueue.store.queues import Key
from multikueue.store.store import Store
from tests.builders import NOW, admission_check, cluster_queue, cohort, job, local_queue, multikueue_config, workload
from tests.builders.workloads import JobBuilder, WorkloadBuilder
from tests.jobs.kinds.pods.builders import member, pod
from tests.store.known import KEY, Noted, local, stored


def test_a_row_is_due_if_its_aspect_is_another_or_the_object_came_or_went() -> None:
    store, _ = stored()
    rows = (Row(changes.said, (To("workloads", concerned.itself),)),)
    plain, said = workload("a").build(), workload("a").annotations({"multikueue.dev/b": "c"}).build()

    def keys(old: Workload | None, new: Workload | None) -> list[object]:
        return [key for _, key in keys_after(rows, Change(old, new), store)]

    assert keys(plain, plain) == []
    assert keys(plain, said) == keys(None, plain) == keys(plain, None) == [plain.key]


def test_a_row_without_an_aspect_is_always_due() -> None:
    store, _ = stored()
    rows = (Row(None, (To("workloads", concerned.itself), To("admission", concerned.once))),)
    same = workload("a").build()
    assert list(keys_after(rows, Change(same, same), store)) == [("workloads", same.key), ("admission", "")]


def test_what_its_own_reconcile_wrote_is_not_looked_at_again() -> None:
    store, _ = stored()
    same = workload("a").build()
    assert list(concerned.itself(Change(same, same, is_own=True), store)) == []


def test_what_the_worker_s_kueue_writes_beside_is_no_news() -> None:
    store, noted = stored()
    copies = store.worker("w1").workloads
    copies.upsert(workload("wl").version(1).build())
    copies.upsert(workload("wl").reserved().version(2).build())
    assert noted.keys == ["workload wl"]


def test_a_copy_that_is_expected_is_no_news_until_something_happens_to_it() -> None:
    store, noted = stored()
    asked = store.workloads.get(KEY)
    store.plans.put(KEY, _wanting_a_copy(asked, NOW))
    copies = store.worker("w1").workloads
    copies.upsert(workload("wl").attempt("a").version(1).build())
    assert noted.keys == []
    copies.upsert(workload("wl").attempt("a").reserved().admitted().version(2).build())
    assert noted.keys == ["workload wl"]


RESULT = workload("wl").reserved().admitted().finished()


def running(store: Store, there: Job) -> None:
    """The workload runs on w1, where it has that job."""
    store.workloads.upsert(local().admitted().cluster_name("w1").version(9).build())
    store.worker("w1").workloads.upsert(workload("wl").reserved().admitted().version(1).build())
    store.worker("w1").jobs.upsert(there)


def test_the_result_of_a_copy_is_no_news_after_that_of_its_job() -> None:
    store, noted = stored()
    running(store, there().running().complete().build())
    noted.keys.clear()
    store.worker("w1").workloads.upsert(RESULT.version(2).build())
    assert noted.keys == []


def there() -> JobBuilder:
    mark = attempt_of(local().build())
    return job("job").prebuilt("wl").attempt(mark)


@pytest.mark.parametrize(
    ("held", "copy"),
    [
        pytest.param(there().running().build(), RESULT, id="its job has told no end"),
        pytest.param(there().attempt("older").running().complete().build(), RESULT, id="its job is of another attempt"),
        pytest.param(
            there().running().complete().build(),
            workload("wl").reserved().admitted().finished("OutOfSync"),
            id="it is no result",
        ),
        pytest.param(there().running().complete().build(), RESULT.annotations({"a": "b"}), id="it says more"),
    ],
)
def test_the_end_of_a_copy_is_news(held: Job, copy: WorkloadBuilder) -> None:
    store, noted = stored()
    running(store, held)
    noted.keys.clear()
    store.worker("w1").workloads.upsert(copy.version(2).build())
    assert noted.keys == ["workload wl"]


def test_the_end_of_a_copy_of_a_workload_that_is_being_stopped_is_news() -> None:
    store, noted = stored()
    running(store, there().running().complete().build())
    store.workloads.upsert(local().admitted().cluster_name("w1").evicted().version(10).build())
    noted.keys.clear()
    store.worker("w1").workloads.upsert(RESULT.version(2).build())
    assert noted.keys == ["workload wl"]


def test_a_start_on_a_worker_is_no_news_to_the_local_job_before_it_has_a_status() -> None:
    store, noted = stored()
    store.jobs.upsert(job("job").queue("main").managed_by().version(2).build())
    jobs = store.worker("w1").jobs
    jobs.upsert(there().suspended().version(1).build())
    noted.keys.clear()
    jobs.upsert(there().version(2).build())
    assert noted.keys == []
    jobs.upsert(there().running(active=1).version(3).build())
    assert "job job" in noted.keys


def _wanting_a_copy(asked: Workload | None, now: datetime) -> Plan:
    return Plan(local=asked, attempt="a", at=now, desired=(Copied(cluster="w1", why="nominated"),))


def test_a_job_that_speaks_nonsense_is_seen_when_it_makes_sense_again() -> None:
    store, noted = stored()
    worker = store.worker("w1")
    sound = job("job").prebuilt("wl").build()
    odd = msgspec.structs.replace(_at(sound, 1), status=msgspec.Raw(b'{"active": "many"}'))
    for each in (odd, _at(sound, 2), _at(sound, 3)):
        worker.jobs.upsert(each)

    found = worker.job_of(KEY)
    assert found is not None
    assert found.version == 3
    assert not worker.jobs.has_unreadable(JobKey(JOBS.name, "default", "job"))
    assert noted.keys.count("workload wl") == 2, "it came, and it changed"


def _at(seen: Job, version: int) -> Job:
    metadata = msgspec.structs.replace(seen.metadata, resource_version=str(version))
    return msgspec.structs.replace(seen, metadata=metadata)


def test_each_change_of_a_member_is_one_of_its_group() -> None:
    noted = Noted()
    store = Store(Engine(), noted, lambda: NOW, adapters=Adapters((BATCH_JOB, PLAIN_POD)))
    for pods in (store.open_jobs(PODS), store.worker("w1").jobs.of(PODS)):
        noted.keys.clear()
        pods.upsert(member("a"))
        pods.upsert(pod("x"))
        pods.remove(member("a"))
        assert [key for key in noted.keys if key == "job g"] == ["job g"] * 2


@pytest.mark.parametrize(
    ("rows", "queue", "key"),
    [
        pytest.param(triggers.CLUSTER_QUEUE, cluster_queue("cq").build(), ("cluster_queues", "cq"), id="ClusterQueue"),
        pytest.param(
            triggers.LOCAL_QUEUE,
            local_queue("main").build(),
            ("local_queues", ObjectKey("default", "main")),
            id="LocalQueue",
        ),
        pytest.param(triggers.COHORT, cohort("top").build(), ("cohorts", "top"), id="Cohort"),
    ],
)
def test_a_status_that_somebody_else_wrote_is_looked_at(rows: Table[Any], queue: Any, key: tuple[str, Key]) -> None:
    store, _ = stored()
    shares = msgspec.structs.replace(queue.status, fair_sharing=FairSharingStatus(weighted_share=7))
    written = msgspec.structs.replace(queue, status=shares)
    assert key in list(keys_after(rows, Change(queue, written), store))


def test_a_worker_that_can_be_used_otherwise_has_all_looked_at_that_may_go_there() -> None:
    store, noted = stored()
    store.worker("w1").workloads.upsert(workload("left").origin().build())
    noted.keys.clear()
    store.worker("w1").record_watch(JOBS, "you may not", NOW)
    assert sorted(noted.keys) == ["cluster w1", "workload left", "workload wl"]
    noted.keys.clear()
    store.worker("w1").troubled("no answer")
    assert noted.keys == [], "so far nothing else is different"


def test_a_worker_that_comes_back_has_those_looked_at_whose_job_may_be_there() -> None:
    store, noted = stored()
    asked = ObjectKey("default", "asked")
    store.worker("w1").ask_for_job(asked, Asked("attempt", NOW))
    store.worker("w1").isolated()
    assert "workload asked" in noted.keys


def test_who_follows_which_workers_is_looked_at_again_and_what_was_written_for_that_is_not() -> None:
    store, noted = stored()
    queue = cluster_queue("cq").checks("mk")

    def wakes(change: Callable[[], None]) -> bool:
        noted.capacity.clear()
        change()
        return noted.capacity == [""]

    written = queue.quota("default", cpu=7).generation(2).version(2)
    assert not wakes(lambda: store.cluster_queues.upsert(written.build()))
    told = written.annotations({FOLLOW_ANNOTATION: "true"}).version(3)
    assert wakes(lambda: store.cluster_queues.upsert(told.build()))
    assert wakes(lambda: store.configs.upsert(multikueue_config("mk", "w1").version(4).build()))


def test_a_worker_that_is_away_or_back_may_have_other_quotas() -> None:
    store, noted = stored()
    for change in (store.worker("w1").isolated, store.worker("w1").connected):
        noted.capacity.clear()
        change()
        assert noted.capacity == ["w1"]
    noted.capacity.clear()
    store.worker("w1").fell_silent()
    assert noted.capacity == []


def test_a_workload_counts_where_it_was_admitted_even_if_its_local_queue_leads_elsewhere() -> None:
    store, _ = stored()
    counted = workload("other").queue("main").request(cpu=1).reserved("old").build()
    change = Change(None, counted)
    assert list(concerned.cluster_queues_of(change, store)) == ["cq", "old"]
    assert list(concerned.local_queues_of(change, store)) == [ObjectKey("default", "main")]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param((triggers.CLUSTER_QUEUE, cluster_queue("cq").checks("mk")), id="a ClusterQueue"),
        pytest.param((triggers.LOCAL_QUEUE, local_queue("main", "cq")), id="a LocalQueue"),
        pytest.param((triggers.CHECK, admission_check("mk")), id="an AdmissionCheck"),
    ],
)
def test_what_says_whether_jobs_are_dispatched_wakes_them_when_it_is_made_again(rows: tuple[Table[Any], Any]) -> None:
    table, made = rows
    store, _ = stored()
    store.cluster_queues.upsert(cluster_queue("cq").checks("mk").version(3).build())
    assert ("jobs", JobKey(JOBS.name, "default", "job")) in list(keys_after(table, Change(None, made.build()), store))
