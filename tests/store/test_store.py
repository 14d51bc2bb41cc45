"""The store, one file: the questions that need both sides, and who is told to look again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from multikueue.api.jobs.job import Job, JobKey, StatefulSet
from multikueue.api.jobs.pod import GROUP_LABEL, Pod, PodGroup
from multikueue.api.kinds import JOBS, PODS, STATEFUL_SETS
from multikueue.api.kubernetes.builtins import LimitRange, LimitRangeItem, LimitRangeSpec, Overhead, RuntimeClass
from multikueue.api.kueue.queues import WorkloadPriorityClass
from multikueue.api.kueue.workload import FAILED_ON, ORIGIN_LABEL, PREBUILT_LABEL, Workload
from multikueue.api.meta import ObjectKey, ObjectMeta, decoder, encode
from multikueue.api.multikueue.clusters import ClusterProfile, MultiKueueCluster
from multikueue.api.multikueue.ocm import Placement
from multikueue.dispatch.copies.plan import Absent, Copied, Plan
from multikueue.dispatch.remote import Asked, Unfit, attempt_of
from multikueue.jobs.framework.nesting import Nested
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB, STOPPING_ANNOTATION
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.jobs.kinds.stateful_set.adapter import STATEFUL_SET
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.requests.amounts import Demand
from multikueue.quota.requests.devices import DeviceRules
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.store.workers.worker import WorkerView
from multikueue.workload.decision_rules import DecisionRules
from tests.builders import (
    NOW,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    job,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    pod_set,
    secret,
    workload,
)
from tests.builders.workloads import JobBuilder, WorkloadBuilder
from tests.jobs.builders import with_status
from tests.jobs.kinds.pods.builders import member
from tests.quota.builders import claim_template, claiming, device_class, devices
from tests.store.known import KEY, Noted, case_in, local, not_seen_yet, stored


def noted_by(change: Callable[[Store], None]) -> list[str]:
    store, noted = stored()
    change(store)
    return [key for key in noted.keys if key.startswith("workload ")]


def test_what_a_worker_could_not_take_is_forgotten_with_the_workload() -> None:
    store, _ = stored()
    worker = store.worker("w1")
    worker.pass_over(KEY, Unfit("no", NOW + timedelta(minutes=5)))
    worker.expectations.look(KEY, NOW)
    store.forget(KEY)
    assert not worker.expectations.is_passed_over(KEY)
    assert worker.expectations.about(KEY)[1] is None


@pytest.mark.parametrize("follows", ["nothing", "a new workload of that name"])
@pytest.mark.parametrize("had_ended", [False, True], ids=["before its end", "after it"])
def test_what_may_be_on_a_worker_not_yet_seen_is_kept_in_mind_when_the_workload_goes(
    follows: str, had_ended: bool
) -> None:
    """What has ended has left nothing that runs, and a worker without a connection is asked for nothing."""
    store, _ = stored()
    gone = local().nominated("w1", "w2", "w9").version(2)
    store.workloads.upsert((gone.finished() if had_ended else gone).build())
    not_seen_yet(store.worker("w2"))
    if follows == "nothing":
        store.workloads.remove(gone.build())
    else:
        store.workloads.upsert(local().uid("another").version(3).build())
    asked = [store.worker(name).expectations.asked(KEY) for name in ("w1", "w2")]
    assert asked == [None, None if had_ended else Asked("", NOW)]


SAYS = {"multikueue.dev/placement": "gpu"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: s.jobs.upsert(spoken_job(SAYS)), id="a job"),
        pytest.param(
            lambda s: s.local_queues.upsert(local_queue("main", "cq").annotations(SAYS).version(9).build()),
            id="a LocalQueue",
        ),
        pytest.param(
            lambda s: s.cluster_queues.upsert(cluster_queue("cq").checks("mk").annotations(SAYS).version(9).build()),
            id="a ClusterQueue",
        ),
        pytest.param(
            lambda s: s.checks.upsert(admission_check("mk").config("mk").annotations(SAYS).version(9).build()),
            id="an AdmissionCheck",
        ),
    ],
)
def test_what_an_annotation_says_to_us_wakes_the_workloads_that_it_is_for(change: Callable[[Store], None]) -> None:
    assert noted_by(change) == ["workload wl"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: s.jobs.upsert(spoken_job({"example.com/x": "1"})), id="a job, to others"),
        pytest.param(
            lambda s: s.local_queues.upsert(local_queue("main", "cq").annotations(x="1").version(9).build()),
            id="a LocalQueue, to others",
        ),
        pytest.param(
            lambda s: s.local_queues.upsert(local_queue("other", "cq").annotations(SAYS).build()),
            id="another LocalQueue",
        ),
        pytest.param(
            lambda s: s.checks.upsert(admission_check("mk").config("mk").annotations(x="1").version(9).build()),
            id="an AdmissionCheck, to others",
        ),
    ],
)
def test_what_is_said_to_others_wakes_nobody(change: Callable[[Store], None]) -> None:
    assert noted_by(change) == []


def spoken_job(annotations: dict[str, str]) -> Job:
    return job("job").queue("main").suspended().managed_by().annotations(annotations).version(9).build()


def test_a_workload_with_a_winner_hears_of_its_placement_no_more() -> None:
    store, noted = stored()
    store.placements.begin()
    assert store.placement_for(store.workloads.get(KEY), option="gpu") is not None  # type: ignore[arg-type]
    store.placements.placements.upsert(_placement("1"))
    assert noted.keys == ["workload wl"]
    store.workloads.upsert(local().check("mk", "Ready").cluster_name("w1").version(7).build())
    noted.keys.clear()
    store.placements.placements.remove(_placement("2"))
    assert noted.keys == []


def _placement(version: str) -> Placement:
    return Placement(metadata=ObjectMeta(name="gpu", namespace="kueue-system", uid="p", resource_version=version))


def test_the_clusters_of_a_source_look_again_when_it_changes() -> None:
    store, noted = stored()
    store.clusters.upsert(multikueue_cluster("w1").path("/k").version(9).build())
    store.clusters.upsert(multikueue_cluster("w2").profile("p").version(9).build())
    store.clusters.upsert(multikueue_cluster("w3").secret("s").version(9).build())
    store.clusters.upsert(MultiKueueCluster(metadata=ObjectMeta(name="w4", uid="w4")))
    changes: list[tuple[Callable[[], None], list[str]]] = [
        (lambda: store.source_changed("Path", "/k"), ["cluster w1"]),
        (lambda: store.profiles.upsert(ClusterProfile(metadata=ObjectMeta(name="p", uid="p"))), ["cluster w2"]),
        (lambda: store.secrets.upsert(secret("s").version(9).build()), ["cluster w3"]),
        (lambda: store.source_changed("Path", "p"), []),
    ]
    for change, told in changes:
        noted.keys.clear()
        change()
        assert noted.keys == told


@pytest.mark.parametrize(
    ("should_wait_for_pods", "told"),
    [(False, ["job job"]), (True, ["job job", "workload wl"])],
    ids=["nobody looks at pods", "pods are waited for"],
)
def test_ready_pods_concern_a_workload_only_where_they_are_waited_for(
    should_wait_for_pods: bool, told: list[str]
) -> None:
    store, noted = stored(should_wait_for_pods=should_wait_for_pods)
    submitted = job("job").queue("main").suspended().managed_by()
    store.jobs.upsert(submitted.running(active=1, ready=1).version(2).build())
    assert noted.keys == told


JOB = JobKey("Job.batch", "default", "job")


def test_what_a_jobs_reconcile_wrote_and_has_no_consequences_does_not_wake_it() -> None:
    store, noted = stored()
    store.jobs.upsert(job("j").version(1).build())
    noted.keys.clear()
    with store.writing(JobKey("Job.batch", "default", "j")) as take_in:
        take_in(job("j").version(2).running(active=1).build())
    assert "job j" not in noted.keys
    store.jobs.upsert(job("j").version(3).running(active=2).build())
    assert "job j" in noted.keys


def test_a_job_that_its_own_reconcile_starts_wakes_nobody() -> None:
    store, noted = stored()
    submitted = job("job").queue("main").managed_by()
    with store.writing(JOB) as take_in:
        take_in(submitted.generation(2).version(2).build())
    assert noted.keys == []


def test_a_job_that_is_changed_while_its_own_reconcile_starts_it_wakes_all() -> None:
    store, noted = stored()
    submitted = job("job").queue("main").managed_by()
    with store.writing(JOB) as take_in:
        store.jobs.upsert(submitted.parallelism(2).generation(2).version(2).build())
        take_in(submitted.parallelism(2).generation(3).version(3).build())
    assert noted.keys == ["job job", "workload wl"]


def test_pods_that_are_not_needed_again_concern_the_workload() -> None:
    store, noted = stored()
    submitted = job("job").queue("main").suspended().managed_by().parallelism(2).completions(2)
    store.jobs.upsert(submitted.running(active=2).version(2).build())
    for version, told in ((3, ["job job", "workload wl"]), (4, ["job job"])):
        noted.keys.clear()
        store.jobs.upsert(with_status(submitted.version(version).build(), {"succeeded": 1}))
        assert noted.keys == told


def test_a_job_is_copied_once_it_is_stopped_wholly() -> None:
    store, noted = stored()
    submitted = job("job").queue("main").suspended().managed_by()
    store.jobs.upsert(submitted.annotations({STOPPING_ANNOTATION: "true"}).version(2).build())
    assert not case_in(store).may_copy_job
    noted.keys.clear()
    store.jobs.upsert(submitted.version(3).build())
    assert case_in(store).may_copy_job
    assert noted.keys == ["job job", "workload wl"], "its generation says nothing of that"


def test_a_job_that_others_manage_is_a_problem() -> None:
    store, _ = stored()
    store.jobs.upsert(job("job").queue("main").managed_by("example.com/other").version(9).build())
    assert case_in(store).problem.startswith("The owner is not managed by Kueue: Expecting spec.managedBy to be")


def test_an_owner_of_an_unknown_kind_is_a_problem() -> None:
    store, _ = stored()
    stranger = workload("wl").owned_by(api_version="example.com/v1", kind="Thing", name="t", uid="u").check("mk")
    store.workloads.upsert(stranger.version(9).build())
    assert case_in(store).problem == 'No multikueue adapter found for owner kind "example.com/v1, Kind=Thing"'


def test_a_remote_job_wakes_its_workload_and_the_local_job() -> None:
    store, noted = stored()
    store.jobs.upsert(job("job").queue("main").managed_by().version(2).build())
    noted.keys.clear()
    store.worker("w1").jobs.upsert(job("job").origin().prebuilt("wl").build())
    assert noted.keys == ["job job", "workload wl"]
    assert store.worker("w1").job_of(KEY) is not None


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        (job("job").suspended(), job("job"), []),
        (job("job").suspended(), job("job").running(active=1), ["job job"]),
        (job("job").suspended(), job("job").complete(), ["job job"]),
        (job("job"), job("job"), ["job job"]),
    ],
    ids=[
        "one that only waits there, before it is started here",
        "one that has pods",
        "one that is over",
        "one that waits there and is started here",
    ],
)
def test_a_remote_job_wakes_the_local_one_when_it_has_something_to_say(
    here: JobBuilder, there: JobBuilder, told: list[str]
) -> None:
    store, noted = stored()
    store.jobs.upsert(here.queue("main").managed_by().version(2).build())
    noted.keys.clear()
    store.worker("w1").jobs.upsert(there.origin().prebuilt("wl").build())
    assert noted.keys == [*told, "workload wl"]


def test_pods_of_the_winner_s_job_are_no_news_to_a_workload_that_runs_there() -> None:
    store, noted = stored()
    runs = local().admitted().cluster_name("w1").version(9)
    store.workloads.upsert(runs.build())
    there = job("job").origin().prebuilt("wl")
    store.worker("w1").jobs.upsert(there.build())
    noted.keys.clear()
    store.worker("w1").jobs.upsert(there.running(active=1).version(2).build())
    assert "workload wl" not in noted.keys
    store.workloads.upsert(runs.evicted("Preempted").version(10).build())
    noted.keys.clear()
    store.worker("w1").jobs.upsert(there.version(3).build())
    assert "workload wl" in noted.keys, "its pods are gone, and it waits for that"


def test_a_remote_job_says_nothing_more_to_a_local_one_that_is_over() -> None:
    store, noted = stored()
    copied_job = job("job").origin().prebuilt("wl").build()
    store.worker("w1").jobs.upsert(copied_job)
    store.jobs.upsert(job("job").queue("main").managed_by().complete().version(5).build())
    noted.keys.clear()
    store.worker("w1").jobs.remove(copied_job)
    assert noted.keys == ["workload wl"]


def test_a_loser_that_leaves_is_no_news_once_the_winner_is_recorded() -> None:
    store, noted = stored()
    for name in ("w1", "w2"):
        store.worker(name).workloads.upsert(workload("wl").origin().build())
    store.workloads.upsert(local().check("mk", "Ready").cluster_name("w1").version(7).build())
    noted.keys.clear()
    store.worker("w2").workloads.remove(workload("wl").origin().build())
    assert noted.keys == []
    store.worker("w1").workloads.remove(workload("wl").origin().build())
    assert noted.keys == ["workload wl"]


def test_a_worker_coming_or_going_wakes_what_it_concerns() -> None:
    store, noted = stored()
    store.worker("w2").isolated()
    assert noted.keys == ["cluster w2", "workload wl"]
    noted.keys.clear()
    store.worker("w9").connected()
    assert noted.keys == ["cluster w9"]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(lambda made: made.nominated("w9"), id="a nomination"),
        pytest.param(lambda made: made.cluster_name("w9"), id="a winner"),
        pytest.param(
            lambda made: made.condition(FAILED_ON, message="w9 at 2026-01-01T12:00:00Z"), id="an attempt that failed"
        ),
    ],
)
def test_a_worker_out_of_the_configuration_wakes_those_that_name_it(
    names: Callable[[WorkloadBuilder], WorkloadBuilder],
) -> None:
    """It may hold a job of theirs, until it was seen."""
    store, noted = stored()
    store.workloads.upsert(names(local()).version(7).build())
    for change in (store.worker("w9").connected, store.worker("w9").isolated):
        noted.keys.clear()
        change()
        assert noted.keys == ["cluster w9", "workload wl"]
    store.workloads.upsert(names(local()).finished().version(8).build())
    noted.keys.clear()
    store.worker("w9").connected()
    assert noted.keys == ["cluster w9"]


def test_a_worker_that_is_forgotten_wakes_those_that_name_it() -> None:
    store, noted = stored()
    store.worker("w9")
    store.workloads.upsert(local().nominated("w9").version(7).build())
    noted.keys.clear()
    assert store.forget_worker("w9")
    assert noted.keys == ["workload wl"]


def test_a_worker_that_falls_silent_or_answers_again_wakes_what_it_may_win() -> None:
    store, noted = stored()
    store.worker("w1").workloads.upsert(workload("wl").origin().reserved().admitted().build())
    noted.keys.clear()
    for silent in (True, True, False, False):
        (store.worker("w1").fell_silent if silent else store.worker("w1").answered)()
        assert store.worker("w1").link.is_silent is silent
    assert noted.keys == ["workload wl"] * 2
    store.workloads.upsert(local().check("mk", "Ready").cluster_name("w1").version(7).build())
    noted.keys.clear()
    store.worker("w1").fell_silent()
    assert noted.keys == []


def test_a_change_of_the_configuration_wakes_check_and_workloads() -> None:
    store, noted = stored()
    store.configs.upsert(multikueue_config("mk", "w1").version(9).build())
    assert noted.keys == ["check mk", "workload wl"]


def test_a_local_queue_that_is_stopped_concerns_its_workloads_and_no_job() -> None:
    """Whether a job is dispatched is asked of the ClusterQueue that it leads to."""
    store, noted = stored()
    noted.keys.clear()
    store.local_queues.upsert(local_queue("main", "cq").stopped().version(9).generation(9).build())
    assert noted.keys == ["queue cq", "workload wl"]
    noted.keys.clear()
    store.local_queues.upsert(local_queue("main", "elsewhere").version(10).generation(10).build())
    assert noted.keys == ["queue elsewhere", "workload wl", "job job"]


def test_a_workload_that_moves_to_another_queue_concerns_both() -> None:
    store, noted = stored()
    store.cluster_queues.upsert(cluster_queue("elsewhere").build())
    store.local_queues.upsert(local_queue("other", "elsewhere").build())
    noted.keys.clear()
    store.workloads.upsert(local().queue("other").version(9).build())
    assert {key for key in noted.keys if key.startswith("queue")} == {"queue cq", "queue elsewhere"}


def test_what_was_admitted_elsewhere_counts_there_though_its_local_queue_leads_to_another_queue_now() -> None:
    store, noted = stored()
    queue = store.local_queues.get(ObjectKey("default", "main"))
    assert queue is not None
    store.local_queues.remove(queue)
    store.local_queues.upsert(local_queue("main", "elsewhere").uid("new").version(8).build())
    noted.keys.clear()
    store.workloads.upsert(local().finished().version(9).build())
    assert {key for key in noted.keys if key.startswith("queue")} == {"queue cq", "queue elsewhere"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda s: s.cluster_queues.upsert(cluster_queue("cq").version(9).generation(2).build()), id="named"
        ),
        pytest.param(lambda s: s.cluster_queues.remove(s.cluster_queues.get(ObjectKey("", "cq"))), id="there"),
    ],
)
def test_a_check_and_a_flavor_are_looked_at_when_the_queue_is_no_more_or_names_them_no_more(
    change: Callable[[Store], None],
) -> None:
    store, noted = stored()
    store.cluster_queues.upsert(cluster_queue("cq").checks("mk").quota("default", cpu=1).version(5).build())
    noted.keys.clear()
    change(store)
    assert {"check mk", "flavor default"} <= set(noted.keys)


def test_a_flavor_is_looked_at_when_it_comes_and_when_it_changes() -> None:
    store, noted = stored()
    store.flavors.upsert(flavor("default").build())
    assert "flavor default" in noted.keys


def test_a_workload_counts_where_it_was_admitted_even_if_its_local_queue_is_gone() -> None:
    store, noted = stored()
    queue = store.local_queues.get(ObjectKey("default", "main"))
    assert queue is not None
    store.local_queues.remove(queue)
    noted.keys.clear()
    store.workloads.upsert(local().finished().version(9).build())
    assert "queue cq" in noted.keys


def test_a_priority_class_wakes_the_workloads_that_name_it() -> None:
    store, noted = stored()
    store.workloads.upsert(local().priority(5, workload_class="high").version(9).build())
    store.workloads.upsert(workload("own").queue("main").priority(5, workload_class="high").build())
    store.workloads.upsert(workload("other").queue("main").priority(5, workload_class="low").build())
    noted.keys.clear()
    store.priority_classes.upsert(WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=9))
    assert sorted(noted.keys) == ["workload own", "workload wl"]


def test_limits_of_a_namespace_reach_the_engine_and_wake_the_admission() -> None:
    store, noted = stored()
    store.workloads.upsert(workload("small").queue("main").request(cpu=1).build())
    bounds = LimitRangeItem(type="Container", min={"cpu": "2"})
    limits = LimitRange(metadata=ObjectMeta(name="limits", namespace="default"), spec=LimitRangeSpec(limits=(bounds,)))
    noted.admissions = 0

    store.limit_ranges.upsert(limits)
    assert "LimitRange" in _demand_of(store, "small").problem
    store.limit_ranges.remove(limits)
    assert _demand_of(store, "small").problem == ""
    assert noted.admissions == 2


def test_limits_that_are_none_are_set_aside_and_change_nothing() -> None:
    store, _ = stored()
    store.workloads.upsert(workload("w").queue("main").request(cpu=1).build())
    bounds = LimitRangeItem(type="Container", min={"cpu": "two"})
    limits = LimitRange(metadata=ObjectMeta(name="limits", namespace="default"), spec=LimitRangeSpec(limits=(bounds,)))

    store.limit_ranges.upsert(limits)
    assert "two" in store.limit_ranges.unreadable[limits.key]
    assert _demand_of(store, "w").problem == ""


def test_a_cohort_concerns_the_queues_of_its_tree_before_and_after() -> None:
    store, noted = stored()
    for name in ("left", "right", "other"):
        store.cluster_queues.upsert(cluster_queue(f"of-{name}").cohort(name).build())
    store.cohorts.upsert(cohort("left").parent("root").build())
    noted.keys.clear()

    store.cohorts.upsert(cohort("left").parent("right").version(9).generation(2).build())
    assert sorted(noted.keys) == ["cohort left", "queue of-left", "queue of-right"]
    noted.keys.clear()

    store.cohorts.remove(cohort("left").build())
    assert sorted(noted.keys) == ["cohort left", "queue of-left", "queue of-right"]


def test_the_overhead_of_a_runtime_class_reaches_the_engine() -> None:
    store, _ = stored()
    template = b'{"spec": {"runtimeClassName": "heavy", "containers": [{"name": "c"}]}}'
    store.workloads.upsert(workload("w").queue("main").pod_sets(pod_set().template(template)).build())
    heavy = RuntimeClass(metadata=ObjectMeta(name="heavy"), overhead=Overhead(pod_fixed={"cpu": "1"}))

    store.runtime_classes.upsert(heavy)
    assert [each.requests for each in _demand_of(store, "w").pod_sets] == [{"cpu": 1000}]
    store.runtime_classes.remove(heavy)
    assert [each.requests for each in _demand_of(store, "w").pod_sets] == [{}]


def test_what_devices_are_counted_by_reaches_the_engine_and_wakes_the_admission() -> None:
    store, noted = stored(Engine(EngineRules(devices=DeviceRules(of_class={"gpu": "gpu"}))))
    pods = pod_set().template(claiming("one", extended=1))
    store.workloads.upsert(workload("w").queue("main").pod_sets(pods).build())
    noted.admissions = 0

    store.claim_templates.upsert(claim_template("one", devices("gpu", 2)))
    store.device_classes.upsert(device_class("gpu"))
    assert [each.requests for each in _demand_of(store, "w").pod_sets] == [{"gpu": 3}]
    store.device_classes.remove(device_class("gpu"))
    store.claim_templates.remove(claim_template("one"))
    assert "is not there" in _demand_of(store, "w").problem
    assert noted.admissions == 4


def _demand_of(store: Store, name: str) -> Demand:
    """After a cycle, which counts those again for whom something changed."""
    store.engine.scheduler.cycle(NOW)
    waiting = store.engine.view.pending_workload(workload(name).build().key)
    assert waiting is not None
    return waiting.demand


# Groups of Pods.

WITH_PODS = Adapters((BATCH_JOB, PLAIN_POD))


def with_group(*local: Pod, noted: Noted | None = None) -> tuple[Store, Workload]:
    """A store with this group and its Workload."""
    known = Store(Engine(), noted or Noted(), lambda: NOW, adapters=WITH_PODS)
    for each in local:
        known.open_jobs(PODS).upsert(each)
    (gathered,) = (each for each in known.jobs if isinstance(each, PodGroup))
    made: Workload = decoder(Workload)(encode(POD_GROUP.workload_body(gathered, priority=Priority())))
    known.workloads.upsert(made)
    return known, made


def test_a_list_of_many_members_gathers_their_group_once_here_and_on_a_worker() -> None:
    """However many events there are, the group is looked at when it is asked for, and its job's key is noted."""
    noted = Noted()
    store, made = with_group(member("m0"), noted=noted)
    noted.keys.clear()
    members = [member(f"m{number}") for number in range(4000)]
    store.jobs.of(PODS).replace(members)
    store.worker("w1").jobs.of(PODS).replace(list(map(copied, members)))

    assert {"job g"} <= set(noted.keys)
    here, there = store.local_job(made), store.worker("w1").job_of(made.key)

    assert isinstance(here, PodGroup)
    assert isinstance(there, PodGroup)
    assert (len(here.members), len(there.members)) == (4000, 4000)
    assert (here.version, there.version) == (2, 1)


