"""The compiled view of a ClusterQueue."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST
from multikueue.quota.cache.snapshot import snapshot
from multikueue.quota.cache.tree import Node
from tests.builders import cluster_queue, flavor


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
