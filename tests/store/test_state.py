"""Questions about what is known of several clusters."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.kinds import JOBS
from multikueue.api.kubernetes.printed import WORKLOAD_ANNOTATION
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.workload import Workload, WorkloadSpec
from multikueue.dispatch.remote import Asked
from multikueue.jobs.framework.adapter import OwnJob
from multikueue.jobs.framework.pod_set_info import placement
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.quota.engine import Engine
from multikueue.store.caches.cache import ByName
from multikueue.store.store import Store
from tests.builders import NOW, admission_check, flavor, job, workload
from tests.builders.workloads import JobBuilder, WorkloadBuilder
from tests.jobs import places
from tests.jobs.builders import workload_of
from tests.store.known import KEY, Noted, case_in, local, stored


def test_a_placement_without_a_namespace_is_one_in_ours() -> None:
    noted = Noted()
    store = Store(Engine(), noted, lambda: NOW, namespace="ours")
    store.placements.begin()
    found = store.placement_for(local().build(), option="gpu")
    assert found is not None
    assert found.problem == "there is no Placement ours/gpu"


def test_a_later_job_of_the_same_name_is_not_the_owner() -> None:
    store, _ = stored()
    store.jobs.upsert(job("job").uid("another").version(9).build())
    workload_ = store.workloads.get(KEY)
    assert workload_ is not None
    assert store.local_job(workload_) is None


def test_a_queue_is_dispatched_if_it_has_a_check_of_ours() -> None:
    store, _ = stored()
    assert store.should_dispatch("default", "main") is True
    assert store.should_dispatch("default", "nowhere") is None
    store.checks.upsert(admission_check("mk").controller("example.com/other").version(9).build())
    assert store.should_dispatch("default", "main") is False


def test_the_controller_name_is_the_contract_s() -> None:
    assert CONTROLLER_NAME == "kueue.x-k8s.io/multikueue"


HERE = job("job").queue("main").suspended().build()


def of_here(**changes: str) -> tuple[Store, Workload]:
    """A store where nothing is dispatched, with an admitted workload; `changes` is a node selector that a check wants."""
    store, _ = stored()
    store.flavors.upsert(flavor("blue").node_labels(pool="blue").build())
    store.jobs.upsert(job("job").queue("main").suspended().version(2).build())
    seen = places.told(places.admitted(workload_of(HERE)), {"name": "main", "nodeSelector": changes})
    return store, seen


def test_a_workload_whose_job_can_never_start_here_is_at_its_end() -> None:
    store, seen = of_here(pool="red")
    end = store.failed_start(seen, HERE)
    assert end is not None
    assert end.reason == "FailedToStart"


def test_it_is_not_where_its_job_can_or_may_start_or_another_one_is_to() -> None:
    store, seen = of_here(rack="7")
    assert store.failed_start(seen, HERE) is None
    store, seen = of_here(pool="red")
    assert store.failed_start(seen, job("job").queue("main").build()) is None
    assert store.failed_start(seen, job("job").queue("main").suspended().parallelism(2).completions(2).build()) is None
    assert store.failed_start(seen, job("job").queue("main").suspended().deleted().build()) is None
    dispatched = WorkloadBuilder(seen, WorkloadSpec()).check("mk").value
    assert store.failed_start(dispatched, HERE) is None


def test_a_job_that_still_says_where_it_ran_is_neither_over_here_nor_copied() -> None:
    store, seen = of_here()
    patch = BATCH_JOB.pod_set_info.start_patch(HERE, {}, placement(seen, ByName(store.flavors)).places)
    left = places.applied(HERE, patch)
    assert BATCH_JOB.is_suspended(left)
    assert OwnJob(left, BATCH_JOB).may_run
    assert not OwnJob(HERE, BATCH_JOB).may_run
    for version, name, expected in ((8, KEY.name, False), (9, "another", True)):
        marked = places.applied(
            left, {"spec": {"template": {"metadata": {"annotations": {WORKLOAD_ANNOTATION: name}}}}}
        )
        meta = job("job").queue("main").version(version).value.metadata
        store.jobs.upsert(msgspec.structs.replace(marked, metadata=meta))
        assert case_in(store).may_copy_job is expected


STOPS = {
    "a job that goes on": (job("job"), True),
    "one that is over": (job("job").complete(), False),
    "one that is being deleted": (job("job").deleted(), False),
    "a later one of its name": (job("job").uid("another"), False),
}


@pytest.mark.parametrize(("made", "is_first"), STOPS.values(), ids=STOPS)
def test_which_job_stops_before_its_deleted_workload_goes(made: JobBuilder, is_first: bool) -> None:
    store, _ = stored()
    there = made.queue("main").version(9).build()
    store.jobs.upsert(there)
    assert store.job_to_stop(local().build()) == (there if is_first else None)


def test_a_job_is_beside_only_where_another_worker_has_it_or_was_asked() -> None:
    store, _ = stored()
    for name in ("w1", "w2"):
        store.worker(name).workloads.upsert(workload("wl").origin().build())
    store.worker("w1").ask_for_job(KEY, Asked("attempt", NOW))
    assert (*store.may_run_beside(KEY, "w1"),) == ()
    assert (*store.may_run_beside(KEY, "w2"),) == ("w1",)


def test_what_has_ended_is_packed_and_wakes_nobody_when_it_is_seen_again() -> None:
    store, noted = stored()
    over, end = job("job").queue("main").complete().version(2).build(), local().finished().version(2).build()
    store.jobs.upsert(over)
    store.workloads.upsert(end)
    noted.keys.clear()

    store.jobs.of(JOBS).replace([over], 3)
    store.workloads.replace([end], 3)

    assert noted.keys == []
    assert not [*store.workloads.going_on(), *store.jobs.of(JOBS).going_on()]
    assert (store.workloads.get(KEY), store.local_job(end)) == (end, over)


def test_a_workload_that_has_ended_is_nowhere_any_more() -> None:
    store, _ = stored()
    store.workloads.upsert(local().nominated("w1").version(2).build())
    assert store.may_be_on("w1")
    over = local().nominated("w1").finished()
    store.workloads.upsert(over.version(3).build())
    assert not store.may_be_on("w1")
    large = over.annotations({"example.com/notes": "x" * 10_000}).version(4).build()
    store.workloads.upsert(large)
    assert [*store.workloads.going_on()] == [large], "it is too large to be packed"
    assert not store.may_be_on("w1")
