"""Who belongs to whom among the jobs of the manager cluster, by their controllers."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob, Job
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS, PODS, STATEFUL_SETS
from multikueue.api.meta import OwnerReference
from multikueue.jobs.framework.nesting import MOST_HOPS, Nested
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.store.caches.jobs import JobCaches
from multikueue.store.caches.nesting import CONTROLLER, Nesting, controllers
from tests.builders import JobBuilder, job
from tests.jobs.gadgets import GADGETS, GadgetJob, gadget
from tests.jobs.kinds.pods import builders as pods

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
