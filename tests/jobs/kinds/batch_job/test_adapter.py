"""The adapter of batch Jobs, method by method: one file, as it is the model for the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.jobs.job import Job
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    ELASTIC_ANNOTATION,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    Finish,
    PriorityClassRef,
    Workload,
)
from multikueue.api.meta import encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB, STOPPING_ANNOTATION
from tests.builders import NOW, job
from tests.jobs.builders import Tree, become, ours, plain, tree, with_spec, with_status, workload_of
from tests.jobs.places import admitted

UID = "uid-job-default-j"
STARTED = "2026-01-01T12:00:00Z"
LATER = "2026-01-01T13:00:00Z"
GENERATED = {
    "job-name": "j",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": UID,
    "batch.kubernetes.io/controller-uid": UID,
}


def template(*containers: Tree, labels: dict[str, str] | None = None, **spec: Any) -> bytes:
    meta = {"metadata": {"labels": labels}} if labels else {}
    return encode({**meta, "spec": {"containers": list(containers) or [{"name": "c", "image": "i"}], **spec}})


def body_of(job: Job) -> Tree:
    body: Tree = plain(BATCH_JOB.workload_body(job, priority=Priority()))
    return body


def remote_of(job: Job, **how: Any) -> Tree:
    body: Tree = plain(BATCH_JOB.remote_body(job, **({"workload_name": "wl", "origin": "o", "attempt": "7"} | how)))
    return body


# --- who manages it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "reason"),
    [
        pytest.param(ours().build(), None, id="ours"),
        pytest.param(
            job("j").build(), 'Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not ""', id="nobody's"
        ),
        pytest.param(
            job("j").managed_by("other.io/x").build(),
            'Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not "other.io/x"',
            id="another controller's",
        ),
    ],
)
def test_why_a_job_cannot_be_dispatched(built: Job, reason: str | None) -> None:
    assert BATCH_JOB.unmanaged_reason(built) == reason


# --- what its copy asks for -------------------------------------------------------------------------------------------


def grown(index: bool = False, *, to: int) -> Job:
    built = ours().parallelism(to).completions(to if index else 99).annotations({ELASTIC_ANNOTATION: "true"}).build()
    return with_spec(built, completionMode="Indexed") if index else built


SOME = ours().parallelism(5).completions(9).annotations({"kueue.x-k8s.io/job-min-parallelism": "2"})
FEWER = admitted(workload_of(SOME.build()), 3)
SLICE = become(workload_of(grown(to=3)), lambda w: w.annotations({ELASTIC_ANNOTATION: "true"}))
INDEXED = become(workload_of(grown(True, to=3)), lambda w: w.annotations({ELASTIC_ANNOTATION: "true"}))
COUNTED: dict[str, tuple[Job, Workload, tuple[int, int] | None]] = {
    "all of it": (SOME.build(), workload_of(SOME.build()), (5, 9)),
    "fewer pods after partial admission": (SOME.build(), FEWER, (3, 9)),
    "nothing, as it has more pods by now": (SOME.parallelism(6).build(), FEWER, None),
    "nothing, as it has fewer pods by now": (SOME.parallelism(4).build(), FEWER, None),
    "the pods of its slice, as an elastic one that has grown": (grown(to=7), SLICE, (3, 99)),
    "the indexes of its slice": (grown(True, to=7), INDEXED, (3, 3)),
    "its present pods, as an elastic one that has shrunk": (grown(to=2), SLICE, (2, 99)),
}


@pytest.mark.parametrize(("seen", "workload", "sent"), COUNTED.values(), ids=COUNTED)
def test_its_copy_asks_for(seen: Job, workload: Workload, sent: tuple[int, int] | None) -> None:
    found = BATCH_JOB.as_counted(seen, workload)
    spec = remote_of(found)["spec"] if isinstance(found, Job) else None
    assert (spec and (spec["parallelism"], spec["completions"])) == sent


# --- the Workload ----------------------------------------------------------------------------------------------------


def test_the_whole_workload_of_a_job() -> None:
    built = (
        ours()
        .labels({"kueue.x-k8s.io/max-exec-time-seconds": "60", "team": "a"})
        .annotations({"provreq.kueue.x-k8s.io/x": "1", "kueue.x-k8s.io/job-min-parallelism": "2", "other": "no"})
        .annotations({"multikueue.dev/non-preemptible": "true"})
        .parallelism(5)
        .completions(3)
        .template(template(labels=GENERATED | {"app": "x"}))
        .build()
    )
    ref = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="urgent")
    name = BATCH_JOB.workload_name(built)
    assert plain(BATCH_JOB.workload_body(built, priority=Priority(100, ref))) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/job-uid": UID},
            "annotations": {
                "provreq.kueue.x-k8s.io/x": "1",
                "multikueue.dev/non-preemptible": "true",
                "multikueue.dev/priority-class-value": "100",
            },
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "j",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "queueName": "main",
            "priority": 100,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "urgent"},
            "maximumExecutionTimeSeconds": 60,
            "podSets": [
                {
                    "name": "main",
                    "count": 3,
                    "minCount": 2,
                    "template": {
                        "metadata": {"labels": {"app": "x", "batch.kubernetes.io/job-name": "j"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                    "topologyRequest": {"podIndexLabel": "batch.kubernetes.io/job-completion-index"},
                }
            ],
        },
    }


@pytest.mark.parametrize("text", ["0", "-1", "x", "4"])
def test_a_minimum_that_makes_no_sense_is_left_out(text: str) -> None:
    built = ours().parallelism(3).completions(3).annotations({"kueue.x-k8s.io/job-min-parallelism": text}).build()
    assert "minCount" not in body_of(built)["spec"]["podSets"][0]


def test_each_variable_of_a_container_once_with_its_last_value() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    built = ours().template(template({"name": "c", "env": env}, initContainers=[{"name": "i", "env": env}])).build()
    spec = body_of(built)["spec"]["podSets"][0]["template"]["spec"]
    once = [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]
    assert [spec["containers"][0]["env"], spec["initContainers"][0]["env"]] == [once, once]


def test_a_prebuilt_name_is_the_workloads() -> None:
    assert BATCH_JOB.workload_name(ours().prebuilt("mine").build()) == "mine"


def test_a_prebuilt_name_may_be_an_annotation_and_that_goes_first() -> None:
    named = ours().annotations({PREBUILT_ANNOTATION: "mine"})
    assert BATCH_JOB.workload_name(named.build()) == "mine"
    assert BATCH_JOB.workload_name(named.prebuilt("other").build()) == "mine"


@pytest.mark.parametrize(
    ("name", "labels", "annotations"),
    [
        pytest.param("wl", "wl", None, id="a label, which every Kueue reads"),
        pytest.param("w" * 64, None, "w" * 64, id="an annotation, if it is too long for a label"),
    ],
)
def test_a_copy_names_its_workload_once(name: str, labels: str | None, annotations: str | None) -> None:
    """What its user wrote at home never stands against it."""
    mine = ours().annotations({PREBUILT_ANNOTATION: "mine"}).prebuilt("mine").build()
    meta = remote_of(mine, workload_name=name)["metadata"]
    assert (meta["labels"].get(PREBUILT_LABEL), meta["annotations"].get(PREBUILT_ANNOTATION)) == (labels, annotations)


def test_a_copy_is_let_in_as_the_job_was_at_home() -> None:
    gated = ours().annotations({ADMISSION_GATED_BY_ANNOTATION: "example.com/a"}).build()
    assert ADMISSION_GATED_BY_ANNOTATION not in remote_of(gated)["metadata"]["annotations"]


def test_a_job_recreated_has_another_workload() -> None:
    assert BATCH_JOB.workload_name(ours().uid("1").build()) != BATCH_JOB.workload_name(ours().uid("2").build())


@pytest.mark.parametrize(("spec", "name"), [({"priorityClassName": "high"}, "high"), ({}, ""), (None, "")])
def test_the_class_the_pods_ask_for(spec: Tree | None, name: str) -> None:
    assert BATCH_JOB.pod_priority_class(ours().template(encode({"spec": spec})).build()) == name


# --- matching --------------------------------------------------------------------------------------------------------

FULL = template(
    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}, "stdin": True},
    initContainers=[{"name": "init", "image": "i"}],
    tolerations=[{"key": "spot", "operator": "Exists"}],
    nodeSelector={"zone": "a"},
    restartPolicy="Never",
)
JOB = ours().parallelism(4).completions(4).template(FULL).build()


def _edited(old: bytes, new: bytes) -> Workload:
    seen = workload_of(JOB)
    assert old in bytes(seen.spec)
    return msgspec.structs.replace(seen, spec=msgspec.Raw(bytes(seen.spec).replace(old, new)))


@pytest.mark.parametrize(
    ("seen", "matches"),
    [
        pytest.param(workload_of(JOB), True, id="made from it"),
        pytest.param(_edited(b'"1500m"', b'"1.5"'), True, id="a quantity written otherwise"),
        pytest.param(_edited(b',"stdin":true', b""), True, id="a field that the schema of Workloads prunes"),
        pytest.param(
            _edited(b'"image":"i"', b'"image":"i","env":[],"securityContext":null'), True, id="empty fields more"
        ),
        pytest.param(_edited(b'"nodeSelector":{"zone":"a"}', b'"nodeSelector":{}'), True, id="another node selector"),
        pytest.param(_edited(b'"1500m"', b'"1501m"'), False, id="another request"),
        pytest.param(_edited(b'"cpu":"1500m",', b""), False, id="a request less"),
        pytest.param(_edited(b'"image":"i"', b'"image":"k"'), False, id="another image"),
        pytest.param(_edited(b'"count":4', b'"count":3'), False, id="another count"),
        pytest.param(_edited(b'"count":4', b'"count":4,"minCount":2'), False, id="a minimum"),
        pytest.param(_edited(b'"key":"spot"', b'"key":"other"'), False, id="another toleration"),
        pytest.param(_edited(b'"queueName"', b'"maximumExecutionTimeSeconds":5,"queueName"'), False, id="a time limit"),
        pytest.param(_edited(b'"initContainers"', b'"x"'), False, id="no init container"),
        pytest.param(become(workload_of(JOB), lambda w: w), True, id="as built"),
    ],
)
def test_matching(seen: Workload, matches: bool) -> None:
    assert BATCH_JOB.is_equivalent(JOB, seen) is matches


def test_tolerations_no_longer_matter_once_admitted() -> None:
    other = _edited(b'"key":"spot"', b'"key":"other"')
    assert BATCH_JOB.is_equivalent(JOB, become(other, lambda w: w.admitted()))


def test_the_workload_of_another_job_does_not_match() -> None:
    assert not BATCH_JOB.is_equivalent(ours("k").parallelism(4).completions(4).template(FULL).build(), workload_of(JOB))


def test_a_workload_of_two_pod_sets_does_not_match() -> None:
    spec = tree(workload_of(JOB).spec)
    two = msgspec.structs.replace(workload_of(JOB), spec=msgspec.Raw(encode(spec | {"podSets": spec["podSets"] * 2})))
    assert not BATCH_JOB.is_equivalent(JOB, two)


# --- any job at all --------------------------------------------------------------------------------------------------

NAMES = st.text("abc-", min_size=1, max_size=5)
WORDS = st.dictionaries(NAMES, st.text("xyz", max_size=4), max_size=3)
QUANTITIES = st.sampled_from(["1", "500m", "1.5", "2Gi", "1e3", "0"])
CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES, "image": NAMES},
    optional={
        "env": st.lists(st.fixed_dictionaries({"name": NAMES, "value": NAMES}), max_size=4),
        "resources": st.fixed_dictionaries(
            {"requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITIES)}
        ),
        "stdin": st.booleans(),
        "securityContext": st.fixed_dictionaries({}, optional={"privileged": st.booleans()}),
    },
)
TEMPLATES = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": st.lists(CONTAINERS, min_size=1, max_size=3)})},
    optional={"metadata": st.fixed_dictionaries({"labels": WORDS, "annotations": WORDS})},
)
SPECS = st.fixed_dictionaries(
    {"template": TEMPLATES, "parallelism": st.integers(0, 9), "suspend": st.booleans()},
    optional={
        "completions": st.integers(0, 9),
        "managedBy": NAMES,
        "ttlSecondsAfterFinished": st.integers(0, 9),
        "selector": st.fixed_dictionaries({"matchLabels": WORDS}),
        "manualSelector": st.booleans(),
        "backoffLimit": st.integers(0, 9),
        "scheduling": st.just({"schedulingPolicy": {"gang": {"minCount": 2}}}),  # of Kubernetes 1.37
    },
)


@given(spec=SPECS)
def test_no_copy_carries_what_belongs_to_the_manager(spec: Tree) -> None:
    copied = remote_of(with_spec(ours().build(), **spec))
    left = {"managedBy", "ttlSecondsAfterFinished"} | (set() if spec.get("manualSelector") else {"selector"})
    assert left.isdisjoint(copied["spec"])
    assert copied["spec"]["suspend"] is True
    assert copied.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert copied["metadata"].keys() == {"name", "namespace", "labels", "annotations"}


@given(spec=SPECS)
def test_the_copy_keeps_all_the_user_said(spec: Tree) -> None:
    built = with_spec(ours().build(), **spec)
    copied = remote_of(built)["spec"]
    changed = {"managedBy", "ttlSecondsAfterFinished", "selector", "manualSelector", "suspend"}
    assert {k: v for k, v in copied.items() if k not in changed} == {
        k: v for k, v in tree(built.spec).items() if k not in changed
    }


@given(spec=SPECS)
def test_a_workload_matches_the_job_it_was_made_from(spec: Tree) -> None:
    built = with_spec(ours().build(), **spec)
    assert BATCH_JOB.is_equivalent(built, workload_of(built))


@given(spec=SPECS)
def test_a_workload_matches_after_servers_filled_in_their_defaults(spec: Tree) -> None:
    """The API server fills the Job's template before we see it; null, empty and absent differ between schemas."""
    built = with_spec(ours().build(), **spec)
    seen = tree(workload_of(built).spec)
    for container in seen["podSets"][0]["template"]["spec"]["containers"]:
        container |= {"resources": container.get("resources") or {}, "env": container.get("env") or None}
    assert BATCH_JOB.is_equivalent(built, msgspec.structs.replace(workload_of(built), spec=msgspec.Raw(encode(seen))))


