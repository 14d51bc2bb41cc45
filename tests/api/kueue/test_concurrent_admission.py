"""How parents and variants are marked, and which policies count."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.concurrent_admission import (
    FLAVORS_ANNOTATION,
    allowed_flavors,
    flavor_of,
    last_acceptable_flavor,
    parent_of,
    policy_of,
    stays,
)
from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.meta import decoder
from multikueue.testing import ClusterQueueBuilder, cluster_queue, flavor_quotas, workload

TWO = cluster_queue("cq").quota("reserved", cpu=1).quota("spot", cpu=9)

POLICIES = {
    "none": (TWO, False),
    "one that tries preferred flavors": (TWO.concurrently(), True),
    "one that keeps the first": (TWO.concurrently("RetainFirstAdmission"), True),
    "one that names a last flavor": (TWO.concurrently(down_to="reserved"), True),
    "one whose last flavor is not in the queue": (TWO.concurrently(down_to="gone"), False),
    "constraints on what never moves": (TWO.concurrently("RetainFirstAdmission", down_to="reserved"), False),
    "with several resource groups": (TWO.quota("default", memory="1Gi").concurrently(), False),
    "without resource groups": (cluster_queue("cq").concurrently(), False),
    "with StrictFIFO": (TWO.strict_fifo().concurrently(), False),
    "with more flavors than 16": (
        cluster_queue("cq").resource_group(*(flavor_quotas(f"f{n}", cpu=1) for n in range(17))).concurrently(),
        False,
    ),
}


@pytest.mark.parametrize(("queue", "counts"), POLICIES.values(), ids=POLICIES.keys())
def test_the_policies_that_count(queue: ClusterQueueBuilder, counts: bool) -> None:
    assert (policy_of(queue.build().spec) is not None) is counts


def test_a_policy_is_read_as_kueue_writes_it() -> None:
    body = (
        b'{"metadata":{"name":"cq"},"spec":{"concurrentAdmissionPolicy":{"migration":{"mode":"TryPreferredFlavors",'
        b'"constraints":{"lastAcceptableFlavorName":"reserved"}}}}}'
    )
    policy = decoder(ClusterQueue)(body).spec.concurrent_admission_policy
    assert policy is not None
    assert last_acceptable_flavor(policy) == "reserved"
    assert not stays(policy)


def test_a_variant_has_a_parent_and_a_flavor() -> None:
    variant = workload("wl-spot").variant("wl", "spot").build()
    parent = parent_of(variant)
    assert parent is not None
    assert (parent.name, parent.uid, flavor_of(variant)) == ("wl", workload("wl").build().metadata.uid, "spot")


def test_the_workload_of_a_job_has_none() -> None:
    value = workload("wl").owner_job("job").build()
    assert parent_of(value) is None
    assert flavor_of(value) == ""


def test_several_flavors_may_be_allowed() -> None:
    assert allowed_flavors(workload("wl").annotations({FLAVORS_ANNOTATION: "a, b,"}).build()) == ("a", "b")


def test_only_who_controls_a_workload_is_its_parent() -> None:
    variant = workload("wl-spot").variant("wl", "spot").build()
    (owner,) = variant.metadata.owner_references
    metadata = replace(variant.metadata, owner_references=(replace(owner, controller=False),))
    assert parent_of(replace(variant, metadata=metadata)) is None
