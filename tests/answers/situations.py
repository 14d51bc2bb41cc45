"""Situations of a job, each with the answer that it must get: one file, one table, from which docs/why.md is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from multikueue.answers.answer import StateName
from multikueue.answers.codes import Code
from multikueue.answers.seen import Seen, SeenJob
from multikueue.api.kubernetes.printed import (
    ContainerState,
    ContainerStateDetails,
    ContainerStatus,
    PodCondition,
    PrintedEvent,
    PrintedPod,
    PrintedPodStatus,
)
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    FAILED_ON,
    FITS_NO_WORKER,
    LOGS_UNTIL,
    PREEMPTED,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    UNDISPATCHABLE_ANNOTATION,
    Finish,
    Workload,
    any_owner_of,
)
from multikueue.api.meta import ObjectMeta, OwnerReference, render_time
from multikueue.quota.visibility.explain import EXCEEDS, Ending, Explanation, Shortage
from multikueue.workload.nomination.prospects import Prospect, State
from tests.builders import NOW, WorkloadBuilder, workload

MINUTE = timedelta(minutes=1)
LATER = NOW + 2 * MINUTE
"""When it is asked."""

RECREATE = (
    "multikueue workloads cancel -n team-a job/train",
    "multikueue submit -n team-a -f FILE --queue mine",
)
PODS = "It reads no pods: they are on the workers, and take a call to each."
QUEUES_THERE = "It looks at the queues of no worker, which takes two calls to each."
INACTIVE = "ClusterQueue mine-cq references inactive AdmissionCheck(s): mk."
RELEASE = "multikueue workloads release -n team-a job/train"


@dataclass(frozen=True, slots=True)
class Situation:
    """`how` it comes about, in words; `code`: of the first obstacle, None without one; `repair`: its commands. `price`: why a
    list and the manager say less than `why`, empty where they say the same; `coarse`: the code that they have then."""

    how: str
    seen: Seen
    state: StateName
    code: Code | None
    sentence: str
    repair: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    price: str = ""
    coarse: Code | None = None


# --- what is seen ----------------------------------------------------------------------------------------------------


def train() -> WorkloadBuilder:
    return workload("job-train", namespace="team-a").queue("mine").request(cpu=2).owner_job("train").created(NOW)


def kept(local: WorkloadBuilder, until: datetime) -> WorkloadBuilder:
    return local.condition(LOGS_UNTIL, "True", reason="Finished", message=render_time(until))


def waiting(message: str = "") -> WorkloadBuilder:
    return train().unreserved(message=message)


def reserved(*nominated: str) -> WorkloadBuilder:
    return train().reserved("mine-cq").check("mk").nominated(*nominated)


def won(cluster: str = "w1") -> WorkloadBuilder:
    return train().reserved("mine-cq").check("mk", "Ready").admitted().cluster_name(cluster)


def of(made: WorkloadBuilder | Workload, **facts: Any) -> Seen:
    """The job and what is seen of it: its Workload, and its LocalQueue among two."""
    value = made if isinstance(made, Workload) else made.build()
    known: dict[str, Any] = {"queues": frozenset({"mine", "night"}), "own_check": "mk"}
    owner = any_owner_of(value)
    name = f"job/{owner.name}" if owner else f"workload/{value.metadata.name}"
    return Seen(name=name, namespace="team-a", workload=value, **(known | facts))


def alone(kind: str = "Job", **facts: Any) -> Seen:
    """A job without a Workload."""
    labels = facts.pop("labels", {QUEUE_LABEL: "mine"})
    of_kind = facts.pop("of_kind", True)
    job = SeenJob(
        kind=kind,
        meta=ObjectMeta(
            name="train",
            namespace="team-a",
            uid="u",
            labels=labels,
            creation_timestamp=facts.pop("created", NOW),
            owner_references=facts.pop("owners", ()),
        ),
        is_of_known_kind=of_kind,
        unmanaged=facts.pop("unmanaged", ""),
        priority_class=facts.pop("pod_class", ""),
        end=facts.pop("end", None),
    )
    known: dict[str, Any] = {"queues": frozenset({"mine"}), "classes": frozenset({"high", "low"})}
    return Seen(name=f"{kind.lower()}/train", namespace="team-a", job=job, **(known | facts))


def event(reason: str, message: str) -> tuple[PrintedEvent, ...]:
    return (PrintedEvent(reason=reason, message=message, last_timestamp=NOW),)


def no_class(name: str) -> tuple[PrintedEvent, ...]:
    return event("PriorityNotFound", f'WorkloadPriorityClass "{name}" not found')


def quota(*lacks: Shortage, **facts: Any) -> Explanation:
    known: dict[str, Any] = {"workload": "team-a/job-train", "cluster_queue": "mine-cq", "place": 1, "lacks": lacks}
    return Explanation(**(known | facts))


def lack(resource: str = "cpu", **facts: Any) -> Shortage:
    known = {"pod_set": "main", "flavor": "default", "needed": "2", "available": "1", "missing": "1"}
    return Shortage(resource=resource, **(known | facts))


def too_much(most: str, needed: str, flavor: str = "default") -> Shortage:
    problem = f"{needed} are {EXCEEDS} of it: {most}"
    return lack(flavor=flavor, needed=needed, most=most, problem=problem, is_final=True)


def on(state: State, *clusters: str, **facts: Any) -> tuple[Prospect, ...]:
    return tuple(Prospect(cluster=each, state=state.value, **facts) for each in clusters)


def pod(
    name: str = "train-0", reason: str = "", message: str = "", *, ready: bool = False, **status: Any
) -> PrintedPod:
    waits = (
        ContainerState(waiting=ContainerStateDetails(reason=reason, message=message)) if reason else ContainerState()
    )
    container = ContainerStatus(name="main", image="registry.example/train:1", ready=ready, state=waits)
    found = {"phase": "Running" if ready else "Pending", "container_statuses": (container,)} | status
    return PrintedPod(metadata=ObjectMeta(name=name), status=PrintedPodStatus(**found))


FILL, SMALL = (Ending(workload=f"team-a/job-{name}", cluster_queue="mine-cq") for name in ("fill", "small"))
OTHER = {"team-a/job-fill": "job/fill", "team-a/job-small": "job/small", "uid-first": "job/first"}
PREEMPTION = (
    "Preempted to accommodate a workload (UID: uid-first, JobUID: x) due to prioritization in the ClusterQueue; "
    "preemptor path: /a; preemptee path: /a"
)
BEYOND = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (25) > maximum capacity (20)"
)
UNUSED = "insufficient unused quota for cpu in flavor spot, 1 more needed"
CORDONED = on(State.CORDONED, "w1", "w2")

# --- what is answered ------------------------------------------------------------------------------------------------

NEVER = (
    Situation(
        "a ConfigMap",
        alone("ConfigMap", of_kind=False),
        "Pending",
        Code.KindNotDispatched,
        "Pending: objects of kind ConfigMap are not dispatched, and never queue.",
    ),
    Situation(
        "a Pod that a Job has made",
        alone("Pod", labels={}, owners=(OwnerReference(kind="Job", name="big", uid="b", controller=True),)),
        "Pending",
        Code.PartOfAnother,
        "Pending: it is a part of job/big, which queues for all its parts.",
        ("multikueue why -n team-a job/big",),
    ),
    Situation(
        "`kubectl create job` without a queue label",
        alone(labels={}, unmanaged="managedBy is not set"),
        "Pending",
        Code.NoQueueLabel,
        "Pending: it names no queue: its label kueue.x-k8s.io/queue-name is missing.",
        ("kubectl delete -n team-a job/train", "multikueue submit -n team-a -f FILE --queue mine"),
    ),
    Situation(
        "no queue label, and managedBy is set",
        alone(labels={}),
        "Pending",
        Code.NoQueueLabel,
        "Pending: it names no queue: its label kueue.x-k8s.io/queue-name is missing.",
        ("kubectl label -n team-a job/train kueue.x-k8s.io/queue-name=mine",),
    ),
    Situation(
        "a JobSet without a queue label",
        alone("JobSet", labels={}, unmanaged="managedBy is not set"),
        "Pending",
        Code.NoQueueLabel,
        "Pending: it names no queue: its label kueue.x-k8s.io/queue-name is missing.",
        ("kubectl delete -n team-a jobset/train", "multikueue submit -n team-a -f FILE --queue mine"),
    ),
    Situation(
        "a misspelt queue in a job that the webhook has not marked",
        of(
            waiting("LocalQueue min doesn't exist").queue("min"),
            job=SeenJob(kind="Job", meta=ObjectMeta(name="train"), unmanaged="managedBy is not set"),
            quota=quota(problem="LocalQueue min doesn't exist", place=0, cluster_queue=""),
        ),
        "Pending",
        Code.QueueNotFound,
        "Pending: there is no LocalQueue min in namespace team-a; did you mean mine?",
        RECREATE,
    ),
    Situation(
        "a misspelt queue in a job that is marked for dispatch",
        of(
            waiting("LocalQueue zzz doesn't exist").queue("zzz"),
            job=SeenJob(kind="Job", meta=ObjectMeta(name="train")),
        ),
        "Pending",
        Code.QueueNotFound,
        "Pending: there is no LocalQueue zzz in namespace team-a; there are mine, night.",
        ("multikueue workloads move -n team-a job/train --to QUEUE",),
    ),
    Situation(
        "a misspelt WorkloadPriorityClass",
        alone(labels={QUEUE_LABEL: "mine", PRIORITY_CLASS_LABEL: "hihg"}, told=no_class("hihg")),
        "Pending",
        Code.PriorityClassNotFound,
        "Pending: there is no WorkloadPriorityClass hihg; did you mean high?",
        ("kubectl label -n team-a job/train kueue.x-k8s.io/priority-class=high --overwrite",),
    ),
    Situation(
        "a misspelt WorkloadPriorityClass in a RayJob",
        alone("RayJob", labels={QUEUE_LABEL: "mine", PRIORITY_CLASS_LABEL: "lwo"}, told=no_class("lwo")),
        "Pending",
        Code.PriorityClassNotFound,
        "Pending: there is no WorkloadPriorityClass lwo; did you mean low?",
        ("kubectl label -n team-a rayjob/train kueue.x-k8s.io/priority-class=low --overwrite",),
    ),
    Situation(
        "a WorkloadPriorityClass that does not exist, and none is like it",
        alone(labels={QUEUE_LABEL: "mine", PRIORITY_CLASS_LABEL: "nonesuch"}, told=no_class("nonesuch")),
        "Pending",
        Code.PriorityClassNotFound,
        "Pending: there is no WorkloadPriorityClass nonesuch; there are high, low.",
        ("kubectl label -n team-a job/train kueue.x-k8s.io/priority-class=CLASS --overwrite",),
    ),
    Situation(
        "pods with a PriorityClass that does not exist",
        alone(pod_class="gone", told=event("PriorityNotFound", 'PriorityClass "gone" not found')),
        "Pending",
        Code.PriorityClassNotFound,
        "Pending: there is no PriorityClass gone, which its pods name.",
        ("kubectl create priorityclass gone --value=VALUE",),
    ),
    Situation(
        "a job that was created without managedBy, and moved to a queue that is dispatched",
        of(waiting().inactive().annotations({UNDISPATCHABLE_ANNOTATION: "The job can't be dispatched. Recreate it."})),
        "Pending",
        Code.CannotBeDispatched,
        "Pending: The job can't be dispatched. Recreate it.",
        RECREATE,
    ),
    Situation(
        "a resource that no flavor has, while others have the CPUs",
        of(
            waiting(),
            quota=quota(
                lack(),
                lack("nvidia.com/gpu", flavor="", problem="no flavor of the ClusterQueue has it", is_final=True),
            ),
        ),
        "Pending",
        Code.NoFlavorHasResource,
        "Pending: it asks for nvidia.com/gpu, which no flavor of ClusterQueue mine-cq has: it can never run.",
        RECREATE,
    ),
    Situation(
        "more CPUs than the ClusterQueue has",
        of(waiting(), quota=quota(too_much("20", "25"))),
        "Pending",
        Code.MoreThanQueueHas,
        "Pending: it asks for 25 cpu, and ClusterQueue mine-cq can never give more than 20 of flavor default.",
        RECREATE,
    ),
    Situation(
        "more than each of two flavors has",
        of(waiting(), quota=quota(too_much("20", "25"), too_much("8", "25", "spot"))),
        "Pending",
        Code.MoreThanQueueHas,
        "Pending: it asks for 25 cpu, and ClusterQueue mine-cq can never give more than 20 of flavor default, "
        "8 of flavor spot.",
        RECREATE,
    ),
    Situation(
        "a resource that no flavor has, told by the manager to a user who may not see the quota",
        of(waiting("couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue")),
        "Pending",
        Code.NoFlavorHasResource,
        "Pending: it asks for nvidia.com/gpu, which no flavor of its ClusterQueue has: it can never run.",
        RECREATE,
    ),
    Situation(
        "more CPUs than the ClusterQueue has, told by the manager to a user who may not see the quota",
        of(waiting(BEYOND)),
        "Pending",
        Code.MoreThanQueueHas,
        "Pending: it asks for 25 cpu, and its ClusterQueue can never give more than 20 of flavor default.",
        RECREATE,
    ),
    Situation(
        "pods that tolerate no taint of any flavor",
        of(waiting(), quota=quota(lack(problem="untolerated taint {gpu}", is_final=True))),
        "Pending",
        Code.NoFlavorSuits,
        "Pending: no flavor of ClusterQueue mine-cq suits its pods: default (untolerated taint {gpu}).",
        RECREATE,
    ),
    Situation(
        "more than any worker has, while the quota is in use",
        of(
            waiting(),
            quota=quota(lack()),
            workers=on(State.NEVER, "w1", "w2", message="cpu 18 of 16 at most in flavor default"),
        ),
        "Pending",
        Code.NoWorkerCanHold,
        "Pending: no worker can ever hold it: cpu 18 of 16 at most in flavor default on w1, w2.",
        RECREATE,
        price=QUEUES_THERE,
        coarse=Code.QuotaTaken,
    ),
    Situation(
        "one worker is too small, and the other lacks the kind; it is tried again",
        of(
            waiting()
            .evicted("AdmissionCheck")
            .condition(FITS_NO_WORKER, message="cpu 18 of 16: w1; JobSet is not served there: w2")
            .requeue_state(1, at=NOW + 5 * MINUTE),
            quota=quota(),
            workers=(
                *on(State.NEVER, "w1", message="cpu 18 of 16"),
                *on(State.LACKS_KIND, "w2", message="JobSet is not served there"),
            ),
        ),
        "Pending",
        Code.NoWorkerCanHold,
        "Pending: no worker can ever hold it: cpu 18 of 16 on w1; JobSet is not served there on w2. It is tried again at "
        "2026-01-01T12:05:00Z, or as soon as a worker has something else.",
        RECREATE,
    ),
    Situation(
        "no worker can hold it, told by the manager to a user who may see no worker",
        of(
            waiting()
            .evicted("AdmissionCheck", message="Evicted due to AdmissionCheck in Retry state")
            .condition(FITS_NO_WORKER, message="cpu 18 of 16 at most in flavor default: w1, w2")
            .requeue_state(1, at=NOW + 5 * MINUTE),
            quota=quota(),
        ),
        "Pending",
        Code.NoWorkerCanHold,
        "Pending: no worker can ever hold it: cpu 18 of 16 at most in flavor default on w1, w2. It is tried again at "
        "2026-01-01T12:05:00Z, or as soon as a worker has something else.",
        RECREATE,
    ),
)

FIX = (
    Situation(
        "the ResourceQuota of the namespace refuses its Workload",
        alone(told=event("Refused", "the Workload of the job cannot be made: 403 Forbidden: exceeded quota")),
        "Pending",
        Code.WorkloadRefused,
        "Pending: the Workload of the job cannot be made: 403 Forbidden: exceeded quota.",
    ),
    Situation(
        "the Workload that it names does not exist",
        alone(told=event("PrebuiltWorkload", "Prebuilt Workload mine not found: the job waits")),
        "Pending",
        Code.WorkloadNotMade,
        "Pending: Prebuilt Workload mine not found: the job waits.",
    ),
    Situation(
        "a Pod, and a manager that takes no Pods",
        alone("Pod"),
        "Pending",
        Code.NoManager,
        "Pending: no manager has made a Workload of it since it was created at 2026-01-01T12:00:00Z: is one running, with "
        "this kind in the setting integrations.frameworks?",
    ),
    Situation(
        "a claim of devices that nobody mapped to a resource",
        of(waiting(), quota=quota(problem="no DeviceClass is mapped", place=0)),
        "Pending",
        Code.CannotBeQueued,
        "Pending: it cannot be queued as it is: no DeviceClass is mapped.",
    ),
    Situation(
        "no manager runs",
        alone(),
        "Pending",
        Code.NoManager,
        "Pending: no manager has made a Workload of it since it was created at 2026-01-01T12:00:00Z: is one running, with "
        "this kind in the setting integrations.frameworks?",
    ),
    Situation(
        "no manager runs any more",
        of(train(), quota=quota()),
        "Pending",
        Code.NoManager,
        "Pending: no manager has looked at its Workload since it was created at 2026-01-01T12:00:00Z: is one running?",
    ),
    Situation(
        "held by `multikueue workloads hold`",
        of(waiting().inactive().evicted("Deactivated", message="The workload is deactivated")),
        "Held",
        Code.Held,
        "Held since 2026-01-01T12:00:00Z: it does not queue until somebody releases it.",
        (RELEASE,),
    ),
    Situation(
        "it ran for its maximum execution time",
        of(waiting().inactive().evicted("Deactivated", message="due to MaximumExecutionTimeExceeded")),
        "Held",
        Code.OutOfTime,
        "Held since 2026-01-01T12:00:00Z: it ran for its maximum execution time, and does not queue again by itself.",
        ("kubectl label --overwrite -n team-a job/train kueue.x-k8s.io/max-exec-time-seconds=SECONDS", RELEASE),
    ),
    Situation(
        "its pods were not ready in time, as often as is allowed",
        of(waiting().inactive().evicted("DeactivatedDueToRequeuingLimitExceeded", message="too many restarts.")),
        "Held",
        Code.GivenUp,
        "Held since 2026-01-01T12:00:00Z: it was given up, and does not queue again by itself: too many restarts.",
        (RELEASE,),
    ),
    Situation(
        "an admission gate",
        of(waiting().annotations({ADMISSION_GATED_BY_ANNOTATION: "budget.example.com"})),
        "Pending",
        Code.AdmissionGated,
        "Pending: its admission gate keeps it from getting quota, until budget.example.com removes it.",
    ),
    Situation(
        "a LocalQueue that is stopped",
        of(waiting(), quota=quota(problem="LocalQueue mine is inactive", place=0)),
        "Pending",
        Code.LocalQueueStopped,
        "Pending: LocalQueue mine is stopped.",
        ("multikueue queues resume -n team-a mine",),
    ),
    Situation(
        "a LocalQueue that leads to no ClusterQueue",
        of(waiting("ClusterQueue lost doesn't exist")),
        "Pending",
        Code.ClusterQueueNotFound,
        "Pending: its LocalQueue mine leads to ClusterQueue lost, which does not exist.",
    ),
    Situation(
        "a ClusterQueue that is stopped",
        of(waiting(), quota=quota(problem="ClusterQueue mine-cq is stopped")),
        "Pending",
        Code.ClusterQueueStopped,
        "Pending: ClusterQueue mine-cq is stopped.",
        ("multikueue queues resume clusterqueue/mine-cq",),
    ),
    Situation(
        "a ClusterQueue whose flavor is missing",
        of(waiting(), quota=quota(problem="ClusterQueue mine-cq references missing ResourceFlavor(s): [a100]")),
        "Pending",
        Code.ClusterQueueStopped,
        "Pending: ClusterQueue mine-cq references missing ResourceFlavor(s): [a100].",
        ("multikueue queues show clusterqueue/mine-cq",),
    ),
    Situation(
        "the worker that runs it dies",
        of(won(), workers=on(State.UNREACHABLE, "w1", message="no answer", since=NOW)),
        "Unknown",
        Code.WorkerAway,
        "Unknown since 2026-01-01T12:00:00Z: its worker w1 does not answer (no answer); it queues again at "
        "2026-01-01T12:15:00Z, unless w1 answers before.",
    ),
    Situation(
        "the worker that runs it is away for longer than it may be, and no manager has given it up",
        of(won(), workers=on(State.UNREACHABLE, "w1", message="no answer", since=NOW - 14 * MINUTE)),
        "Unknown",
        Code.WorkerAway,
        "Unknown since 2026-01-01T11:46:00Z: its worker w1 does not answer (no answer); it should have queued again at "
        "2026-01-01T12:01:00Z: is a manager running?",
    ),
    Situation(
        "the worker that runs it does not answer whoever asks, and the manager has not missed it yet",
        of(won(), workers=on(State.UNREACHABLE, "w1", message="connection refused")),
        "Unknown",
        Code.WorkerAway,
        "Unknown: its worker w1 does not answer (connection refused); if that stays so, it queues again 15 minutes after "
        "the manager has found the same.",
    ),
    Situation(
        "an image that cannot be pulled",
        of(won(), workers=on(State.HAS_IT, "w1"), pods=(pod(reason="ImagePullBackOff", message="not found"),)),
        "Starting",
        Code.ImageNotPulled,
        "Starting on w1: image registry.example/train:1 cannot be pulled for container main of pod train-0 "
        "(ImagePullBackOff: not found).",
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "a ConfigMap that the worker does not have",
        of(
            won(),
            pods=(
                pod(reason="CreateContainerConfigError", message='configmap "settings" not found'),
                pod("train-1", reason="CreateContainerConfigError"),
            ),
        ),
        "Starting",
        Code.ContainerNotCreated,
        "Starting on w1: container main of pod train-0 cannot be created, as in 1 more (CreateContainerConfigError: "
        'configmap "settings" not found).',
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "a container that fails at once, again and again",
        of(won(), pods=(pod(reason="CrashLoopBackOff", phase="Running"),)),
        "Starting",
        Code.ContainerCrashes,
        "Starting on w1: container main of pod train-0 ends again and again (CrashLoopBackOff).",
        ("multikueue logs -n team-a job/train",),
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "no node of the worker is free",
        of(
            won(),
            pods=(
                pod(
                    container_statuses=(),
                    conditions=(PodCondition(type="PodScheduled", status="False", message="0/3 nodes are available."),),
                ),
            ),
        ),
        "Starting",
        Code.PodNotScheduled,
        "Starting on w1: no node takes pod train-0 (0/3 nodes are available).",
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "a LocalQueue that the workers do not have",
        of(reserved("w1", "w2"), workers=on(State.LACKS_QUEUE, "w1", "w2", message="LocalQueue mine doesn't exist")),
        "Pending",
        Code.LocalQueueMissingOnWorkers,
        "Pending: LocalQueue mine of namespace team-a is missing on w1, w2.",
        (
            'echo \'{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{"name":"mine",'
            '"namespace":"team-a"},"spec":{"clusterQueue":"CLUSTERQUEUE"}}\' | kubectl --context w1 create -f -',
        ),
    ),
    Situation(
        "a LocalQueue that is stopped on the worker",
        of(reserved("w1"), workers=on(State.WAITS, "w1", message="LocalQueue mine is inactive")),
        "Pending",
        Code.QueueStoppedOnWorkers,
        "Pending: LocalQueue mine is inactive on w1.",
        ("multikueue clusters check w1",),
    ),
    Situation(
        "all workers are cordoned",
        of(reserved(), workers=CORDONED),
        "Pending",
        Code.WorkersCordoned,
        "Pending: w1, w2 are cordoned, and no other worker takes it.",
        ("multikueue clusters uncordon w1",),
    ),
    Situation(
        "one worker, which is cordoned, and quota that others have",
        of(waiting(), quota=quota(lack()), workers=on(State.CORDONED, "w1")),
        "Pending",
        Code.WorkersCordoned,
        "Pending: w1 is cordoned, and no other worker takes it.",
        ("multikueue clusters uncordon w1",),
    ),
    Situation(
        "no worker answers",
        of(reserved(), workers=on(State.UNREACHABLE, "w1", "w2", message="no answer", since=NOW)),
        "Pending",
        Code.WorkersAway,
        "Pending: w1, w2 do not answer (no answer), and no other worker takes it.",
        ("multikueue clusters check w1",),
    ),
    Situation(
        "no worker answers, which makes the admission check inactive",
        of(
            waiting(),
            quota=quota(problem=INACTIVE, place=0),
            workers=on(State.UNREACHABLE, "w1", "w2", message="no answer", since=NOW),
        ),
        "Pending",
        Code.WorkersAway,
        "Pending: w1, w2 do not answer (no answer), and no other worker takes it.",
        ("multikueue clusters check w1",),
    ),
    Situation(
        "an object of its name is on the worker already",
        of(reserved(), workers=on(State.UNFIT, "w1", message="a Job of somebody else has its name")),
        "Pending",
        Code.NoWorkerTakesIt,
        "Pending: no worker takes it for now: a Job of somebody else has its name on w1.",
    ),
    Situation(
        "an admission check of somebody else",
        of(reserved().check("budget", message="ask for money")),
        "Pending",
        Code.CheckNotReady,
        "Pending: it has quota, and waits for admission check budget (ask for money).",
    ),
)

PASSING = (
    Situation(
        "two jobs have the quota, and the end of either will do",
        of(
            waiting(),
            quota=quota(
                lack(),
                endings=(FILL,),
                enough=("team-a/job-fill", "team-a/job-small"),
            ),
            jobs=OTHER,
        ),
        "Pending",
        Code.QuotaTaken,
        "Pending: it waits for 1 cpu of flavor default in ClusterQueue mine-cq (number 1 there); it fits once any one of "
        "job/fill, job/small ends.",
    ),
    Situation(
        "two jobs have the quota, and both have to end",
        of(
            waiting(),
            quota=quota(
                lack(),
                lack("memory", missing="2Gi"),
                endings=(
                    FILL,
                    SMALL,
                ),
                place=3,
            ),
            jobs=OTHER,
        ),
        "Pending",
        Code.QuotaTaken,
        "Pending: it waits for 1 cpu of flavor default (and 1 more resource or flavor) in ClusterQueue mine-cq (number 3 "
        "there); it fits once job/fill, job/small have ended.",
    ),
    Situation(
        "one flavor could never hold it, and another is in use",
        of(
            waiting(),
            quota=quota(lack(problem="taint", flavor="spot"), lack(), enough=("team-a/job-fill",)),
            jobs=OTHER,
        ),
        "Pending",
        Code.QuotaTaken,
        "Pending: it waits for 1 cpu of flavor default in ClusterQueue mine-cq (number 1 there); it fits once job/fill ends.",
    ),
    Situation(
        "preempted, and waiting again",
        of(
            waiting().condition(PREEMPTED, message=PREEMPTION).evicted("Preempted", message=PREEMPTION),
            quota=quota(lack(), enough=("team-a/job-first",)),
            jobs={**OTHER, "team-a/job-first": "job/first"},
        ),
        "Pending",
        Code.QuotaTaken,
        "Pending: it waits for 1 cpu of flavor default in ClusterQueue mine-cq (number 1 there); it fits once job/first ends.",
        past=("2026-01-01T12:00:00Z: preempted by job/first, due to prioritization in the ClusterQueue",),
    ),
    Situation(
        "a StrictFIFO queue whose head waits",
        of(train(), quota=quota(behind="team-a/job-fill", place=2), jobs=OTHER),
        "Pending",
        Code.BehindHead,
        "Pending: it waits behind job/fill in ClusterQueue mine-cq (number 2 there), which is StrictFIFO: the first goes "
        "first.",
    ),
    Situation(
        "nothing is lacking",
        of(waiting(), quota=quota()),
        "Pending",
        Code.NextInLine,
        "Pending: ClusterQueue mine-cq (number 1 there) has room for it, and the manager is about to look at it.",
    ),
    Situation(
        "it was created a moment ago",
        alone(created=LATER),
        "Pending",
        Code.NextInLine,
        "Pending: nothing stands in its way, as far as was seen: the manager is about to look at it.",
    ),
    Situation(
        "nobody has looked at it, and its queue cannot be seen",
        of(train()),
        "Pending",
        Code.WaitsForQuota,
        "Pending: it waits for quota in LocalQueue mine: nobody has looked at it yet: others are before it in a StrictFIFO "
        "queue, or no manager runs.",
    ),
    Situation(
        "a user who may not see the quota",
        of(waiting("insufficient quota for cpu"), queues=None, not_seen=("its quota",)),
        "Pending",
        Code.WaitsForQuota,
        "Pending: it waits for quota in LocalQueue mine: insufficient quota for cpu.",
    ),
    Situation(
        "one flavor could never hold it, and another is in use, told by the manager to a user who may not see the quota",
        of(waiting(f"{BEYOND}, {UNUSED}")),
        "Pending",
        Code.WaitsForQuota,
        f"Pending: it waits for quota in LocalQueue mine: {BEYOND}, {UNUSED}.",
    ),
    Situation(
        "a back-off after its pods were not ready in time",
        of(
            waiting()
            .evicted("PodsReadyTimeout", message="Exceeded the PodsReady timeout")
            .requeue_state(2, at=NOW + 5 * MINUTE)
            .condition(FAILED_ON, message="w1 at 2026-01-01T11:59:00Z"),
            quota=quota(problem="held back until 2026-01-01T12:05:00+00:00"),
        ),
        "Pending",
        Code.BackOff,
        "Pending: it queues again at 2026-01-01T12:05:00Z, after its eviction (Exceeded the PodsReady timeout).",
        past=(
            "2026-01-01T11:59:00Z: an attempt on w1 ended",
            "2026-01-01T12:00:00Z: evicted: Exceeded the PodsReady timeout",
        ),
    ),
    Situation(
        "preempted, and still being stopped",
        of(won().condition(PREEMPTED, message=PREEMPTION).evicted("Preempted", message=PREEMPTION), jobs=OTHER),
        "Pending",
        Code.Leaving,
        "Pending: it is being stopped on w1, and queues again once it has given its quota back.",
        past=("2026-01-01T12:00:00Z: preempted by job/first, due to prioritization in the ClusterQueue",),
    ),
    Situation(
        "its copies wait on workers",
        of(
            reserved("w1", "w2"),
            workers=(*on(State.WAITS, "w1", place=2), *on(State.WAITS, "w2"), *on(State.CORDONED, "w3")),
        ),
        "Pending",
        Code.WaitsOnWorkers,
        "Pending: it has quota, and waits for its place on w1 (number 2 there), w2.",
    ),
    Situation(
        "a user who may not see the workers",
        of(reserved("w1", "w2"), own_check=None, not_seen=("MultiKueueClusters",)),
        "Pending",
        Code.WaitsOnWorkers,
        "Pending: it has quota, and waits for its place on w1, w2.",
    ),
    Situation(
        "the strategy has named no worker yet",
        of(reserved(), workers=on(State.NOT_ASKED, "w1", "w2")),
        "Pending",
        Code.NotAskedYet,
        "Pending: it has quota, and the strategy has not named a worker yet; there are w1, w2.",
    ),
    Situation(
        "its pods start",
        of(won(), pods=(pod(reason="ContainerCreating"), pod("train-1", reason="ContainerCreating"))),
        "Starting",
        Code.PodsStarting,
        "Starting on w1: none of its 2 pods is ready: ContainerCreating.",
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "its only pod starts",
        of(won(), pods=(pod(reason="ContainerCreating"),)),
        "Starting",
        Code.PodsStarting,
        "Starting on w1: its pod is not ready: ContainerCreating.",
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "it has no pods yet",
        of(won(), pods=()),
        "Starting",
        Code.PodsStarting,
        "Starting on w1: it has no pods there yet.",
        price=PODS,
        coarse=Code.PodsStarting,
    ),
    Situation(
        "a queue whose jobs do not go to workers",
        of(train().reserved("mine-cq").admitted(), own_check=""),
        "Starting",
        Code.PodsStarting,
        "Starting on the manager cluster: no pod is ready yet, by the status of the job.",
    ),
    Situation(
        "a user who may not see the pods",
        of(won(), job=SeenJob(kind="Job", meta=ObjectMeta(name="train"), ready=0)),
        "Starting",
        Code.PodsStarting,
        "Starting on w1: no pod is ready yet, by the status of the job.",
    ),
    Situation(
        "it is being deleted",
        of(waiting().finalizers("kueue.x-k8s.io/resource-in-use").deleted(), quota=quota()),
        "Pending",
        Code.Terminating,
        "Pending: it is being deleted, and finalizer kueue.x-k8s.io/resource-in-use still holds it.",
    ),
)

FINE = (
    Situation(
        "a pod is ready",
        of(won(), pods=(pod(ready=True), pod("train-1"))),
        "Running",
        None,
        "Running on w1 since 2026-01-01T12:00:00Z.",
    ),
    Situation(
        "a user who may not see the pods, and a ready one by the job's status",
        of(won(), job=SeenJob(kind="Job", meta=ObjectMeta(name="train"), ready=1)),
        "Running",
        None,
        "Running on w1 since 2026-01-01T12:00:00Z.",
    ),
    Situation(
        "it has succeeded",
        of(won().finished(message="Reached expected number of succeeded pods")),
        "Finished",
        None,
        "Finished on w1: Reached expected number of succeeded pods.",
    ),
    Situation(
        "it has succeeded, as its own status says, and its Workload is deleted",
        alone(end=Finish(reason="Succeeded", message="Job finished successfully")),
        "Finished",
        None,
        "Finished: Job finished successfully.",
    ),
    Situation(
        "it has failed, and its Workload does not say so yet",
        of(
            won(),
            job=SeenJob(
                kind="Job", meta=ObjectMeta(name="train"), end=Finish(reason="Failed", message="no pod is left")
            ),
        ),
        "Failed",
        None,
        "Failed on w1: no pod is left.",
    ),
    Situation(
        "it has failed", of(won().finished("Failed", message="pod died")), "Failed", None, "Failed on w1: pod died."
    ),
    Situation(
        "it has failed, and its logs can be read for a day",
        of(kept(won().finished("Failed", message="pod died"), NOW + timedelta(days=1))),
        "Failed",
        None,
        "Failed on w1 (logs until 2026-01-02T12:00:00Z): pod died.",
    ),
    Situation(
        "it has succeeded, and the time of its logs is over",
        of(kept(won().finished(message="all went well"), NOW + MINUTE)),
        "Finished",
        None,
        "Finished on w1 (logs gone since 2026-01-01T12:01:00Z): all went well.",
    ),
)

SITUATIONS = (*NEVER, *FIX, *PASSING, *FINE)