def test_a_copy_that_kueue_lets_go_of_has_the_workload_looked_at_before_its_group_is_asked_for() -> None:
    noted = Noted()
    store, made = with_group(member("a"), noted=noted)
    pods = store.worker("w1").jobs.of(PODS)
    leaving = copied(member("a"))
    leaving = msgspec.structs.replace(
        leaving, metadata=msgspec.structs.replace(leaving.metadata, deletion_timestamp=NOW, resource_version="8")
    )
    pods.upsert(leaving)
    noted.keys.clear()
    released = msgspec.structs.replace(leaving.metadata, finalizers=(), resource_version="9")
    pods.upsert(msgspec.structs.replace(leaving, metadata=released))
    assert f"workload {made.metadata.name}" in noted.keys


def copied(pod: Pod) -> Pod:
    """Its copy on a worker."""
    meta = pod.metadata
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(meta, labels=meta.labels | {PREBUILT_LABEL: "g", ORIGIN_LABEL: "multikueue"}),
    )


def test_a_group_is_the_job_of_the_workload_that_all_its_members_own() -> None:
    known, made = with_group(member("a"), member("b"))
    found = known.local_job(made)

    assert known.owner(made) == JobKey("PodGroup", "default", "g")
    assert isinstance(found, PodGroup)
    assert known.owned(found) == (made,)
    assert Views(known).case(made.key, DecisionRules()).problem == ""


