"""What a person has to change: each obstacle with the command, where one helps, and who may run it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from multikueue.answers.codes import Code
from multikueue.answers.never import by_message, queue_named
from multikueue.answers.obstacle import (
    ADMINISTRATOR,
    BATCH_ADMINISTRATOR,
    WORKER_ADMINISTRATOR,
    Obstacle,
    Rule,
    foreign,
    names,
    obstacle,
    span,
)
from multikueue.answers.seen import Seen, is_held
from multikueue.api.kubernetes.event import REFUSED
from multikueue.api.kubernetes.printed import ContainerStatus, PrintedPod
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    EVICTED,
    FINISHED,
    MAX_EXEC_TIME_LABEL,
    OUT_OF_TIME,
    QUOTA_RESERVED,
    Workload,
    admission_gates,
)
from multikueue.api.meta import render_time
from multikueue.workload.nomination.prospects import Prospect, State

__all__ = ["RULES", "SETTLED_AFTER", "able", "checks_not_ready", "is_at_work"]

SETTLED_AFTER = timedelta(seconds=30)
"""A manager that runs has looked at a new job long before."""

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_CREATE = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_CRASH = {"CrashLoopBackOff"}
_NOT_MADE = (
    "ErrWorkloadCompose",
    "JobNestingTooDeep",
    "PodsUnknown",
    "PrebuiltWorkload",
    "WorkloadNameTaken",
    "WorkloadUnreadable",
)
_INACTIVE = "references inactive AdmissionCheck"
_CLUSTER_QUEUE = re.compile(r"^ClusterQueue (?P<name>\S+) (?P<why>.+)$", re.DOTALL)


# --- before it has quota ---------------------------------------------------------------------------------------------


def _refused(seen: Seen, _now: datetime) -> Obstacle | None:
    told = seen.newest(REFUSED) if seen.workload is None else None
    return obstacle(Code.WorkloadRefused, foreign(told.message)) if told is not None else None


def _not_made(seen: Seen, _now: datetime) -> Obstacle | None:
    told = seen.newest(*_NOT_MADE) if seen.workload is None else None
    return obstacle(Code.WorkloadNotMade, foreign(told.message)) if told is not None else None


def _no_manager(seen: Seen, now: datetime) -> Obstacle | None:
    meta = seen.workload.metadata if seen.workload else seen.job.meta if seen.job else None
    if meta is None or (seen.workload is not None and seen.workload.status.conditions):
        return None
    if seen.workload is not None and (seen.quota is None or seen.quota.behind):
        return None  # no cycle looks at what is behind a strict head
    queue, is_known = queue_named(seen), seen.workload is not None or bool(seen.job and seen.job.is_of_known_kind)
    began = meta.creation_timestamp
    if not queue or not is_known or seen.told or began is None or now - began < SETTLED_AFTER:
        return None
    if seen.workload is not None:
        return obstacle(
            Code.NoManager,
            f"no manager has looked at its Workload since it was created at {render_time(began)}: is one running?",
        )
    doubt = (
        f" Or is there no WorkloadPriorityClass {seen.job.workload_class}?" if _hides_class(seen) and seen.job else ""
    )
    return obstacle(
        Code.NoManager,
        f"no manager has made a Workload of it since it was created at {render_time(began)}: is one running, with this kind in "
        f"the setting integrations.frameworks?{doubt}",
    )


def _hides_class(seen: Seen) -> bool:
    """Whether its WorkloadPriorityClass may be missing, for all that was seen."""
    return seen.job is not None and bool(seen.job.workload_class) and seen.classes is None


def _held(seen: Seen, _now: datetime) -> Obstacle | None:
    workload = seen.workload
    if workload is None or not is_held(workload):
        return None
    release = f"multikueue workloads release -n {seen.namespace} {seen.name}"
    evicted = workload.condition(EVICTED)
    reason, message = (evicted.reason, evicted.message) if evicted else ("", "")
    if OUT_OF_TIME in f"{reason} {message}":
        label = f"{MAX_EXEC_TIME_LABEL}=SECONDS"
        longer = f"kubectl label --overwrite -n {seen.namespace} {seen.name} {label}"
        text = "it ran for its maximum execution time, and does not queue again by itself"
        return obstacle(Code.OutOfTime, text, longer, release, by=BATCH_ADMINISTRATOR)
    if reason.startswith(DEACTIVATED) and reason != DEACTIVATED:
        text = f"it was given up, and does not queue again by itself: {foreign(message or reason)}"
        return obstacle(Code.GivenUp, text, release, by=BATCH_ADMINISTRATOR)
    return obstacle(Code.Held, "it does not queue until somebody releases it", release, by=BATCH_ADMINISTRATOR)


def _gated(seen: Seen, _now: datetime) -> Obstacle | None:
    gates = admission_gates(seen.workload.metadata) if seen.workload and not _has_quota(seen.workload) else ""
    if not gates:
        return None
    return obstacle(Code.AdmissionGated, f"its admission gate keeps it from getting quota, until {gates} removes it")


def _stopped_local_queue(seen: Seen, _now: datetime) -> Obstacle | None:
    queue = queue_named(seen)
    if f"LocalQueue {queue} is" not in _problem(seen) and "LocalQueueStopped" not in _eviction(seen):
        return None
    resume = f"multikueue queues resume -n {seen.namespace} {queue}"
    return obstacle(
        Code.LocalQueueStopped, f"LocalQueue {queue} is stopped", resume, by="anyone who may patch LocalQueues"
    )


def _stopped_cluster_queue(seen: Seen, now: datetime) -> Obstacle | None:
    found = _CLUSTER_QUEUE.match(_problem(seen))
    if found is None or (
        _INACTIVE in found["why"] and _all_away(seen, now)
    ):  # a check is inactive while no worker answers
        return None
    name, why = found["name"], foreign(found["why"])
    if why == "doesn't exist":
        text = f"its LocalQueue {queue_named(seen)} leads to ClusterQueue {name}, which does not exist"
        return obstacle(Code.ClusterQueueNotFound, text)
    command = "resume" if "is stopped" in why else "show"
    help_ = f"multikueue queues {command} clusterqueue/{name}"
    return obstacle(Code.ClusterQueueStopped, f"ClusterQueue {name} {why}", help_, by=ADMINISTRATOR)


def _cannot_be_queued(seen: Seen, _now: datetime) -> Obstacle | None:
    problem = _problem(seen) if seen.quota is not None else ""
    if not problem or problem.startswith(("LocalQueue ", "ClusterQueue ", "held back ")):
        return None
    return obstacle(Code.CannotBeQueued, f"it cannot be queued as it is: {foreign(problem)}")


def _problem(seen: Seen) -> str:
    """Why no cycle looks at it, by the quota engine; else what the condition says."""
    if seen.workload is None or _has_quota(seen.workload):
        return ""
    if seen.quota is not None:
        return seen.quota.problem
    told = seen.workload.condition(QUOTA_RESERVED)
    return told.message if told is not None else ""


def _eviction(seen: Seen) -> str:
    if seen.workload is None or _has_quota(seen.workload) or not seen.workload.has(EVICTED):
        return ""
    found = seen.workload.condition(EVICTED)
    return found.reason if found is not None else ""


# --- on workers ------------------------------------------------------------------------------------------------------


def _away(seen: Seen, now: datetime) -> Obstacle | None:
    workload = seen.workload
    if workload is None or not workload.has(ADMITTED) or workload.has(FINISHED):
        return None
    found = next((each for each in seen.workers if each.cluster == workload.status.cluster_name), None)
    if found is None or found.state != State.UNREACHABLE.value:
        return None
    if found.since is None:
        again = f"if that stays so, it queues again {span(seen.lost_after)} after the manager has found the same"
    elif found.since + seen.lost_after <= now:
        again = f"it should have queued again at {render_time(found.since + seen.lost_after)}: is a manager running?"
    else:
        again = (
            f"it queues again at {render_time(found.since + seen.lost_after)}, unless {found.cluster} answers before"
        )
    why = f" ({foreign(found.message)})" if found.message else ""
    return obstacle(Code.WorkerAway, f"its worker {found.cluster} does not answer{why}; {again}")


def _others(seen: Seen, state: State) -> list[Prospect]:
    """The workers in that state, if it is one of the reasons why no worker can take the job now."""
    return [] if able(seen) else [each for each in seen.workers if each.state == state.value]


def able(seen: Seen) -> list[Prospect]:
    """The workers that take it, as far as is known."""
    known = (State.WAITS.value, State.NOT_ASKED.value, State.FORBIDDEN.value, State.HAS_IT.value)
    return [each for each in seen.workers if each.state in known and not _is_stopped(each)]


def _is_stopped(worker: Prospect) -> bool:
    if worker.state == State.CLOSED_QUEUE.value:
        return True
    return "Queue " in worker.message and worker.message.rstrip(".").endswith(("is inactive", "is stopped"))


def _no_queue_there(seen: Seen, _now: datetime) -> Obstacle | None:
    found = _others(seen, State.LACKS_QUEUE)
    if not found:
        return None
    queue, where = queue_named(seen), [each.cluster for each in found]
    manifest = json.dumps(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": queue, "namespace": seen.namespace},
            "spec": {"clusterQueue": "CLUSTERQUEUE"},
        },
        separators=(",", ":"),
    )
    create = (f"echo '{manifest}' | kubectl --context {name} create -f -" for name in where[:1])
    text = f"LocalQueue {queue} of namespace {seen.namespace} is missing on {names(where)}"
    return obstacle(Code.LocalQueueMissingOnWorkers, text, *create, by=WORKER_ADMINISTRATOR)


def _stopped_there(seen: Seen, _now: datetime) -> Obstacle | None:
    found = [] if able(seen) else [each for each in seen.workers if _is_stopped(each)]
    if not found:
        return None
    text = f"{foreign(found[0].message)} on {names([each.cluster for each in found])}"
    show = f"multikueue clusters check {found[0].cluster}"
    return obstacle(Code.QueueStoppedOnWorkers, text, show, by=WORKER_ADMINISTRATOR)


def _cordoned(seen: Seen, _now: datetime) -> Obstacle | None:
    found = [each.cluster for each in _others(seen, State.CORDONED)]
    if not found:
        return None
    text = f"{names(found)} {'is' if len(found) == 1 else 'are'} cordoned, and no other worker takes it"
    return obstacle(Code.WorkersCordoned, text, f"multikueue clusters uncordon {found[0]}", by=ADMINISTRATOR)


def _all_away(seen: Seen, _now: datetime) -> Obstacle | None:
    found = [] if _away(seen, _now) else _others(seen, State.UNREACHABLE)
    if not found:
        return None
    first = min((each.since for each in found if each.since), default=None)
    since = f" since {render_time(first)}" if first and len(found) == 1 else ""
    why = f" ({foreign(found[0].message)})" if found[0].message else ""
    verb = "does" if len(found) == 1 else "do"
    text = f"{names([each.cluster for each in found])} {verb} not answer{since}{why}, and no other worker takes it"
    check = f"multikueue clusters check {found[0].cluster}"
    return obstacle(Code.WorkersAway, text, check, by=ADMINISTRATOR)


def _unfit(seen: Seen, _now: datetime) -> Obstacle | None:
    found = _others(seen, State.UNFIT)
    if not found:
        return None
    return obstacle(Code.NoWorkerTakesIt, f"no worker takes it for now: {by_message(found[:3])}")


def _other_check(seen: Seen, _now: datetime) -> Obstacle | None:
    workload = seen.workload
    if workload is None or not _has_quota(workload) or workload.has(ADMITTED) or workload.has(EVICTED):
        return None
    told = checks_not_ready(workload, but=seen.own_check) if seen.own_check is not None else ""
    return obstacle(Code.CheckNotReady, f"it has quota, and waits for admission check {told}") if told else None


def checks_not_ready(workload: Workload, but: str = "") -> str:
    """What the other admission checks than this one wait for; empty if all are ready."""
    waits = [each for each in workload.status.admission_checks if each.state != "Ready" and each.name != but]
    return "; ".join(f"{each.name}{f' ({foreign(each.message)})' if each.message else ''}" for each in waits)


# --- its pods --------------------------------------------------------------------------------------------------------


def is_at_work(pod: PrintedPod) -> bool:
    """Whether it runs and is ready, or has succeeded."""
    status = pod.status
    containers = status.container_statuses
    return status.phase == "Succeeded" or (
        status.phase == "Running" and bool(containers) and all(each.ready for each in containers)
    )


def _waiting(seen: Seen, reasons: set[str]) -> Iterator[tuple[PrintedPod, ContainerStatus]]:
    for pod in seen.pods or ():
        for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            if each.state.waiting is not None and each.state.waiting.reason in reasons:
                yield pod, each


def _container(seen: Seen, code: Code, reasons: set[str], what: str) -> Obstacle | None:
    found = list(_waiting(seen, reasons))
    if not found:
        return None
    pod, status = found[0]
    waiting = status.state.waiting
    why = f"{waiting.reason}{f': {foreign(waiting.message)}' if waiting.message else ''}" if waiting else ""
    more = f", as in {len(found) - 1} more" if len(found) > 1 else ""
    text = what.format(image=status.image or status.name, name=status.name, pod=pod.metadata.name)
    logs = [f"multikueue logs -n {seen.namespace} {seen.name}"] if code is Code.ContainerCrashes else []
    return obstacle(code, f"{text}{more} ({why})", *logs)


def _image(seen: Seen, _now: datetime) -> Obstacle | None:
    return _container(
        seen, Code.ImageNotPulled, _IMAGE, "image {image} cannot be pulled for container {name} of pod {pod}"
    )


def _creation(seen: Seen, _now: datetime) -> Obstacle | None:
    return _container(seen, Code.ContainerNotCreated, _CREATE, "container {name} of pod {pod} cannot be created")


def _crash(seen: Seen, _now: datetime) -> Obstacle | None:
    return _container(seen, Code.ContainerCrashes, _CRASH, "container {name} of pod {pod} ends again and again")


def _unscheduled(seen: Seen, _now: datetime) -> Obstacle | None:
    for pod in seen.pods or ():
        told = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        if told is not None and told.status == "False":
            why = foreign(told.message or told.reason)
            return obstacle(Code.PodNotScheduled, f"no node takes pod {pod.metadata.name} ({why})")
    return None


def _has_quota(workload: Workload) -> bool:
    return workload.has(QUOTA_RESERVED)


RULES: tuple[Rule, ...] = (
    _refused,
    _not_made,
    _cannot_be_queued,
    _no_manager,
    _held,
    _gated,
    _stopped_local_queue,
    _stopped_cluster_queue,
    _away,
    _image,
    _creation,
    _crash,
    _unscheduled,
    _no_queue_there,
    _stopped_there,
    _cordoned,
    _all_away,
    _unfit,
    _other_check,
)
