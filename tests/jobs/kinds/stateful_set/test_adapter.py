"""StatefulSets: what the webhook makes of them and their Pods, their Workload and copy, and what is decided for both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api.jobs.job import StatefulSet
from multikueue.api.jobs.pod import (
    ADMISSION_GATE,
    GROUP_ANNOTATION,
    GROUP_LABEL,
    GROUP_SERVING_ANNOTATION,
    MANAGED_LABEL,
    PARENT_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    PodGroup,
)
from multikueue.api.kueue.workload import (
    MAX_EXEC_TIME_LABEL,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    QUEUE_LABEL,
    Workload,
    owner_of,
)
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework.actions import (
    Action,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    PatchJob,
    RemoveFinalizer,
)
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.jobs.kinds.pods.webhook import default_pod, read_pod, refusal
from multikueue.jobs.kinds.stateful_set.adapter import STATEFUL_SET
from multikueue.jobs.reconciler.decide import JobView, decide
from tests.builders import NOW, WorkloadBuilder
from tests.jobs.builders import become, leaving, plain, stored, with_status
from tests.jobs.kinds.pods import builders as pods

Tree = dict[str, Any]
WORKLOAD = (
    "statefulset-web-"
    + STATEFUL_SET.workload_name(decoder(StatefulSet)(encode({"metadata": {"name": "web"}}))).rpartition("-")[2]
)
MARK = {PARENT_ANNOTATION: "statefulset"}
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}


def body(*, replicas: int | None = 2, image: str = "x", cpu: str = "1", annotations: Tree = MARK, **meta: Any) -> Tree:
    """One in the queue `main` that the webhook has marked."""
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"creationTimestamp": None, "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [container]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "serviceName": "web", "template": template}
    return {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-web",
            "resourceVersion": "7",
            "labels": {QUEUE_LABEL: "main"},
        }
        | meta,
        "spec": spec | ({"replicas": replicas} if replicas is not None else {}),
    }


def made(**more: Any) -> StatefulSet:
    return decoder(StatefulSet)(encode(body(**more)))


def workload_of(seen: StatefulSet) -> Workload:
    return stored(STATEFUL_SET.workload_body(seen, priority=Priority()))


def admitted(seen: StatefulSet) -> Workload:
    return become(workload_of(seen), WorkloadBuilder.admitted)


def actions(seen: StatefulSet, *workloads: Workload, **more: Any) -> tuple[Action, ...]:
    decision = decide(JobView(job=seen, workloads=workloads, **more), NOW, STATEFUL_SET)
    assert all(event.type == "Normal" for event in decision.events)
    return decision.actions


# --- its Workload ---


def test_it_owns_its_workload_by_name_and_does_not_control_it() -> None:
    workload = workload_of(made())

    assert workload.metadata.name == WORKLOAD == workload_of(made(uid="another")).metadata.name
    assert workload.metadata.annotations == {
        "kueue.x-k8s.io/is-group-workload": "true",
        "kueue.x-k8s.io/job-owner-gvk": "apps/v1, Kind=StatefulSet",
        "kueue.x-k8s.io/job-owner-name": "web",
    }
    (owner,) = workload.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("StatefulSet", "uid-web", False)
    assert owner_of(workload) == owner


@pytest.mark.parametrize(("replicas", "count"), [(3, 3), (None, 1)])
def test_all_its_pods_are_one_pod_set(replicas: int | None, count: int) -> None:
    (pod_set,) = plain(STATEFUL_SET.workload_body(made(replicas=replicas), priority=Priority()))["spec"]["podSets"]

    assert (pod_set["name"], pod_set["count"]) == ("main", count)
    assert pod_set["topologyRequest"] == {"podIndexLabel": "apps.kubernetes.io/pod-index"}
    assert pod_set["template"] == {"metadata": {}, "spec": body()["spec"]["template"]["spec"]}


@pytest.mark.parametrize(
    ("later", "same"),
    [
        (made(), True),
        (made(annotations=MARK | {"note": "x"}), True),
        (made(replicas=3), False),
        (made(image="y"), False),
        (made(uid="later", name="other"), False),
    ],
    ids=["as it was", "with a note on its Pods", "of another size", "with another image", "another one"],
)
def test_its_workload_is_of_its_size_and_containers(later: StatefulSet, same: bool) -> None:
    assert STATEFUL_SET.is_equivalent(later, workload_of(made())) is same


def test_one_whose_pods_nothing_holds_is_not_ours() -> None:
    assert STATEFUL_SET.queue_name(made()) == "main"
    assert actions(made(annotations={})) == ()
    assert actions(made(labels={})) == ()


def test_it_gets_its_workload_and_is_never_written_to() -> None:
    (action,) = actions(made())
    assert isinstance(action, CreateWorkload)
    for view in (workload_of(made()), admitted(made()), become(admitted(made()), WorkloadBuilder.evicted)):
        for dispatched in (True, False):
            assert actions(made(), view, is_queue_multikueue=dispatched, is_dispatched=dispatched) == ()


def test_at_zero_it_has_none() -> None:
    there = workload_of(made())

    assert actions(made(replicas=0)) == ()
    assert actions(made(replicas=0), there) == (DeleteWorkload(there.key, there.metadata.uid),)
    assert actions(made(replicas=0), leaving(there)) == (RemoveFinalizer(there.key),)
    assert actions(made(), leaving(there)) == (RemoveFinalizer(there.key),)


def test_while_its_pods_are_ready_its_quota_stays() -> None:
    there, ready = leaving(admitted(made())), with_status(made(replicas=0), {"readyReplicas": 1, "replicas": 2})

    assert actions(ready, there) == ()
    assert actions(made(replicas=0), there, remote=with_status(made(), {"readyReplicas": 1})) == ()
    assert actions(made(replicas=0), there) == (RemoveFinalizer(there.key),)


def test_another_image_is_queued_again() -> None:
    there = workload_of(made())
    (action,) = actions(made(image="y"), admitted(made()))

    assert action == DeleteWorkload(there.key, there.metadata.uid)


@pytest.mark.parametrize(("ready", "told"), [(0, 0), (1, 0), (2, 2)])
def test_its_pods_are_ready_when_all_are(ready: int, told: int) -> None:
    seen = with_status(made(), {"readyReplicas": ready} if ready else {})

    assert STATEFUL_SET.ready_pods(seen) == told
    assert STATEFUL_SET.is_active(seen) is bool(ready)


# --- its copy ---


def test_its_copy_is_the_object_and_says_nothing_at_home() -> None:
    copy = plain(STATEFUL_SET.remote_body(made(), workload_name="wl", origin="mk", attempt="now", queue="b"))

    assert (copy["apiVersion"], copy["kind"], copy["spec"]) == ("apps/v1", "StatefulSet", body()["spec"])
    assert copy["metadata"] == {
        "name": "web",
        "namespace": "default",
        "labels": {QUEUE_LABEL: "b", "kueue.x-k8s.io/multikueue-origin": "mk", PREBUILT_LABEL: "wl"},
        "annotations": {"multikueue.dev/attempt": "now", "kueue.x-k8s.io/multikueue-origin-uid": "uid-web"},
    }
    remote = with_status(made(), {"readyReplicas": 2})
    assert actions(made(), admitted(made()), remote=remote) == ()


def test_its_copy_names_the_local_uid_whatever_its_user_wrote() -> None:
    """By it a worker's Kueue finds a Workload that the Kueue of the manager cluster has named."""
    mine = made(annotations=MARK | {"kueue.x-k8s.io/multikueue-origin-uid": "another"})
    copy = plain(STATEFUL_SET.remote_body(mine, workload_name="wl", origin="mk", attempt="now"))
    assert copy["metadata"]["annotations"]["kueue.x-k8s.io/multikueue-origin-uid"] == "uid-web"