def test_a_group_on_a_worker_is_one_job_that_may_lack_members() -> None:
    known, made = with_group(member("a"), member("b"))
    jobs = known.worker("w1").jobs
    jobs.upsert(copied(member("a")))
    held = known.worker("w1").job_of(made.key)
    assert isinstance(held, PodGroup)
    assert Views(known).seen(made.key, "w1").job_state.is_incomplete
    jobs.upsert(copied(member("b")))
    assert not Views(known).seen(made.key, "w1").job_state.is_incomplete
    assert known.worker("w1").held() == {made.key}


def test_groups_are_of_no_api_and_lacking_where_pods_are() -> None:
    known, _made = with_group(member("a"), member("b"))
    known.worker("w1").record_watch(PODS, "you may not", NOW)

    assert known.jobs.kinds == known.worker("w1").jobs.kinds == (JOBS, PODS)
    assert Views(known).shown("w1", PODS.name, "default").why == "you may not"


def test_the_workload_of_a_stateful_set_is_its_own_and_that_of_the_group_of_its_pods() -> None:
    noted = Noted()
    known = Store(Engine(), noted, lambda: NOW, adapters=Adapters((BATCH_JOB, PLAIN_POD, STATEFUL_SET)))
    owner = StatefulSet(metadata=ObjectMeta(name="g", namespace="default", uid="uid-set", resource_version="1"))
    known.open_jobs(STATEFUL_SETS).upsert(owner)
    made: Workload = decoder(Workload)(encode(STATEFUL_SET.workload_body(owner, priority=Priority())))
    known.open_jobs(PODS).upsert(member("a", labels={GROUP_LABEL: made.metadata.name}))
    noted.keys.clear()
    known.workloads.upsert(made)
    (group,) = (each for each in known.jobs if isinstance(each, PodGroup))

    assert known.owner(made) == JobKey("StatefulSet.apps", "default", "g")
    assert known.local_job(made) is owner
    assert known.owned(owner) == known.owned(group) == (made,)
    assert Views(known).case(made.key, DecisionRules()).problem == ""
    assert [key for key in noted.keys if key.startswith("job")] == ["job g", f"job {made.metadata.name}"]


