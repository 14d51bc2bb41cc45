"""What is configured, and whom a change concerns."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST
from multikueue.api.kueue.queues import LabelSelector
from multikueue.quota.cache.catalog import Catalog, snapshot
from multikueue.quota.cache.tree import Node
from tests.builders import admission_check, cluster_queue, flavor, local_queue, namespace


def catalog() -> Catalog:
    """Queue one uses flavor a and check x, queue two flavor b."""
    known = Catalog()
    known.set_queue(cluster_queue("one").quota("a", cpu=1).checks("x").build())
    known.set_queue(cluster_queue("two").quota("b", cpu=1).build())
    return known


def test_a_flavor_concerns_the_queues_that_name_it() -> None:
    known = catalog()

    assert known.set_flavor(flavor("b").build()) == ("two",)
    assert known.is_active("two")
    assert known.set_flavor(flavor("b").version(2).build()) == ()
    assert known.set_flavor(flavor("b").node_labels(zone="1").build()) == ("two",)
    assert known.remove_flavor("b") == ("two",)
    assert not known.is_active("two")
    assert known.remove_flavor("b") == ()


def test_a_check_concerns_the_queues_that_name_it_when_its_state_changes() -> None:
    known = catalog()
    known.set_flavor(flavor("a").build())

    assert known.set_check(admission_check("x").build()) == ("one",)
    assert [problem.reason for problem in known.problems("one")] == ["AdmissionCheckInactive"]
    assert known.set_check(admission_check("x").version(2).build()) == ()
    assert known.set_check(admission_check("x").active().build()) == ("one",)
    assert known.is_active("one")
    assert known.remove_check("x") == ("one",)
    assert known.remove_check("x") == ()


def test_a_queue_is_new_when_its_spec_or_its_deletion_is() -> None:
    known = Catalog()
    queue = cluster_queue("one").quota("a", cpu=1)

    assert known.set_queue(queue.build())
    assert not known.set_queue(queue.active().build())
    assert known.set_queue(queue.stopped().build())
    assert known.set_queue(queue.stopped().deleted().build())
    assert known.remove_queue("one")
    assert not known.remove_queue("one")
    assert known.problems("one") == ()


def test_a_namespace_is_selected_when_it_is_known_and_its_labels_match() -> None:
    known = Catalog()
    known.set_queue(cluster_queue("one").namespaces(LabelSelector(match_labels={"team": "a"})).build())

    assert not known.may_use("one", "ns")
    assert known.set_namespace(namespace("ns").labels(team="a").build())
    assert known.may_use("one", "ns")
    assert not known.set_namespace(namespace("ns").labels(team="a").version(5).build())
    assert known.set_namespace(namespace("ns").build())
    assert not known.may_use("one", "ns")
    known.remove_namespace("ns")
    assert not known.has_namespace("ns")


def test_local_queues_come_and_go() -> None:
    known = Catalog()
    queue = local_queue("lq").build()
    known.set_local_queue(queue)

    assert known.local_queues == {queue.key: queue}
    assert known.remove_local_queue(queue.key)
    assert not known.remove_local_queue(queue.key)


@pytest.mark.parametrize("by_flavor", [True, False])
def test_a_group_knows_its_flavors_in_order_and_the_label_keys_of_those_that_exist(by_flavor: bool) -> None:
    queue = cluster_queue("cq").quota("b", cpu=1).quota("a", cpu=1).quota("gone", cpu=1).quota("c", {"gpu": 1})
    flavors = {name: flavor(name).node_labels({f"key-{name}": "x"}).build() for name in ("a", "b", "c")}
    release = replace(NEWEST, has_labels_by_flavor=by_flavor)
    view = snapshot(queue.build(), Node("cq", is_queue=True, quotas={}), flavors, compatibility=release)

    cpu, gpu = view.groups
    assert cpu.flavors == ("b", "a", "gone")
    both = {"key-a", "key-b"}
    assert cpu.label_keys == ({"a": {"key-a"}, "b": {"key-b"}} if by_flavor else {"a": both, "b": both})
    assert gpu.flavors == ("c",)
    assert gpu.label_keys == {"c": {"key-c"}}
    assert view.group_of == {"cpu": cpu, "gpu": gpu}


def test_a_queue_counts_pods_when_it_covers_them() -> None:
    node = Node("cq", is_queue=True, quotas={})

    assert snapshot(cluster_queue("cq").quota("a", cpu=1, pods=5).build(), node, {}).is_counting_pods
    assert not snapshot(cluster_queue("cq").quota("a", cpu=1).build(), node, {}).is_counting_pods