# --- the status ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "end"),
    [
        pytest.param(job("j").build(), None, id="never started"),
        pytest.param(job("j").running().build(), None, id="running"),
        pytest.param(job("j").condition("FailureTarget").build(), None, id="only about to fail"),
        pytest.param(job("j").condition("Complete", "False").build(), None, id="not complete"),
        pytest.param(
            job("j").running().complete().build(),
            Finish(reason="Succeeded", message="Reached expected number of succeeded pods"),
            id="complete",
        ),
        pytest.param(
            job("j").running().failed(message="too often").build(),
            Finish(reason="Failed", message="too often"),
            id="failed",
        ),
    ],
)
def test_how_it_ended(built: Job, end: Finish | None) -> None:
    assert BATCH_JOB.finished(built) == end


@pytest.mark.parametrize(
    ("status", "active"), [({}, False), ({"active": 1}, True), ({"terminating": 1}, True), ({"ready": 0}, False)]
)
def test_whether_pods_are_left(status: Tree, active: bool) -> None:
    assert BATCH_JOB.is_active(with_status(job("j").build(), status)) is active


def copied(local: Job, remote: Job) -> Tree | None:
    raw = BATCH_JOB.status_to_copy(local, remote)
    return None if raw is None else tree(raw)


RUNNING = job("j").running(active=2, ready=1).build()