# Jobs that belong to others.


def family() -> tuple[Store, Noted]:
    """The job of `stored` with a child and a grandchild."""
    store, noted = stored()
    for name, above in (("child", "job"), ("grandchild", "child")):
        owner = store.jobs.get(JobKey(JOBS.name, "default", above))
        assert owner is not None
        made = job(name).owned_by(api_version="batch/v1", kind="Job", name=above, uid=owner.metadata.uid)
        store.jobs.upsert(made.build())
    noted.keys.clear()
    return store, noted


def woken(noted: Noted) -> set[str]:
    return {key for key in noted.keys if "child" in key}


BELOW = {"job child", "job grandchild"}
PARENT = JobKey(JOBS.name, "default", "job")
FAMILY_NEWS: dict[str, tuple[Callable[[Store], None], set[str]]] = {
    "its workload is admitted": (lambda store: store.workloads.upsert(local().admitted().version(2).build()), BELOW),
    "its workload is gone": (lambda store: store.workloads.remove(local().build()), BELOW),
    "its workload says something else": (
        lambda store: store.workloads.upsert(local().check("mk", "Retry").version(2).build()),
        set(),
    ),
    "it is gone": (lambda store: store.jobs.remove(job("job").build()), BELOW),
    "it leaves its queue": (lambda store: store.jobs.upsert(job("job").version(2).build()), BELOW),
    "it gets a controller": (
        lambda store: store.jobs.upsert(
            job("job").queue("main").owned_by(api_version="a/v1", kind="A", name="a", uid="a").version(2).build()
        ),
        BELOW,
    ),
    "its pods run": (lambda store: store.jobs.upsert(job("job").queue("main").running().version(2).build()), set()),
}


