"""Who belongs to which family."""

from __future__ import annotations

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, Workload, owner_of
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.families import Families
from multikueue.testing import ClusterQueueBuilder, WorkloadBuilder, cluster_queue, local_queue, workload

PLAIN = cluster_queue("cq").quota("reserved", cpu=1).quota("spot", cpu=9)
PARENT = workload("wl").queue("lq").owner_job("job")
SPOT = workload("wl-spot").queue("lq").variant("wl", "spot")
RESERVED = workload("wl-reserved").queue("lq").variant("wl", "reserved")


def families(*workloads: WorkloadBuilder, queue: ClusterQueueBuilder | None = PLAIN.concurrently()) -> Families:  # noqa: B008
    all_: Cache[Workload] = Cache(indexes={"owner": lambda w: [owner.uid] if (owner := owner_of(w)) else []})
    local_queues: Cache[LocalQueue] = Cache()
    queues: Cache[ClusterQueue] = Cache()
    local_queues.upsert(local_queue("lq", "cq").build())
    if queue is not None:
        queues.upsert(queue.build())
    for each in workloads:
        all_.upsert(each.build())
    return Families(all_, local_queues, queues)


def test_a_parent_and_its_variants_are_one_family_whoever_asks() -> None:
    known = families(PARENT, SPOT, RESERVED)
    found = known.of(PARENT.build())
    assert found is not None
    assert [each.metadata.name for each in found.variants] == ["wl-reserved", "wl-spot"]
    assert found == known.of(SPOT.build())


def test_work_of_a_queue_without_a_policy_has_none() -> None:
    assert families(PARENT, queue=PLAIN).of(PARENT.build()) is None


def test_what_is_left_of_a_policy_is_still_a_family_without_one() -> None:
    found = families(PARENT, SPOT, queue=PLAIN).of(PARENT.build())
    assert found is not None
    assert found.policy is None


def test_an_elastic_job_has_no_variants() -> None:
    assert families().of(PARENT.build()) is not None
    assert families().of(PARENT.annotations({ELASTIC_ANNOTATION: "true"}).build()) is None


def test_while_its_queues_are_unknown_nothing_is_said() -> None:
    assert families(PARENT, SPOT, queue=None).of(PARENT.build()) is None


def test_what_has_quota_keeps_its_family_without_its_local_queue() -> None:
    known = families(PARENT, SPOT)
    known.local_queues.remove(local_queue("lq", "cq").build())
    assert known.of(PARENT.build()) is None
    assert known.of(PARENT.reserved(flavors={"cpu": "spot"}).build()) is not None


def test_a_variant_whose_parent_is_gone_is_an_orphan() -> None:
    assert families(SPOT).is_orphan(SPOT.build())
    assert families(SPOT).of(SPOT.build()) is None
    assert families(PARENT.uid("later"), SPOT).is_orphan(SPOT.build())
    assert not families(PARENT, SPOT).is_orphan(SPOT.build())
    assert not families(PARENT).is_orphan(PARENT.build())


def test_the_rest_of_the_family_is_looked_at_with_each() -> None:
    known = families(PARENT, SPOT, RESERVED)
    assert {key.name for key in known.beside(PARENT.build())} == {"wl-spot", "wl-reserved"}
    assert {key.name for key in known.beside(SPOT.build())} == {"wl", "wl-reserved"}