def test_a_running_status_comes_home() -> None:
    assert copied(ours().suspended(False).build(), RUNNING) == {
        "active": 2,
        "ready": 1,
        "startTime": STARTED,
        "conditions": [],
    }


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        pytest.param(ours().build(), RUNNING, id="a suspended job gets no startTime"),
        pytest.param(job("j").build(), RUNNING, id="a job that is not ours has another writer"),
        pytest.param(ours().suspended(False).running().complete().build(), RUNNING, id="what is over is over"),
        pytest.param(
            ours().suspended(False).build(), job("j").condition("Suspended").build(), id="nothing has started yet"
        ),
        pytest.param(ours().suspended(False).running(active=2, ready=1).build(), RUNNING, id="nothing is new"),
    ],
)
def test_no_status_to_copy(local: Job, remote: Job) -> None:
    assert copied(local, remote) is None


def test_a_copied_status_is_not_copied_again() -> None:
    local = ours().suspended(False).build()
    status = copied(local, RUNNING)
    assert status is not None
    assert copied(with_status(local, status), RUNNING) is None


def test_the_end_comes_home_even_to_a_suspended_job() -> None:
    status = copied(ours().build(), job("j").running().complete(at=NOW + timedelta(hours=1)).build())
    assert status is not None
    assert (status["startTime"], status["completionTime"]) == (STARTED, LATER)