@pytest.mark.parametrize(("news", "expected"), FAMILY_NEWS.values(), ids=FAMILY_NEWS)
def test_what_belongs_to_a_job_looks_again_when_that_stands_otherwise(
    news: Callable[[Store], None], expected: set[str]
) -> None:
    store, noted = family()
    news(store)
    assert woken(noted) == expected


def test_what_belongs_to_a_job_that_comes_later_looks_again_then() -> None:
    store, noted = family()
    parent = store.jobs.get(PARENT)
    assert parent is not None
    store.jobs.of(JOBS).replace([each for each in store.jobs if each is not parent])
    noted.keys.clear()
    store.jobs.of(JOBS).replace([*store.jobs, parent])
    assert woken(noted) == BELOW


def test_a_job_is_admitted_with_what_it_belongs_to() -> None:
    store, _ = family()
    (child,) = [each for each in store.jobs if each.metadata.name == "child"]
    assert store.nesting.of(child) is Nested.WAITING
    store.workloads.upsert(local().admitted().version(2).build())
    assert store.nesting.of(child) is Nested.ADMITTED


# --- jobs that run on the manager cluster ---


@pytest.mark.parametrize("first", ["the copy", "the job"])
def test_a_plan_goes_with_the_last_of_what_is_over(first: str) -> None:
    store, _ = stored()
    done = local().finished().version(2).build()
    copy, copied_job = workload("wl").origin().build(), job("job").prebuilt("wl").build()
    store.workloads.upsert(done)
    worker = store.worker("w1")
    worker.workloads.upsert(copy)
    worker.jobs.upsert(copied_job)
    gone = Absent(cluster="w1", why="finished", uids=frozenset({copy.metadata.uid, copied_job.metadata.uid}))
    store.plans.put(KEY, Plan(local=done, attempt="", at=NOW, desired=(gone,)))
    steps = [partial(worker.workloads.remove, copy), partial(worker.jobs.remove, copied_job)]
    for remove in steps if first == "the copy" else reversed(steps):
        assert store.plans.get(KEY) is not None
        remove()
    assert store.plans.get(KEY) is None
    assert store._places._of == {}


