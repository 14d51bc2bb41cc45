"""Groups of Pods through their adapter, and through the decision on a job of many objects."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.pod import (
    GROUP_ANNOTATION,
    GROUP_COUNT_ANNOTATION,
    GROUP_FAST_ANNOTATION,
    GROUP_LABEL,
    GROUP_SERVING_ANNOTATION,
    RETRIABLE_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    PodGroup,
)
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, PREBUILT_LABEL, QUEUE_LABEL, Workload
from multikueue.jobs.framework.actions import CreateWorkload, DeleteJob, PatchJob, PatchJobStatus
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.jobs.kinds.pods.members import parts
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.jobs.reconciler.decide import JobView, decide
from tests.builders import NOW, WorkloadBuilder
from tests.jobs.builders import become, leaving, plain, stored
from tests.jobs.kinds.pods.builders import FRESH, OVER, RUNNING, group, member

Tree = dict[str, Any]
FAILED: Tree = OVER | {"phase": "Failed"}
TWO = group(member("a"), member("b"))


def role(name: str) -> Tree:
    return {ROLE_HASH_ANNOTATION: name}


def workload_of(seen: PodGroup) -> Workload:
    return stored(POD_GROUP.workload_body(seen, priority=Priority()))


def admitted(seen: PodGroup) -> Workload:
    return become(workload_of(seen), WorkloadBuilder.admitted)


def statuses(*given: Tree, gated: bool = True, **more: Any) -> PodGroup:
    return group(*(member("abcdef"[n], status=each, gated=gated, **more) for n, each in enumerate(given)))


# --- the Workload ---


@pytest.mark.parametrize(
    ("name", "place", "other"),
    [("g" * 63, "labels", "annotations"), ("g" * 64, "annotations", "labels")],
    ids=["in labels, which every release reads", "in annotations where it is too long for a label"],
)
def test_its_copies_name_group_and_workload_in_one_place(name: str, place: str, other: str) -> None:
    seen = member("a", labels={GROUP_LABEL: "old"}, annotations={GROUP_ANNOTATION: name})
    metadata = plain(PLAIN_POD.remote_body(seen, workload_name=name, origin="mk", attempt="now"))["metadata"]

    assert {key: metadata[place][key] for key in (GROUP_LABEL, PREBUILT_LABEL)} == {
        GROUP_LABEL: name,
        PREBUILT_LABEL: name,
    }
    assert not metadata[other].keys() & {GROUP_LABEL, PREBUILT_LABEL}
    assert metadata["annotations"].items() >= {GROUP_COUNT_ANNOTATION: "2", ATTEMPT_ANNOTATION: "now"}.items()


def test_all_own_its_workload_and_none_controls_it() -> None:
    body = plain(POD_GROUP.workload_body(TWO, priority=Priority()))

    assert body["metadata"]["name"] == "g"
    assert body["metadata"]["annotations"] == {"kueue.x-k8s.io/is-group-workload": "true"}
    assert [owner["name"] for owner in body["metadata"]["ownerReferences"]] == ["a", "b"]
    assert all("controller" not in owner for owner in body["metadata"]["ownerReferences"])


def test_each_role_is_a_pod_set_by_its_hash() -> None:
    roles = zip("abc", ("beef", "cafe", "beef"), strict=True)
    seen = group(*(member(name, total=3, annotations=role(each)) for name, each in roles))
    pod_sets = plain(POD_GROUP.workload_body(seen, priority=Priority()))["spec"]["podSets"]

    assert [(each["name"], each["count"]) for each in pod_sets] == [("beef", 2), ("cafe", 1)]


def test_a_group_that_does_not_wait_for_all_counts_them_by_its_first() -> None:
    seen = group(member("a", total=5, annotations={GROUP_FAST_ANNOTATION: "true"} | role("beef")))
    pod_sets = plain(POD_GROUP.workload_body(seen, priority=Priority()))["spec"]["podSets"]

    assert POD_GROUP.waits_for(seen) == ""
    assert [(each["name"], each["count"]) for each in pod_sets] == [("beef", 5)]


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (TWO, ""),
        (group(member("a")), "fewer runnable pods"),
        (group(member("a"), member("b", status=FAILED)), "fewer runnable pods"),
        (group(member("a", total=0), member("b", total=0)), "no total count"),
        (group(member("a"), member("b", labels={QUEUE_LABEL: "other"})), "different values of kueue.x-k8s.io/queue"),
        (group(*(member(f"p{n}", total=19, annotations=role(f"r{n}")) for n in range(19))), "more than 18 roles"),
    ],
    ids=["complete", "one is missing", "one has failed", "of none", "in two queues", "of too many roles"],
)
def test_what_a_group_waits_for(seen: PodGroup, told: str) -> None:
    assert told in POD_GROUP.waits_for(seen)
    assert bool(POD_GROUP.waits_for(seen)) is bool(told)


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        (TWO, True),
        (group(member("a"), member("b", status=FAILED)), True),
        (group(member("a"), member("b", status=FAILED), member("c")), True),
        (group(member("a"), member("b"), member("c")), True),
        (group(member("a"), member("b", annotations=role("other"))), False),
    ],
    ids=["as it was", "one has failed", "and was replaced", "one too many", "of another role"],
)
def test_its_workload_has_room_for_those_that_count(seen: PodGroup, same: bool) -> None:
    assert POD_GROUP.is_equivalent(seen, workload_of(TWO)) is same


LARGE: Tree = {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1000"}}}]}
LIMITED: Tree = {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1000"}}}]}
CONTAINER: Tree = {"name": "side", "image": "x", "resources": {"requests": {"cpu": "1000"}}}
MORE: dict[str, Tree] = {
    "a request": LARGE,
    "a limit": LIMITED,
    "another container": {"containers": [CONTAINER, CONTAINER]},
    "an init container": {"initContainers": [CONTAINER]},
    "a sidecar": {"initContainers": [CONTAINER | {"restartPolicy": "Always"}]},
    "the pod as a whole": {"resources": {"requests": {"cpu": "1000"}}},
    "its limit": {"resources": {"limits": {"cpu": "1000"}}},
    "overhead": {"overhead": {"cpu": "1000"}},
    "a RuntimeClass": {"runtimeClassName": "heavy"},
    "devices": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]},
}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_one_role_for_pods_that_ask_for_different_amounts_gets_no_workload(more: Tree) -> None:
    forged = group(member("a", annotations=role("main")), member("b", annotations=role("main"), **more))

    assert POD_GROUP.waits_for(forged) == "the pods of group 'g' with the role main ask for different amounts"
    assert decide(JobView(job=forged), NOW, POD_GROUP).actions == ()


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_a_workload_is_not_that_of_a_member_which_asks_for_more_than_its_role_counts(more: Tree) -> None:
    honest = group(member("a", annotations=role("main")), member("b", annotations=role("main")))
    replaced = group(member("a", annotations=role("main")), member("c", annotations=role("main"), **more))

    assert POD_GROUP.is_equivalent(honest, workload_of(honest))
    assert not POD_GROUP.is_equivalent(replaced, workload_of(honest))


def test_a_group_whose_pods_differ_in_a_copied_label_gets_no_workload() -> None:
    seen = group(*(member(name, labels={"team": name}) for name in "ab"))
    decision = decide(JobView(job=seen, label_keys=("team",)), NOW, POD_GROUP)

    assert decision.actions == ()
    (event,) = decision.events
    assert (event.type, event.reason) == ("Warning", "ErrWorkloadCompose")
    assert "different values of team" in event.message


def test_a_group_whose_pods_agree_gives_its_workload_their_label() -> None:
    seen = group(*(member(name, labels={"team": "a"}) for name in "ab"))
    (action,) = decide(JobView(job=seen, label_keys=("team",)), NOW, POD_GROUP).actions

    assert isinstance(action, CreateWorkload)
    assert action.body["metadata"]["labels"] == {"team": "a"}


# --- its status ---


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (statuses(OVER, OVER), "Pods succeeded: 2/2."),
        (statuses(OVER, FAILED), None),
        (statuses(OVER, FAILED, OVER), "Pods succeeded: 2/2."),
        (statuses(OVER, FAILED, annotations={RETRIABLE_ANNOTATION: "false"}), "Pods succeeded: 1/2."),
        (statuses(RUNNING, FAILED, annotations={RETRIABLE_ANNOTATION: "false"}), None),
        (statuses(OVER, OVER, annotations={GROUP_SERVING_ANNOTATION: "true"}), None),
    ],
    ids=["all", "one may be replaced", "it was", "it is not to be", "and one still runs", "it serves"],
)
def test_when_it_is_over(seen: PodGroup, end: str | None) -> None:
    found = POD_GROUP.finished(seen)

    assert (found.message if found else None) == end
    assert found is None or found.reason == "Succeeded"


@pytest.mark.parametrize(
    ("seen", "active", "ready"),
    [
        (statuses(FRESH, FRESH), False, 0),
        (statuses(RUNNING, FRESH), True, 0),
        (statuses(RUNNING, RUNNING), True, 2),
        (statuses(RUNNING, OVER), True, 2),
        (statuses(FAILED, OVER), False, 0),
    ],
    ids=["waits", "one runs", "both", "one is done", "none any more"],
)
def test_how_far_it_came(seen: PodGroup, active: bool, ready: int) -> None:
    assert POD_GROUP.is_active(seen) is active
    assert POD_GROUP.ready_pods(seen) == ready


# --- what is done for it ---


def actions(seen: PodGroup, *workloads: Workload, **more: Any) -> tuple[Any, ...]:
    return decide(JobView(job=seen, workloads=workloads, **more), NOW, POD_GROUP).actions


def test_it_gets_its_workload_once_it_is_complete() -> None:
    (action,) = actions(TWO)
    waits = decide(JobView(job=group(member("a"))), NOW, POD_GROUP)

    assert isinstance(action, CreateWorkload)
    assert waits.actions == ()
    assert [event.reason for event in waits.events] == ["ErrWorkloadCompose"]


def test_each_member_gets_the_status_of_its_copy() -> None:
    remote = statuses(RUNNING, FRESH, gated=False)
    (action,) = actions(TWO, admitted(TWO), remote=remote)

    assert isinstance(action, PatchJobStatus)
    patches = {each.metadata.name: patch for each, patch in parts(TWO, action.patch)}
    assert list(patches) == ["a"]
    assert patches["a"]["metadata"]["uid"] == "uid-a"
    assert patches["a"]["status"]["phase"] == "Running"


def test_one_that_leaves_is_told_nothing_any_more() -> None:
    assert POD_GROUP.status_to_copy(group(leaving(member("a")), member("b")), statuses(RUNNING, gated=False)) is None


def test_it_is_held_while_it_is_dispatched_and_let_go_as_a_whole_where_it_is_not() -> None:
    assert actions(TWO, admitted(TWO)) == ()
    (action,) = actions(TWO, admitted(TWO), is_queue_multikueue=False, is_dispatched=False)

    assert isinstance(action, PatchJob)
    assert {each.metadata.name for each, _ in parts(TWO, action.patch)} == {"a", "b"}


def test_it_goes_with_its_workload() -> None:
    seen = workload_of(TWO)

    assert actions(TWO, leaving(seen)) == (DeleteJob("uid-g"),)


def test_all_are_let_go_when_it_is_over() -> None:
    over = statuses(OVER, OVER, FAILED)
    (action,) = actions(over, admitted(TWO))

    assert isinstance(action, PatchJob)
    released = {each.metadata.name: patch["metadata"]["finalizers"] for each, patch in parts(over, action.patch)}
    assert released == {name: ["example.com/other"] for name in "abc"}


def test_after_an_eviction_none_looks_as_if_it_ran() -> None:
    ran = statuses(RUNNING, RUNNING)
    (action,) = actions(ran, workload_of(ran))

    assert isinstance(action, PatchJobStatus)
    assert {patch["status"]["phase"] for _, patch in parts(ran, action.patch)} == {"Pending"}