def test_a_stopped_job_learns_that_its_pods_are_gone() -> None:
    local = ours().running(active=2).build()
    assert copied(local, job("j").condition("Suspended").build()) == {
        "conditions": [{"type": "Suspended", "status": "True"}]
    }


def test_the_status_patch_removes_what_is_gone() -> None:
    local = ours().version(9).running(active=2).build()
    patch = BATCH_JOB.status_patch(local, msgspec.Raw(b'{"succeeded":1}'))
    assert plain(patch) == {
        "metadata": {"uid": UID, "resourceVersion": "9"},
        "status": {"active": None, "startTime": None, "succeeded": 1},
    }


# --- start and stop --------------------------------------------------------------------------------------------------


def test_a_start_is_for_the_job_as_it_was_seen_and_a_stop_for_this_very_job() -> None:
    held, free = ours().build(), ours().suspended(False).build()
    seen = {"uid": UID, "resourceVersion": held.metadata.resource_version}
    assert BATCH_JOB.start_patch(held) == {"metadata": seen, "spec": {"suspend": False}}
    assert BATCH_JOB.stop_patch(free) == {"metadata": {"uid": UID}, "spec": {"suspend": True}}


def test_started_or_stopped_already() -> None:
    assert BATCH_JOB.start_patch(ours().suspended(False).build()) is None
    assert BATCH_JOB.stop_patch(ours().build()) is None