@pytest.mark.parametrize("left", [local().version(2).build(), None], ids=["it goes on", "it is gone"])
def test_a_plan_stays_without_a_copy_as_long_as_its_workload_goes_on(left: Workload | None) -> None:
    store, _ = stored()
    copies, copy = store.worker("w1").workloads, workload("wl").origin().build()
    copies.upsert(copy)
    if left is None:
        store.workloads.remove(local().build())
    else:
        store.workloads.upsert(left)
    gone = Absent(cluster="w1", why="not wanted there", uids=frozenset({copy.metadata.uid}))
    store.plans.put(KEY, Plan(local=left, attempt="", at=NOW, desired=(gone,)))
    copies.remove(copy)
    assert (store.plans.get(KEY) is not None) is (left is not None)


@pytest.mark.parametrize("is_written", [False, True], ids=["and nothing is decided", "while a decision is written"])
def test_a_copy_that_the_plan_asked_for_is_news_only_to_a_decision_under_way(is_written: bool) -> None:
    """The decision was made without it, so another worker may have won, and nothing would remove the copy."""
    store, noted = stored()
    reserved = local().reserved().version(2).build()
    store.workloads.upsert(reserved)
    attempt = attempt_of(reserved)
    asked = Copied(cluster="w1", why="nominated")
    store.plans.put(KEY, Plan(local=reserved, attempt=attempt, at=NOW, desired=(asked,)))
    noted.keys.clear()
    if is_written:
        store.writes(KEY, reserved.status)
    store.worker("w1").workloads.upsert(workload("wl").attempt(attempt).origin().build())
    assert [key for key in noted.keys if key.startswith("workload ")] == (["workload wl"] if is_written else [])