# --- its Pods at home ---


def new_pod(*, owner: Tree = OWNER, annotations: Tree = MARK) -> Tree:
    metadata = {"name": "web-0", "namespace": "default", "labels": {QUEUE_LABEL: "main"}, "annotations": annotations}
    return {"metadata": metadata | {"ownerReferences": [owner]}, "spec": pods.spec(gated=False)}


def test_each_is_a_member_of_the_group_that_has_its_workload_and_is_not_kept() -> None:
    seen = read_pod(encode(new_pod()))
    patch = {each["path"]: each["value"] for each in default_pod(seen)}

    assert refusal(seen) is None
    assert patch["/metadata/labels"] == {
        QUEUE_LABEL: "main",
        MANAGED_LABEL: "true",
        GROUP_LABEL: WORKLOAD,
        PREBUILT_LABEL: WORKLOAD,
    }
    assert patch["/metadata/annotations"][ROLE_HASH_ANNOTATION] == "main"
    assert patch["/metadata/annotations"][GROUP_SERVING_ANNOTATION] == "true"
    assert patch["/spec/schedulingGates"][0] == {"name": ADMISSION_GATE}
    assert "/metadata/finalizers" not in patch


def test_an_annotation_of_its_template_brings_none_into_another_group() -> None:
    """It would go before the label."""
    others = dict.fromkeys((GROUP_ANNOTATION, PREBUILT_ANNOTATION), "other")
    patch = {each["path"]: each["value"] for each in default_pod(read_pod(encode(new_pod(annotations=MARK | others))))}

    assert {patch["/metadata/annotations"][name] for name in others} == {WORKLOAD}