def test_a_job_is_copied_as_its_user_made_it_not_with_what_its_start_wrote_into_it() -> None:
    held, free = ours(), ours().suspended(False)
    assert BATCH_JOB.may_be_copied(held.build())
    assert not BATCH_JOB.may_be_copied(free.build())
    assert not BATCH_JOB.may_be_copied(held.annotations({STOPPING_ANNOTATION: "true"}).build())


def test_what_kueue_left_half_stopped_is_stopped_wholly() -> None:
    left = ours().annotations({STOPPING_ANNOTATION: "true"}).build()
    unmarked = {"uid": UID, "annotations": {STOPPING_ANNOTATION: None}}
    assert BATCH_JOB.stop_patch(left) == {"metadata": unmarked, "spec": {"suspend": True}}


def test_a_reset_leaves_the_counters_that_may_not_decrease() -> None:
    status = {"active": 1, "ready": 1, "terminating": 2, "failed": 3, "succeeded": 4, "startTime": STARTED}
    patch = BATCH_JOB.reset_status_patch(with_status(ours().build(), status))
    assert patch is not None
    assert patch["status"] == {"active": None, "ready": None, "terminating": None, "startTime": None}


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(ours().build(), id="nothing to reset"),
        pytest.param(ours().suspended(False).running().build(), id="not stopped: startTime may not go"),
        pytest.param(ours().running().complete().build(), id="finished"),
        pytest.param(job("j").suspended().running().build(), id="not ours"),
        pytest.param(with_status(ours().build(), {"active": 0, "failed": 2}), id="only counters left"),
    ],
)
def test_no_reset(built: Job) -> None:
    assert BATCH_JOB.reset_status_patch(built) is None