@pytest.mark.parametrize("is_written", [False, True], ids=["and nothing is decided", "while a decision is written"])
def test_the_end_of_a_copy_that_the_plan_gives_up_is_news_only_to_a_decision_under_way(is_written: bool) -> None:
    """The decision was made with it, and may want it: nothing else would make it again (seed 7002342)."""
    store, noted = stored()
    reserved = local().reserved().version(2).build()
    store.workloads.upsert(reserved)
    attempt, worker = attempt_of(reserved), store.worker("w1")
    copy = workload("wl").attempt(attempt).origin().build()
    worker.workloads.upsert(copy)
    given_up = Absent(cluster="w1", why="not wanted there", uids=frozenset({copy.metadata.uid}))
    store.plans.put(KEY, Plan(local=reserved, attempt=attempt, at=NOW, desired=(given_up,)))
    noted.keys.clear()
    if is_written:
        store.writes(KEY, reserved.status)
    worker.workloads.remove(copy)
    assert [key for key in noted.keys if key.startswith("workload ")] == (["workload wl"] if is_written else [])


@pytest.mark.parametrize(
    ("cluster", "is_news"),
    [(None, False), ("w2", False), ("", True)],
    ids=["and nothing is decided", "while the same win is written", "while the win is taken back"],
)
def test_the_end_of_a_losers_copy_is_news_only_to_a_decision_that_may_need_it(
    cluster: str | None, is_news: bool
) -> None:
    store, noted = stored()
    won = local().reserved().cluster_name("w2").version(2).build()
    store.workloads.upsert(won)
    worker, copy = store.worker("w1"), workload("wl").attempt(attempt_of(won)).origin().build()
    worker.workloads.upsert(copy)
    noted.keys.clear()
    if cluster is not None:
        store.writes(KEY, msgspec.structs.replace(won.status, cluster_name=cluster or None))
    worker.workloads.remove(copy)
    assert [key for key in noted.keys if key.startswith("workload ")] == (["workload wl"] if is_news else [])


