"""Jobs of several kinds in one cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob, CustomJob, Job, JobKey
from multikueue.api.jobs.pod import GROUP_LABEL, Pod
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, POD_GROUPS, PODS, STATEFUL_SETS
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.meta import ObjectKey, ObjectMeta, OwnerReference, encode
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.nesting import MOST_HOPS, Nested
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, FRAMEWORKS, Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.store.caches.jobs import CONTROLLER, JobCaches, Nesting, Runtimes, controllers
from multikueue.store.workers.known_objects import prebuilt_key
from tests.builders import JobBuilder, job
from tests.jobs.all_kinds import RUNTIME, body
from tests.jobs.gadgets import GADGETS, WITH_GADGETS, GadgetJob, gadget
from tests.jobs.kinds.pods import builders as pods

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


TRAIN_JOB = FRAMEWORKS["trainer.kubeflow.org/trainjob"]
ADAPTERS = Adapters((FRAMEWORKS["batch/job"], TRAIN_JOB))


def _quiet(*_: Any) -> None:
    """Nobody asks."""


def runtime(name: str, *, version: int = 1) -> AnyJob:
    assert TRAIN_JOB.runtimes is not None
    meta = ObjectMeta(name=name, uid=name, resource_version=str(version))
    kind = next(each for each in TRAIN_JOB.runtimes.kinds if not each.namespaced)
    made: AnyJob = kind.type(metadata=meta, spec=msgspec.Raw(encode(RUNTIME | {"seen": version})))
    return made


def naming(runtime: str, *, name: str) -> AnyJob:
    spec = body(TRAIN_JOB)["spec"] | {"runtimeRef": {"name": runtime}}  # type: ignore[arg-type]
    meta = ObjectMeta(name=name, namespace="default", uid=name, resource_version="1")
    made: AnyJob = TRAIN_JOB.kind.type(metadata=meta, spec=msgspec.Raw(encode(spec)))
    return made


def test_a_job_is_completed_with_its_runtime_and_told_of_when_it_changes() -> None:
    told: list[JobKey] = []
    jobs = JobCaches(ADAPTERS, _quiet)
    runtimes = Runtimes(ADAPTERS, jobs, told.append)
    cluster = runtimes.of(next(each for each in TRAIN_JOB.runtimes.kinds if not each.namespaced))  # type: ignore[union-attr]
    cluster.upsert(runtime("torch"))
    assert told == [], "no such jobs yet"

    jobs.open(TRAIN_JOB.kind)
    one, other = naming("torch", name="one"), naming("jax", name="other")
    jobs.upsert(one)
    jobs.upsert(other)
    completed = runtimes.completed(one)
    assert isinstance(completed, CustomJob)
    assert msgspec.json.decode(completed.runtime)["seen"] == 1
    assert runtimes.completed(other) is other, "there is no such runtime"

    cluster.upsert(runtime("torch", version=2))
    cluster.remove(runtime("torch", version=2))
    assert told == [JobKey("TrainJob.trainer.kubeflow.org", "default", "one")] * 2
    assert runtimes.completed(one) is one


def test_a_job_of_any_other_kind_is_as_it_is() -> None:
    batch = job("j").build()
    assert Runtimes(ADAPTERS, JobCaches(ADAPTERS, _quiet), _quiet).completed(batch) is batch


ALL = Adapters((BATCH_JOB, GadgetJob(), FRAMEWORKS["pod"], FRAMEWORKS["statefulset"]))
CRON = Kind("batch", "v1", "cronjobs", "CronJob", True, Job)
QUEUE = {"kueue.x-k8s.io/queue-name": "main"}


class Cluster:
    """Jobs of one cluster; `admitted` has the names of those that are."""

    def __init__(self, *opened: Kind[AnyJob], admitted: tuple[str, ...] = ()) -> None:
        self.jobs = JobCaches(ALL, lambda *_: None, indexes={CONTROLLER: controllers})
        for kind in opened:
            self.jobs.open(kind)
        self.nesting = Nesting(ALL, self.jobs, lambda each: each.metadata.name in admitted)

    def put(self, *made: AnyJob) -> None:
        for each in made:
            self.jobs.upsert(each)

    def of(self, name: str) -> Nested | None:
        (found,) = [each for each in self.jobs if each.metadata.name == name]
        return self.nesting.of(found)


def child(name: str, of: AnyJob, kind: Kind[AnyJob] = JOBS, *, uid: str = "", controls: bool = True) -> JobBuilder:
    owner, uid = of.metadata.name, uid or of.metadata.uid
    return job(name).owned_by(api_version=kind.api_version, kind=kind.kind, name=owner, uid=uid, controller=controls)


PARENT = job("parent").queue("main").build()
BARE = job("parent").build()


@pytest.mark.parametrize(
    ("parent", "made", "expected"),
    [
        (PARENT, child("child", PARENT), Nested.WAITING),
        (PARENT, child("child", PARENT).queue("main"), Nested.WAITING),
        (BARE, child("child", BARE).queue("main"), None),
        (PARENT, child("child", PARENT, controls=False).queue("main"), None),
        (PARENT, child("child", PARENT, CRON).queue("main"), None),
        (PARENT, child("child", PARENT, uid="another").queue("main"), None),
        (PARENT, child("child", gadget("g"), GADGETS).queue("main"), Nested.UNSEEN),
        (PARENT, child("child", PARENT, PODS).queue("main"), None),
        (PARENT, child("child", PARENT, STATEFUL_SETS).queue("main"), None),
    ],
    ids=[
        "of a job in a queue",
        "with a queue of its own",
        "of a job in no queue",
        "of one that does not control it",
        "of a kind that is no job",
        "of a job that was there before",
        "of a kind that the cluster lacks",
        "of a Pod",
        "of a StatefulSet",
    ],
)
def test_what_a_job_belongs_to(parent: Job, made: JobBuilder, expected: Nested | None) -> None:
    cluster = Cluster(PODS)
    cluster.put(parent, made.build())
    assert cluster.of("child") is expected
    assert cluster.of("parent") is None


def test_it_is_admitted_when_the_uppermost_one_in_a_queue_is() -> None:
    cluster = Cluster(GADGETS, admitted=("top",))
    top = gadget("top", labels=QUEUE)
    middle = child("middle", top, GADGETS).queue("main").build()
    cluster.put(top, middle, child("child", middle).build())
    assert (cluster.of("child"), cluster.of("middle")) == (Nested.ADMITTED, Nested.ADMITTED)


def test_an_owner_that_only_has_the_name_of_a_job_counts_for_nothing_at_any_level() -> None:
    cluster = Cluster(GADGETS, admitted=("top",))
    top = gadget("top", labels=QUEUE)
    middle = child("middle", top, GADGETS, uid="before").queue("main").build()
    cluster.put(top, middle, child("child", middle).build())
    assert (cluster.of("middle"), cluster.of("child")) == (None, Nested.WAITING), "middle is the uppermost one"


def test_the_job_of_an_owners_name_may_be_another() -> None:
    cluster = Cluster(PODS)
    cluster.put(PARENT, pods.pod("p"))
    is_stale, uid = cluster.nesting.is_stale, PARENT.metadata.uid
    named = OwnerReference(api_version="batch/v1", kind="Job", name="parent", uid=uid, controller=True)
    stale = msgspec.structs.replace(named, uid="another")
    assert [is_stale(PARENT.metadata.namespace, each) for each in (named, stale)] == [False, True]
    assert is_stale("default", OwnerReference(api_version="v1", kind="Pod", name="p", uid="another", controller=True))
    assert not is_stale("elsewhere", stale)
    assert not is_stale("default", msgspec.structs.replace(stale, name="unseen"))
    assert not is_stale("default", msgspec.structs.replace(stale, kind="CronJob"))


def test_a_job_of_the_same_name_in_another_namespace_is_another() -> None:
    cluster = Cluster()
    made = child("child", PARENT).build()
    elsewhere = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, namespace="other"))
    cluster.put(PARENT, elsewhere)
    assert cluster.of("child") is Nested.UNSEEN


def test_pods_are_told_by_other_marks_whose_they_are() -> None:
    cluster = Cluster(PODS, admitted=("parent",))
    pod = pods.pod("p")
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="parent", uid=PARENT.metadata.uid, controller=True)
    owned = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=(owner,)))
    cluster.put(PARENT, owned)
    assert cluster.of("p") is None
    assert list(cluster.nesting.below(PARENT.metadata.uid)) == []


def test_a_circle_is_too_deep() -> None:
    cluster = Cluster()
    one = job("one").queue("main").build()
    two = child("two", one).queue("main").build()
    cluster.put(child("one", two).queue("main").build(), two)
    assert (cluster.of("one"), cluster.of("two")) == (Nested.TOO_DEEP, Nested.TOO_DEEP)
    assert {key.name for key in cluster.nesting.below(one.metadata.uid)} == {"one", "two"}


def test_all_below_a_job_are_found_as_far_as_anybody_looks_up() -> None:
    cluster, above = Cluster(), PARENT
    cluster.put(PARENT)
    for number in range(MOST_HOPS + 1):
        above = child(f"job{number}", above).build()
        cluster.put(above)
    assert [key.name for key in cluster.nesting.below(PARENT.metadata.uid)] == [f"job{n}" for n in range(MOST_HOPS)]
    assert cluster.of(f"job{MOST_HOPS - 1}") is Nested.WAITING
    assert cluster.of(f"job{MOST_HOPS}") is Nested.TOO_DEEP
