"""Workloads and jobs as a server shows them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from multikueue.api.jobs.job import JobCondition, JobStatus, job_spec, job_status
from multikueue.api.kueue.workload import (
    ATTEMPT_ANNOTATION,
    JOB_UID_LABEL,
    ORIGIN_LABEL,
    PREBUILT_LABEL,
    QUEUE_LABEL,
    Admission,
    AdmissionCheckState,
    PodSetAssignment,
    PriorityClassRef,
    ReclaimablePod,
    RequeueState,
    Workload,
    workload_spec,
)
from multikueue.api.meta import Condition, controller_of, decoder, encode
from tests.builders import NOW, WorkloadBuilder, job, pod_set, workload

LATER = NOW + timedelta(minutes=5)


def states(builder: WorkloadBuilder) -> dict[str, str]:
    return {each.type: each.status for each in builder.build().status.conditions}


def template(raw: object) -> Any:
    return json.loads(bytes(raw))  # type: ignore[call-overload]  # a msgspec.Raw, which is a buffer


def test_workloads_built_alike_are_equal_and_survive_a_round_trip() -> None:
    built = workload("wl").queue("main").request(cpu=2).reserved().check().nominated("a").build()
    assert built == workload("wl").queue("main").request(cpu=2).reserved().check().nominated("a").build()
    assert built != workload("wl").queue("main").request(cpu=3).reserved().check().nominated("a").build()
    assert decoder(Workload)(encode(built)) == built


def test_the_spec_is_what_was_said() -> None:
    built = workload("wl").queue("main").priority(7, workload_class="high").inactive().count(3)
    spec = workload_spec(built.max_execution_time(timedelta(hours=1)).build())
    assert (spec.queue_name, spec.priority, spec.active) == ("main", 7, False)
    assert spec.priority_class_ref == PriorityClassRef(
        group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="high"
    )
    assert spec.maximum_execution_time_seconds == 3600
    assert [(each.name, each.count) for each in spec.pod_sets] == [("main", 3)]


def test_the_spec_has_in_its_bytes_what_a_server_fills_in() -> None:
    spec = json.loads(bytes(workload("wl").build().spec))
    assert {name: spec[name] for name in ("queueName", "priority", "active")} == {
        "queueName": "",
        "priority": 0,
        "active": True,
    }
    assert {name: spec["podSets"][0][name] for name in ("name", "count")} == {"name": "main", "count": 1}


def test_requests_are_in_the_pod_template_and_add_up() -> None:
    spec = workload_spec(workload("wl").request(cpu=2).request({"nvidia.com/gpu": 8}, memory="4Gi").build())
    [container] = template(spec.pod_sets[0].template)["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "2", "nvidia.com/gpu": "8", "memory": "4Gi"}


def test_several_pod_sets_each_have_their_own() -> None:
    driver = pod_set("driver").request(cpu=1)
    workers = (
        pod_set("workers", count=8)
        .min_count(4)
        .request(cpu=2)
        .node_selector(zone="a")
        .tolerate("spot", "yes", effect="NoExecute")
    )
    spec = workload_spec(workload("wl").pod_sets(driver, workers).build())
    assert [(each.name, each.count, each.min_count) for each in spec.pod_sets] == [
        ("driver", 1, None),
        ("workers", 8, 4),
    ]
    pod = template(spec.pod_sets[1].template)["spec"]
    assert pod["nodeSelector"] == {"zone": "a"}
    assert pod["tolerations"] == [{"key": "spot", "value": "yes", "effect": "NoExecute"}]


def test_a_pod_set_alone_is_the_same_as_in_a_workload() -> None:
    pods = pod_set("main", count=2).min_count(1).request(cpu=1)
    assert workload_spec(workload("wl").pod_sets(pods).build()).pod_sets == (pods.build(),)


def test_a_template_may_be_given_whole() -> None:
    spec = workload_spec(workload("wl").pod_sets(pod_set().template(b'{"spec":{"containers":[]}}')).build())
    assert bytes(spec.pod_sets[0].template) == b'{"spec":{"containers":[]}}'


def test_a_reservation_assigns_the_usage_of_all_pods() -> None:
    pending = workload("wl").request(cpu="500m", memory="1Gi").count(3)
    built = pending.reserved("cq", flavors={"cpu": "spot"}, at=LATER).build()
    assert built.status.admission == Admission(
        cluster_queue="cq",
        pod_set_assignments=(
            PodSetAssignment(
                name="main",
                flavors={"cpu": "spot", "memory": "default"},
                resource_usage={"cpu": "1500m", "memory": "3Gi"},
                count=3,
            ),
        ),
    )
    assert built.status.conditions == (
        Condition(
            type="QuotaReserved",
            status="True",
            reason="QuotaReserved",
            message="Quota reserved in ClusterQueue cq",
            last_transition_time=LATER,
        ),
    )


def test_the_usage_follows_what_is_said_after_the_reservation() -> None:
    built = workload("wl").reserved().request(cpu=1).build()
    assert built.status.admission
    assert built.status.admission.pod_set_assignments[0].resource_usage == {"cpu": "1"}


def test_admitted_reserves_if_need_be() -> None:
    assert states(workload("wl").admitted()) == {"QuotaReserved": "True", "Admitted": "True"}
    kept = workload("wl").reserved("mine").admitted().build().status.admission
    assert kept
    assert kept.cluster_queue == "mine"


def test_a_life_with_an_eviction() -> None:
    evicted = workload("wl").admitted().evicted("Preempted")
    assert states(evicted) == {"QuotaReserved": "True", "Admitted": "True", "Evicted": "True"}

    released = evicted.unreserved(at=LATER)
    assert states(released) == {"QuotaReserved": "False", "Admitted": "False", "Evicted": "True"}
    assert released.build().status.admission is None


def test_unreserved_without_an_admission_says_nothing_of_admission() -> None:
    assert states(workload("wl").reserved().unreserved()) == {"QuotaReserved": "False"}


def test_finished_tells_how() -> None:
    built = workload("wl").finished("Failed", message="oom", at=LATER).build()
    finished = built.condition("Finished")
    assert finished
    assert (finished.reason, finished.message, finished.last_transition_time) == ("Failed", "oom", LATER)


def test_a_condition_that_keeps_its_status_keeps_its_time() -> None:
    built = workload("wl").evicted("Preempted").evicted("AdmissionCheck", at=LATER).build()
    evicted = built.condition("Evicted")
    assert evicted
    assert (evicted.reason, evicted.last_transition_time) == ("AdmissionCheck", NOW)


def test_a_check_is_set_by_name() -> None:
    built = workload("wl").check("mk").check("other").check("mk", "Ready", message="on w1", at=LATER).build()
    assert built.status.admission_checks == (
        AdmissionCheckState(name="mk", state="Ready", message="on w1", last_transition_time=LATER),
        AdmissionCheckState(name="other", state="Pending", message="", last_transition_time=NOW),
    )


def test_a_winner_ends_the_nomination() -> None:
    nominated = workload("wl").nominated("a", "b")
    assert nominated.build().status.nominated_cluster_names == ("a", "b")
    won = nominated.cluster_name("a").build().status
    assert (won.cluster_name, won.nominated_cluster_names) == ("a", ())


def test_a_copy_carries_origin_and_attempt() -> None:
    built = workload("wl").origin().attempt("2026").build()
    assert built.metadata.labels == {ORIGIN_LABEL: "multikueue"}
    assert built.metadata.annotations == {ATTEMPT_ANNOTATION: "2026"}


def test_an_owned_workload_points_at_the_job_of_that_name() -> None:
    built = workload("wl", namespace="team").owner_job("j").build()
    owner = controller_of(built.metadata)
    assert owner
    uid = job("j", namespace="team").build().metadata.uid
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("batch/v1", "Job", "j", uid)
    assert built.metadata.labels == {JOB_UID_LABEL: uid}


def test_requeue_state_and_reclaimable_pods() -> None:
    status = workload("wl").requeue_state(3, at=LATER).reclaimable(main=2).build().status
    assert status.requeue_state == RequeueState(count=3, requeue_at=LATER)
    assert status.reclaimable_pods == (ReclaimablePod(name="main", count=2),)


def test_a_job_is_what_was_said() -> None:
    built = job("j").queue("main").parallelism(2).completions(4).suspended().managed_by().request(cpu=1).build()
    spec = job_spec(built)
    assert built.metadata.labels == {QUEUE_LABEL: "main"}
    assert (spec.parallelism, spec.completions, spec.suspend) == (2, 4, True)
    assert spec.managed_by == "kueue.x-k8s.io/multikueue"
    [container] = template(spec.template)["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1"}
    assert job_status(built) == JobStatus()


def test_a_job_as_submitted_is_neither_suspended_nor_managed() -> None:
    spec = job_spec(job("j").build())
    assert (spec.suspend, spec.managed_by) == (False, None)


def test_a_remote_job_carries_its_workload_origin_and_attempt() -> None:
    built = job("j").prebuilt("wl").origin("o").attempt("1").template(b"{}").build()
    assert built.metadata.labels == {PREBUILT_LABEL: "wl", ORIGIN_LABEL: "o"}
    assert built.metadata.annotations == {ATTEMPT_ANNOTATION: "1"}
    assert bytes(job_spec(built).template) == b"{}"


def test_a_job_runs_and_ends() -> None:
    running = job("j").running(active=2, ready=1)
    assert job_status(running.build()) == JobStatus(active=2, ready=1, start_time=NOW)
    assert job_status(running.complete(succeeded=2, at=LATER).build()) == JobStatus(
        start_time=NOW,
        completion_time=LATER,
        succeeded=2,
        conditions=(
            JobCondition(
                type="Complete",
                status="True",
                reason="CompletionsReached",
                message="Reached expected number of succeeded pods",
            ),
        ),
    )
    failed = job_status(running.failed(message="oom").build())
    assert (failed.failed, failed.conditions[0].type, failed.conditions[0].message) == (1, "Failed", "oom")


def test_a_condition_of_a_job_is_set_by_type() -> None:
    status = job_status(job("j").condition("Suspended").condition("Suspended", "False", reason="Resumed").build())
    assert status.conditions == (JobCondition(type="Suspended", status="False", reason="Resumed"),)