@pytest.mark.parametrize("is_reached", [False, True], ids=["not reached yet", "reached before the record was read"])
def test_who_begins_gives_a_worker_whose_loss_is_recorded_a_minute(is_reached: bool) -> None:
    store = Store(Engine(), NoQueues(), lambda: NOW)
    worker, minute, timeout = store.worker("w1"), timedelta(minutes=1), timedelta(minutes=15)
    if is_reached:
        worker.connected()
        worker.suspected(NOW)
    worker.recorded(NOW - timedelta(days=1))
    assert worker.link.lost_at(timeout) == NOW + minute
    worker.connected()
    worker.suspected(NOW + minute)
    assert worker.link.lost_at(timeout) == NOW + minute + timeout


def test_on_a_standby_no_worker_is_lost_and_to_a_leader_each_as_any_other() -> None:
    store = Store(Engine(), NoQueues(), lambda: NOW)
    known, timeout = store.worker("w1"), timedelta(minutes=15)
    store.stand_by()
    met = store.worker("w2")
    for worker in (known, met):
        assert not worker.is_lost(NOW + timedelta(days=1), timeout)
    store.lead()
    for worker in (known, met, store.worker("w3")):
        assert worker.link.lost_at(timeout) == NOW + timeout


def _copy_there(worker: WorkerView) -> None:
    worker.workloads.upsert(local().origin().build())


def _job_there(worker: WorkerView) -> None:
    worker.jobs.upsert(job("job").origin().prebuilt("wl").build())


def _job_asked_for(worker: WorkerView) -> None:
    worker.ask_for_job(KEY, Asked("attempt", NOW))


@pytest.mark.parametrize("put", [_copy_there, _job_there, _job_asked_for], ids=lambda put: put.__name__)
@pytest.mark.parametrize("is_reachable", [True, False], ids=["connected", "away"])
def test_a_worker_with_something_of_ours_is_not_forgotten(
    put: Callable[[WorkerView], None], is_reachable: bool
) -> None:
    store, _ = stored()
    worker = store.worker("w9")
    worker.connected()
    if not is_reachable:
        worker.disconnected("its MultiKueueCluster is gone", NOW)
    put(worker)
    assert not store.forget_worker("w9")
    assert store.workers["w9"].may_have(KEY)
    worker.forget()
    assert store.forget_worker("w9")


NEEDED: dict[str, Callable[[Store], None]] = {
    "it is registered": lambda store: store.clusters.upsert(multikueue_cluster("w9").build()),
    "a config names it": lambda store: store.configs.upsert(multikueue_config("other", "w9").build()),
    "a workload was won there": lambda store: store.workloads.upsert(local().cluster_name("w9").version(7).build()),
}


@pytest.mark.parametrize("need", NEEDED.values(), ids=NEEDED)
def test_a_worker_that_is_needed_is_not_forgotten(need: Callable[[Store], None]) -> None:
    store, _ = stored()
    store.worker("w9").connected()
    need(store)
    assert not store.forget_worker("w9")
    assert "w9" in store.workers
    assert not store.forget_worker("one that was never there")


# Queues of workers.


def test_a_worker_is_doubted_when_a_queue_begins_to_lead_there_and_when_a_copy_says_that_its_queue_is_closed() -> None:
    store, _ = stored()
    doubts: list[bool] = []
    store.closed_queues.when_doubted("w1", doubts.append)
    assert doubts == [True]
    store.local_queues.upsert(local_queue("another", "cq").build())
    assert doubts == [True] * 2
    store.local_queues.upsert(local_queue("elsewhere", "nowhere").build())
    assert doubts == [True] * 2
    store.cluster_queues.upsert(cluster_queue("cq").version(9).checks().build())
    store.cluster_queues.upsert(cluster_queue("cq").version(10).checks("mk").build())
    assert doubts == [True] * 3
    copy = workload("wl").queue("lq").origin()
    store.worker("w1").workloads.upsert(copy.unreserved(message="no room").build())
    assert doubts == [True] * 3
    store.worker("w1").workloads.upsert(copy.version(9).unreserved(message="LocalQueue lq doesn't exist").build())
    assert doubts == [True] * 4


def test_a_queue_that_closes_or_opens_wakes_the_workloads_that_wait_for_a_worker() -> None:
    store, noted = stored()
    queues = store.closed_queues
    queues.when_doubted("w1", lambda _is_doubted: None)
    seen = queues.watch("w1", [("clusterqueues", ""), ("localqueues", "")])
    store.workloads.upsert(local().version(9).reserved("cq").build())
    store.workloads.upsert(workload("waits-for-quota").queue("main").build())
    store.workloads.upsert(workload("won").queue("main").reserved("cq").cluster_name("w2").build())
    noted.keys.clear()
    seen.report("clusterqueues", "", stands=True)
    seen.report("localqueues", "", stands=True)
    assert noted.keys == ["workload wl"]
    assert case_in(store).closed == {"w1": "LocalQueue main doesn't exist"}
    queues.unwatch("w1", seen)
    assert noted.keys == ["workload wl"] * 2
    assert case_in(store).closed == {}
