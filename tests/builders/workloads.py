"""Builders of workloads and jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import Job, JobCondition, JobStatus
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.queues import (
    Toleration,
)
from multikueue.api.kueue.workload import (
    ADMITTED,
    ATTEMPT_ANNOTATION,
    EVICTED,
    FINISHED,
    JOB_UID_LABEL,
    ORIGIN_LABEL,
    PREBUILT_LABEL,
    QUEUE_LABEL,
    QUOTA_RESERVED,
    SUCCEEDED,
    Admission,
    AdmissionCheckState,
    CheckState,
    PodSet,
    PodSetAssignment,
    PriorityClassRef,
    ReclaimablePod,
    RequeueState,
    Workload,
    WorkloadSpec,
)
from multikueue.api.meta import Condition, ConditionStatus, encode
from multikueue.api.values.quantity import amount, parse
from multikueue.api.values.quantity import render as render_amount
from multikueue.testing import NOW, Quantity
from tests.builders.objects import Builder, metadata_of, uid_of


@dataclass(frozen=True, slots=True)
class PodSetBuilder:
    """Identical pods: one container each, unless `template` replaces it."""

    name: str = "main"
    pods: int = 1
    fewest: int | None = None
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    raw: bytes = b""
    near: Mapping[str, Any] = field(default_factory=dict)

    def count(self, pods: int) -> Self:
        return dataclasses.replace(self, pods=pods)

    def topology(self, **request: Any) -> Self:
        """Sets the topology request, as the API spells it: `required="rack"`."""
        return dataclasses.replace(self, near=request)

    def min_count(self, pods: int) -> Self:
        """Sets the minimum number of pods, for partial admission."""
        return dataclasses.replace(self, fewest=pods)

    def request(self, resources: Mapping[str, Quantity] | None = None, **more: Quantity) -> Self:
        """Adds requests of each pod."""
        return dataclasses.replace(self, requests={**self.requests, **(resources or {}), **more})

    def node_selector(self, labels: Mapping[str, str] | None = None, **more: str) -> Self:
        return dataclasses.replace(self, selector={**self.selector, **(labels or {}), **more})

    def tolerate(self, key: str, value: str = "", *, effect: str = "NoSchedule", operator: str = "Equal") -> Self:
        toleration = Toleration(key=key, value=value, effect=effect, operator=operator)
        return dataclasses.replace(self, tolerations=(*self.tolerations, toleration))

    def template(self, raw: bytes) -> Self:
        """Sets the whole pod template as JSON, in place of the one made from requests, selector and tolerations."""
        return dataclasses.replace(self, raw=raw)

    def build(self) -> PodSet:
        template = msgspec.Raw(self.template_json())
        request = {"topology_request": msgspec.Raw(encode(self.near))} if self.near else {}
        return PodSet(name=self.name, count=self.pods, min_count=self.fewest, template=template, **request)

    def rendered(self) -> dict[str, Any]:
        """The entry of `spec.podSets`, with the fields that a server defaults."""
        fewest = {} if self.fewest is None else {"minCount": self.fewest}
        near = {"topologyRequest": self.near} if self.near else {}
        return {"name": self.name, "count": self.pods, **fewest, "template": msgspec.Raw(self.template_json()), **near}

    def template_json(self) -> bytes:
        return self.raw or encode({"spec": self._pod_spec()})

    def totals(self) -> dict[str, str]:
        """The requests of all pods together, as Kueue writes them into an admission."""
        return {
            name: render_amount(name, amount(name, parse(each)) * self.pods) for name, each in self.requests.items()
        }

    def _pod_spec(self) -> dict[str, Any]:
        requests = {name: str(each) for name, each in self.requests.items()}
        container = {"name": "main", "image": "registry.example/main", "resources": {"requests": requests}}
        spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
        if self.selector:
            spec["nodeSelector"] = self.selector
        if self.tolerations:
            spec["tolerations"] = self.tolerations
        return spec


@dataclass(frozen=True, slots=True)
class WorkloadBuilder(Builder[Workload]):
    """A Workload of one pod set named main, unless `pod_sets` replaces it."""

    spec: WorkloadSpec
    sets: tuple[PodSetBuilder, ...] = (PodSetBuilder(),)
    flavors: Mapping[str, str] = field(default_factory=dict)

    def queue(self, name: str) -> Self:
        """Sets the LocalQueue."""
        return dataclasses.replace(self, spec=replace(self.spec, queue_name=name))

    def priority(self, value: int, *, workload_class: str = "") -> Self:
        """Sets the priority, and the WorkloadPriorityClass it comes from, if any."""
        kind = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=workload_class)
        source = kind if workload_class else None
        return dataclasses.replace(self, spec=replace(self.spec, priority=value, priority_class_ref=source))

    def inactive(self) -> Self:
        return dataclasses.replace(self, spec=replace(self.spec, active=False))

    def max_execution_time(self, duration: timedelta) -> Self:
        seconds = int(duration.total_seconds())
        return dataclasses.replace(self, spec=replace(self.spec, maximum_execution_time_seconds=seconds))

    def pod_sets(self, *pod_sets: PodSetBuilder) -> Self:
        """Replaces the pod sets."""
        return dataclasses.replace(self, sets=pod_sets)

    def request(self, resources: Mapping[str, Quantity] | None = None, **more: Quantity) -> Self:
        """Adds requests of each pod of the first pod set."""
        return dataclasses.replace(self, sets=(self.sets[0].request(resources, **more), *self.sets[1:]))

    def count(self, pods: int) -> Self:
        """Sets the number of pods of the first pod set."""
        return dataclasses.replace(self, sets=(self.sets[0].count(pods), *self.sets[1:]))

    def owner_job(self, name: str, *, uid: str = "") -> Self:
        """Makes that batch/v1 Job of the same namespace its controller. The builder `job` gives the same UID."""
        uid = uid or uid_of("job", name, self.value.metadata.namespace)
        owned = self.owned_by(api_version="batch/v1", kind="Job", name=name, uid=uid)
        return owned.labels({JOB_UID_LABEL: uid})

    def origin(self, origin: str = "multikueue") -> Self:
        """Marks it as a copy made by the manager of that origin."""
        return self.labels({ORIGIN_LABEL: origin})

    def attempt(self, mark: str) -> Self:
        """Marks it as a copy of that attempt."""
        return self.annotations({ATTEMPT_ANNOTATION: mark})

    def condition(
        self, type_: str, status: ConditionStatus = "True", *, reason: str = "", message: str = "", at: datetime = NOW
    ) -> Self:
        """Sets the condition; its transition time moves to `at` only when the status changes, as in Kubernetes."""
        return self._with_condition(Condition(type=type_, status=status, reason=reason, message=message), at)

    def reserved(
        self, cluster_queue: str = "cq", *, flavors: Mapping[str, str] | None = None, at: datetime = NOW
    ) -> Self:
        """Reserves quota there; `flavors` gives the flavor by resource (default: "default")."""
        held = self._with_status(admission=Admission(cluster_queue=cluster_queue))
        message = f"Quota reserved in ClusterQueue {cluster_queue}"
        return dataclasses.replace(held, flavors=dict(flavors or {})).condition(
            QUOTA_RESERVED, reason=QUOTA_RESERVED, message=message, at=at
        )

    def admitted(self, *, at: datetime = NOW) -> Self:
        """Admits it, with quota in `cq` unless reserved before."""
        held = self if self.value.status.admission else self.reserved(at=at)
        return held.condition(ADMITTED, reason=ADMITTED, message="The workload is admitted", at=at)

    def unreserved(self, *, reason: str = "Pending", message: str = "", at: datetime = NOW) -> Self:
        """Releases the quota, as after an eviction."""
        lost = self._with_status(admission=None).condition(
            QUOTA_RESERVED, "False", reason=reason, message=message, at=at
        )
        return lost.condition(ADMITTED, "False", reason="NoReservation", at=at) if self.value.has(ADMITTED) else lost

    def evicted(self, reason: str = "Preempted", *, message: str = "", at: datetime = NOW) -> Self:
        return self.condition(EVICTED, reason=reason, message=message, at=at)

    def finished(self, reason: str = SUCCEEDED, *, message: str = "", at: datetime = NOW) -> Self:
        return self.condition(FINISHED, reason=reason, message=message, at=at)

    def check(self, name: str = "mk", state: CheckState = "Pending", *, message: str = "", at: datetime = NOW) -> Self:
        """Sets the state of one admission check."""
        new = AdmissionCheckState(name=name, state=state, message=message, last_transition_time=at)
        old = self.value.status.admission_checks
        if any(each.name == name for each in old):
            return self._with_status(admission_checks=tuple(new if each.name == name else each for each in old))
        return self._with_status(admission_checks=(*old, new))

    def nominated(self, *clusters: str) -> Self:
        return self._with_status(nominated_cluster_names=clusters)

    def cluster_name(self, cluster: str) -> Self:
        """Sets the winner, which ends the nomination."""
        return self._with_status(cluster_name=cluster, nominated_cluster_names=())

    def requeue_state(self, count: int, *, at: datetime | None = None) -> Self:
        return self._with_status(requeue_state=RequeueState(count=count, requeue_at=at))

    def reclaimable(self, **pods: int) -> Self:
        """Sets the reclaimable pods, by pod set."""
        freed = tuple(ReclaimablePod(name=name, count=count) for name, count in pods.items())
        return self._with_status(reclaimable_pods=freed)

    def build(self) -> Workload:
        status = replace(self.value.status, admission=self._admission())
        return replace(self.value, spec=msgspec.Raw(encode(self._spec())), status=status)

    def _spec(self) -> dict[str, Any]:
        """The spec as a server shows it: with defaulted fields even where they equal our defaults."""
        always = {
            "podSets": [each.rendered() for each in self.sets],
            "queueName": self.spec.queue_name,
            "priority": self.spec.priority,
            "active": self.spec.active,
        }
        return {**always, **msgspec.to_builtins(self.spec)}

    def _admission(self) -> Admission | None:
        admission = self.value.status.admission
        if admission is None or admission.pod_set_assignments:
            return admission
        assignments = tuple(self._assignment(each) for each in self.sets)
        return replace(admission, pod_set_assignments=assignments)

    def _assignment(self, pods: PodSetBuilder) -> PodSetAssignment:
        flavors = {name: self.flavors.get(name, "default") for name in pods.requests}
        return PodSetAssignment(name=pods.name, flavors=flavors, resource_usage=pods.totals(), count=pods.pods)


@dataclass(frozen=True, slots=True)
class JobBuilder(Builder[Job]):
    """A batch/v1 Job of one pod, as its user submits it: neither suspended nor with managedBy."""

    status: JobStatus
    pods: PodSetBuilder = PodSetBuilder()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def queue(self, name: str) -> Self:
        """Sets the LocalQueue."""
        return self.labels({QUEUE_LABEL: name})

    def prebuilt(self, workload: str) -> Self:
        """Makes it a remote job of that Workload."""
        return self.labels({PREBUILT_LABEL: workload})

    def origin(self, origin: str = "multikueue") -> Self:
        """Marks it as a copy made by the manager of that origin."""
        return self.labels({ORIGIN_LABEL: origin})

    def attempt(self, mark: str) -> Self:
        """Marks it as a copy of that attempt."""
        return self.annotations({ATTEMPT_ANNOTATION: mark})

    def parallelism(self, pods: int) -> Self:
        return self._with_field(parallelism=pods)

    def completions(self, pods: int) -> Self:
        return self._with_field(completions=pods)

    def request(self, resources: Mapping[str, Quantity] | None = None, **more: Quantity) -> Self:
        """Adds requests of each pod."""
        return dataclasses.replace(self, pods=self.pods.request(resources, **more))

    def template(self, raw: bytes) -> Self:
        """Sets the whole pod template as JSON."""
        return dataclasses.replace(self, pods=self.pods.template(raw))

    def suspended(self, yes: bool = True) -> Self:
        return self._with_field(suspend=yes)

    def managed_by(self, controller: str = CONTROLLER_NAME) -> Self:
        return self._with_field(managedBy=controller)

    def running(self, *, active: int = 1, ready: int = 0, at: datetime = NOW) -> Self:
        """Starts it at `at`, with that many pods now."""
        return self._with_job_status(active=active, ready=ready, start_time=self.status.start_time or at)

    def condition(self, type_: str, status: ConditionStatus = "True", *, reason: str = "", message: str = "") -> Self:
        """Sets one of batch/v1's conditions, such as Suspended."""
        new = JobCondition(type=type_, status=status, reason=reason, message=message)
        others = tuple(each for each in self.status.conditions if each.type != type_)
        return self._with_job_status(conditions=(*others, new))

    def complete(self, *, succeeded: int = 1, at: datetime = NOW) -> Self:
        """Ends it with success at `at`."""
        ended = self._with_job_status(active=0, ready=0, succeeded=succeeded, completion_time=at)
        message = "Reached expected number of succeeded pods"
        return ended.condition("Complete", reason="CompletionsReached", message=message)

    def failed(self, *, reason: str = "BackoffLimitExceeded", message: str = "", pods: int = 1) -> Self:
        """Ends it with failure."""
        return self._with_job_status(active=0, ready=0, failed=pods).condition("Failed", reason=reason, message=message)

    def build(self) -> Job:
        always = {"parallelism": 1, "completions": 1, "suspend": False}
        spec = {**always, **self.fields, "template": msgspec.Raw(self.pods.template_json())}
        return replace(self.value, spec=msgspec.Raw(encode(spec)), status=msgspec.Raw(encode(self.status)))

    def _with_field(self, **changes: Any) -> Self:
        return dataclasses.replace(self, fields={**self.fields, **changes})

    def _with_job_status(self, **changes: Any) -> Self:
        return dataclasses.replace(self, status=replace(self.status, **changes))


def pod_set(name: str = "main", *, count: int = 1) -> PodSetBuilder:
    return PodSetBuilder(name=name, pods=count)


def workload(name: str, *, namespace: str = "default") -> WorkloadBuilder:
    """A Workload of one pod that requests nothing, without status."""
    return WorkloadBuilder(Workload(metadata=metadata_of("workload", name, namespace)), WorkloadSpec())


def job(name: str, *, namespace: str = "default") -> JobBuilder:
    return JobBuilder(Job(metadata=metadata_of("job", name, namespace)), JobStatus())