def test_one_that_was_marked_may_be_changed() -> None:
    marked = new_pod()
    marked["metadata"]["labels"] |= {GROUP_LABEL: WORKLOAD, PREBUILT_LABEL: WORKLOAD}
    seen = read_pod(encode(marked))

    assert refusal(seen, seen) is None


@pytest.mark.parametrize(
    ("changed", "controller"),
    [
        (new_pod(), None),
        (new_pod(annotations={}), ("apps/v1", "StatefulSet")),
        (new_pod(owner=OWNER | {"kind": "Job", "apiVersion": "batch/v1"}), ("batch/v1", "Job")),
    ],
    ids=["marked", "not marked", "of something else"],
)
def test_it_is_held_itself_and_only_if_its_stateful_set_is_in_a_queue(
    changed: Tree, controller: tuple[str, str] | None
) -> None:
    found = read_pod(encode(changed)).controller
    assert (found and (found.api_version, found.kind)) == controller


def members(*, gated: bool = True, status: Tree = pods.FRESH) -> PodGroup:
    marks = MARK | {ROLE_HASH_ANNOTATION: "main", GROUP_SERVING_ANNOTATION: "true"}
    labels = {GROUP_LABEL: WORKLOAD, PREBUILT_LABEL: WORKLOAD}
    found = [pods.member(f"web-{n}", annotations=marks, labels=labels, gated=gated, status=status) for n in range(2)]
    seen = pods.group(*found)
    return msgspec.structs.replace(seen, metadata=msgspec.structs.replace(seen.metadata, name=WORKLOAD))


RUNNING = members(gated=False, status=pods.RUNNING)


def told(seen: PodGroup, *workloads: Workload, here: bool = False, **more: Any) -> tuple[Action, ...]:
    view = JobView(job=seen, workloads=workloads, is_queue_multikueue=not here, is_dispatched=not here, **more)
    return decide(view, NOW, POD_GROUP).actions


def test_they_are_held_while_it_is_dispatched_and_let_go_where_it_is_not() -> None:
    limited = made(labels={QUEUE_LABEL: "main", MAX_EXEC_TIME_LABEL: "60"})
    for each in (made(), limited):
        assert told(members(), workload_of(each), here=True) == ()
        assert told(members(), admitted(each), remote=made()) == ()
        (action,) = told(members(), admitted(each), here=True)
        assert isinstance(action, PatchJob)
        assert set(action.patch["members"]) == {"web-0", "web-1"}


@pytest.mark.parametrize(
    "workloads",
    [
        (),
        (workload_of(made()),),
        (become(admitted(made()), WorkloadBuilder.evicted),),
        (leaving(admitted(made())),),
    ],
    ids=["without a Workload", "before it is admitted", "evicted", "being deleted"],
)
def test_what_runs_without_leave_is_deleted_and_what_is_held_is_not(workloads: tuple[Workload, ...]) -> None:
    assert told(RUNNING, *workloads, here=True) == (DeleteJob(RUNNING.metadata.uid),)
    assert DeleteJob not in {type(each) for each in told(members(), *workloads, here=True)}


def test_they_never_have_a_workload_of_their_own() -> None:
    assert told(members(), here=True) == ()


def test_it_waits_while_somebody_else_has_the_name_that_its_pods_go_by() -> None:
    decision = decide(JobView(job=made(), is_taken=lambda _name: True), NOW, STATEFUL_SET)
    (event,) = decision.events
    assert (decision.actions, event.reason, decision.again_after) == ((), "WorkloadNameTaken", timedelta(minutes=1))
