"""Pods that are let go on their own cluster: where they go."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.pod import ROLE_HASH_ANNOTATION, Pod
from multikueue.api.meta import encode
from multikueue.jobs.framework.actions import PatchJob
from multikueue.jobs.framework.pod_set_info import PodSetInfoWriter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.jobs.kinds.pods.members import parts
from multikueue.jobs.kinds.pods.pod import GROUP_POD_SET_INFO, PLAIN_POD, POD_POD_SET_INFO
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.testing import NOW
from tests.jobs.builders import plain, stored, tree
from tests.jobs.kinds.pods.builders import group, member, pod
from tests.jobs.places import FLAVORS, TOLERATION, admitted, applied

Tree = dict[str, Any]


def let_go(seen: Any, adapter: Any, **more: Any) -> Tree:
    """The patch of an admitted Pod, or group, in a queue that is not dispatched."""
    workload = admitted(stored(adapter.workload_body(seen, priority=Priority())), **more)
    view = JobView(job=seen, workloads=(workload,), is_queue_multikueue=False, is_dispatched=False, flavors=FLAVORS)
    (action,) = decide(view, NOW, adapter).actions
    assert isinstance(action, PatchJob)
    found: Tree = plain(action.patch)
    return found


def test_a_pod_goes_where_its_flavor_is() -> None:
    seen = pod(nodeSelector={"zone": "a"}, tolerations=[{"key": "own"}])
    patch = let_go(seen, PLAIN_POD)
    assert patch["metadata"]["resourceVersion"] == "7"
    spec = tree(applied(seen, patch).spec)
    assert spec["schedulingGates"] == []
    assert spec["nodeSelector"] == {"zone": "a", "pool": "blue"}
    assert spec["tolerations"] == [{"key": "own"}, TOLERATION]
    meta = applied(seen, patch).metadata
    queues = {"kueue.x-k8s.io/local-queue-name": "main", "kueue.x-k8s.io/cluster-queue-name": "cq"}
    assert meta.labels == seen.metadata.labels | {"kueue.x-k8s.io/podset": "main"} | queues
    assert meta.annotations["kueue.x-k8s.io/workload"].startswith("pod-p-")


def test_a_pod_that_says_otherwise_stays_held() -> None:
    seen = pod(nodeSelector={"pool": "green"})
    workload = admitted(stored(PLAIN_POD.workload_body(seen, priority=Priority())))
    view = JobView(job=seen, workloads=(workload,), is_queue_multikueue=False, is_dispatched=False, flavors=FLAVORS)
    assert decide(view, NOW, PLAIN_POD).actions == ()


@pytest.mark.parametrize("annotations", [{}, {"kueue.x-k8s.io/pod-group-fast-admission": "true"}], ids=["all", "fast"])
def test_each_member_of_a_group_goes_where_its_role_is(annotations: dict[str, str]) -> None:
    roles = {"a": "beef", "b": "beef" if annotations else "cafe"}
    members = (member(name, annotations={ROLE_HASH_ANNOTATION: role} | annotations) for name, role in roles.items())
    seen = group(*members)
    patch = let_go(seen, POD_GROUP)
    names = {each.metadata.name: tree(_applied(each, own).spec)["nodeSelector"] for each, own in parts(seen, patch)}
    assert names == {name: {"pool": "blue"} for name in "ab"}
    sets = {each.metadata.name: own["metadata"]["labels"]["kueue.x-k8s.io/podset"] for each, own in parts(seen, patch)}
    assert sets == roles


def _applied(each: Any, own: Tree) -> Pod:
    found: Pod = applied(each, own)
    return found


def test_nothing_is_restored() -> None:
    seen = pod()
    assert not POD_POD_SET_INFO.pod_set_info_of(seen)
    pod_set_info: PodSetInfoWriter = POD_POD_SET_INFO
    assert pod_set_info.restoration(seen, None) is None
    assert pod_set_info.stop_patch(seen, {"spec": {}}, None) == {"spec": {}}


def test_without_places_it_is_let_go_as_it_is() -> None:
    patch: Tree = {"members": {"a": {"spec": {}}}}
    assert encode(GROUP_POD_SET_INFO.start_patch(group(member("a"), member("b")), patch, {})) == encode(patch)
    assert POD_POD_SET_INFO.start_patch(pod(), {"spec": {}}, {}) == {"spec": {}}
