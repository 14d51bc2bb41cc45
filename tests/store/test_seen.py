"""What the manager sees of a workload, and the answer that follows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.answers.answer import JobAnswer, answer
from multikueue.api.kueue.workload import Workload
from multikueue.quota.visibility.explain import Explanation, Shortage
from multikueue.store.seen import seen_of
from multikueue.store.store import Store
from tests.builders import NOW, WorkloadBuilder, job, local_queue, workload
from tests.store.known import case_in, local, stored


def told(store: Store, made: WorkloadBuilder | None = None, quota: Explanation | None = None) -> JobAnswer:
    if made is not None:
        store.workloads.upsert(made.version(9).build())
    case = case_in(store)
    assert isinstance(case.workload, Workload)
    return answer(seen_of(store, case.workload, case, quota), NOW)


def waiting() -> WorkloadBuilder:
    return workload("wl").queue("main").request(cpu=1).owner_job("job").unreserved(message="insufficient quota")


def won() -> WorkloadBuilder:
    return local().check("mk", "Ready").admitted().cluster_name("w1")


def test_a_worker_that_is_gone_is_told_with_the_time_when_its_jobs_queue_again() -> None:
    store, _ = stored()
    store.worker("w1").suspected(NOW)
    store.worker("w1").recorded(NOW)

    found = told(store, won())

    assert (found.state, found.since, found.cluster, found.heaviest and found.heaviest.code) == (
        "Unknown",
        NOW,
        "w1",
        "WorkerAway",
    )
    assert "it queues again at 2026-01-01T12:15:00Z, unless w1 answers before" in found.summary


@pytest.mark.parametrize(("ready", "state"), [(0, "Starting"), (1, "Running")])
def test_it_runs_once_its_job_counts_a_ready_pod(ready: int, state: str) -> None:
    store, _ = stored()
    store.jobs.upsert(job("job").queue("main").managed_by().running(active=1, ready=ready).version(9).build())
    assert told(store, won()).state == state


def test_the_nearest_name_is_looked_for_in_its_namespace() -> None:
    store, _ = stored()
    store.local_queues.upsert(local_queue("mine", "cq", namespace="elsewhere").build())
    found = told(store, waiting().queue("mian"))
    assert found.summary == "Pending: there is no LocalQueue mian in namespace default; did you mean main?"


def test_who_has_its_quota_is_named_by_the_job() -> None:
    store, _ = stored()
    store.workloads.upsert(workload("job-fill-1").queue("main").owner_job("fill").reserved("cq").build())
    lack = Shortage(pod_set="main", flavor="default", resource="cpu", needed="2", available="1", missing="1")
    found = told(
        store,
        waiting(),
        Explanation(
            workload="default/wl",
            cluster_queue="cq",
            place=1,
            lacks=(lack,),
            enough=("default/job-fill-1", "another one"),
        ),
    )
    assert found.summary.endswith("it fits once any one of job/fill, another one ends.")


def test_what_is_over_is_asked_of_no_worker() -> None:
    store, _ = stored()
    store.workloads.upsert(won().finished(message="all went well").version(9).build())
    case = case_in(store)
    assert case.workload is not None
    seen = seen_of(store, case.workload, case)
    assert (seen.workers, answer(seen, NOW + timedelta(1)).summary) == ((), "Finished on w1: all went well.")
