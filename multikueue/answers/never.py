"""What can never be: obstacles that no time and no room removes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from multikueue.answers.codes import Code
from multikueue.answers.obstacle import ADMINISTRATOR, Obstacle, Rule, foreign, names, nearest, obstacle
from multikueue.answers.seen import Seen
from multikueue.api.kubernetes.event import REFUSED
from multikueue.api.kueue.workload import (
    FITS_NO_WORKER,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    workload_spec,
)
from multikueue.api.meta import render_time
from multikueue.quota.visibility.explain import EXCEEDS, Shortage
from multikueue.workload.fit import named_in, note
from multikueue.workload.nomination.prospects import Prospect, State

__all__ = ["RULES", "by_message", "created_again", "never_starts", "queue_named"]

_UNAVAILABLE = re.compile(r"resource (?P<resource>\S+) unavailable in ClusterQueue")
_BEYOND = re.compile(
    r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), previously considered podsets requests "
    r"\((?P<before>\S+)\) \+ current podset request \((?P<needed>\S+)\) > maximum capacity \((?P<most>\S+)\)"
)
"""What Kueue's condition says of quota that there is none of, and of more than there could ever be."""


def _kind(seen: Seen, _now: datetime) -> Obstacle | None:
    job = seen.job
    if job is None or seen.workload is not None or job.is_of_known_kind:
        return None
    return obstacle(Code.KindNotDispatched, f"objects of kind {job.kind} are not dispatched, and never queue")


def _part(seen: Seen, _now: datetime) -> Obstacle | None:
    owner = seen.job.owner if seen.job and seen.workload is None else ""
    if not owner or (seen.job and seen.job.queue):
        return None
    ask = f"multikueue why -n {seen.namespace} {owner}"
    return obstacle(Code.PartOfAnother, f"it is a part of {owner}, which queues for all its parts", ask)


def _no_label(seen: Seen, _now: datetime) -> Obstacle | None:
    job = seen.job
    if job is None or seen.workload is not None or job.queue or job.owner or not job.is_of_known_kind:
        return None
    if seen.newest(REFUSED):  # a manager that queues jobs without a label
        return None
    queue = next(iter(seen.queues)) if seen.queues and len(seen.queues) == 1 else "QUEUE"
    text = f"it names no queue: its label {QUEUE_LABEL} is missing"
    if job.unmanaged:
        return obstacle(Code.NoQueueLabel, text, *created_again(seen, queue))
    return obstacle(Code.NoQueueLabel, text, f"kubectl label -n {seen.namespace} {seen.name} {QUEUE_LABEL}={queue}")


def _no_queue(seen: Seen, _now: datetime) -> Obstacle | None:
    queue = queue_named(seen)
    if not queue or not _lacks_queue(seen, queue):
        return None
    near, others = _instead(queue, seen.queues)
    text = f"there is no LocalQueue {queue} in namespace {seen.namespace}{others}"
    if seen.job is not None and seen.job.unmanaged:
        return obstacle(Code.QueueNotFound, text, *created_again(seen, near or "QUEUE"))
    if seen.workload is None:
        label = f"{QUEUE_LABEL}={near or 'QUEUE'}"
        return obstacle(Code.QueueNotFound, text, f"kubectl label --overwrite -n {seen.namespace} {seen.name} {label}")
    move = f"multikueue workloads move -n {seen.namespace} {seen.name} --to {near or 'QUEUE'}"
    return obstacle(Code.QueueNotFound, text, move)


def _instead(word: str, known: frozenset[str] | None) -> tuple[str, str]:
    """The known name that was probably meant, empty if none is near; and a clause with it, or with those that there are."""
    if known is None:
        return "", ""
    near = nearest(word, known)
    return near, f"; did you mean {near}?" if near else f"; there are {names(sorted(known)) or 'none'}"


def _lacks_queue(seen: Seen, queue: str) -> bool:
    if seen.workload is not None and seen.workload.has(QUOTA_RESERVED):
        return False
    if seen.queues is not None:
        return queue not in seen.queues
    told = seen.workload.condition(QUOTA_RESERVED) if seen.workload else None
    return told is not None and told.message == f"LocalQueue {queue} doesn't exist"


def _no_class(seen: Seen, _now: datetime) -> Obstacle | None:
    job = seen.job
    if job is None or seen.workload is not None:
        return None
    named, told = job.workload_class, seen.newest("PriorityNotFound")
    if named and ((seen.classes is not None and named not in seen.classes) or (told and f'"{named}"' in told.message)):
        near, others = _instead(named, seen.classes)
        # Not taken away, which the webhook refuses.
        label = (f"kubectl label -n {seen.namespace} {seen.name} {PRIORITY_CLASS_LABEL}={near or 'CLASS'} --overwrite",)
        helps = created_again(seen, job.queue) if seen.is_foreseen else label
        return obstacle(Code.PriorityClassNotFound, f"there is no WorkloadPriorityClass {named}{others}", *helps)
    if told is None or not job.priority_class:
        return None
    return obstacle(
        Code.PriorityClassNotFound,
        f"there is no PriorityClass {job.priority_class}, which its pods name",
        f"kubectl create priorityclass {job.priority_class} --value=VALUE",
        by=ADMINISTRATOR,
    )


def _undispatchable(seen: Seen, _now: datetime) -> Obstacle | None:
    why = seen.workload.metadata.annotations.get(UNDISPATCHABLE_ANNOTATION, "") if seen.workload else ""
    if not why:
        return None
    return obstacle(Code.CannotBeDispatched, foreign(why), *created_again(seen, queue_named(seen)))


def never_starts(seen: Seen, queue: str, *, is_dispatched: bool) -> Obstacle | None:
    """Why the job would run nowhere in that queue, whose jobs go to workers or do not; None if it would run. What marks a job
    for workers (contract 1.7) is set when it is created."""
    job = seen.job
    if job is None or bool(job.unmanaged) is not is_dispatched:
        return None
    why = (
        f"whose jobs go to workers. {foreign(job.unmanaged)}, and the field cannot be changed"
        if is_dispatched
        else "whose jobs run on the manager cluster: it has managedBy for workers, and the field cannot be changed"
    )
    text = f"it would not start in queue {queue}, {why}"
    return obstacle(Code.CannotBeDispatched, text, *created_again(seen, queue))


def _no_flavor(seen: Seen, _now: datetime) -> Obstacle | None:
    lacks = [lack for lack in _final(seen) if not lack.flavor]
    if not lacks:
        return None
    what = names(list(dict.fromkeys(lack.resource for lack in lacks)))
    text = f"it asks for {what}, which no flavor of {_cluster_queue(seen)} has: it can never run"
    return obstacle(Code.NoFlavorHasResource, text, *created_again(seen, queue_named(seen)))


def _too_much(seen: Seen, _now: datetime) -> Obstacle | None:
    lacks = [lack for lack in _final(seen) if EXCEEDS in lack.problem]
    if not lacks:
        return None
    first = lacks[0]
    most = names([f"{lack.most} of flavor {lack.flavor}" for lack in lacks if lack.resource == first.resource])
    text = f"it asks for {first.needed} {first.resource}, and {_cluster_queue(seen)} can never give more than {most}"
    return obstacle(Code.MoreThanQueueHas, text, *created_again(seen, queue_named(seen)))


def _unsuitable(seen: Seen, _now: datetime) -> Obstacle | None:
    lacks = [lack for lack in _final(seen) if lack.flavor and EXCEEDS not in lack.problem]
    if not lacks:
        return None
    told = names(list(dict.fromkeys(f"{lack.flavor} ({foreign(lack.problem)})" for lack in lacks)))
    text = f"no flavor of {_cluster_queue(seen)} suits its pods: {told}"
    return obstacle(Code.NoFlavorSuits, text, *created_again(seen, queue_named(seen)))


def _final(seen: Seen) -> Sequence[Shortage]:
    if seen.quota is not None:
        return [lack for lack in seen.quota.lacks if lack.is_final]
    told = seen.workload.condition(QUOTA_RESERVED) if seen.workload else None
    return list(_told(told.message)) if told is not None and told.status != "True" else []


def _told(message: str) -> Iterator[Shortage]:
    """The lacks that the words of Kueue's condition call final. What only lacks at present is left out: its amounts are those
    of when it was said. Where a flavor may still do, the words have more than the final lacks."""
    for found in _UNAVAILABLE.finditer(message):
        yield Shortage(pod_set="", flavor="", resource=found["resource"], needed="", problem=found[0], is_final=True)
    beyond = list(_BEYOND.finditer(message))
    if any(found["before"] != "0" for found in beyond) or message.count("insufficient") > len(beyond):
        return
    for found in beyond:
        flavor, resource, needed, most = found.group("flavor", "resource", "needed", "most")
        why = f"{needed} are {EXCEEDS} of it: {most}"
        yield Shortage(
            pod_set="", flavor=flavor, resource=resource, needed=needed, most=most, problem=why, is_final=True
        )


_NEVER = {State.NEVER.value, State.LACKS_KIND.value, State.CLOSED.value}


def _no_worker(seen: Seen, _now: datetime) -> Obstacle | None:
    told = seen.workload.condition(FITS_NO_WORKER) if seen.workload else None
    if any(each.state not in _NEVER for each in seen.workers) or not (seen.workers or told):
        return None
    why = by_message(seen.workers) if seen.workers else _told_of_workers(told.message if told else "")
    text = f"no worker can ever hold it: {why}{_again(seen)}"
    return obstacle(Code.NoWorkerCanHold, text, *created_again(seen, queue_named(seen)))


def _told_of_workers(message: str) -> str:
    """The words of the manager's condition as those of the workers, where it names all of them."""
    found = named_in(message)
    if note(found) != message:
        return foreign(message)
    return by_message([Prospect(cluster=name, state=State.NEVER.value, message=why) for name, why in found.items()])


def by_message(workers: Sequence[Prospect]) -> str:
    """What each worker lacks, those that lack the same together."""
    told: dict[str, list[str]] = {}
    for each in workers:
        told.setdefault(foreign(each.message) or each.state, []).append(each.cluster)
    return "; ".join(f"{why} on {names(clusters)}" for why, clusters in told.items())


def _again(seen: Seen) -> str:
    """When it is tried again, if that is so."""
    state = seen.workload.status.requeue_state if seen.workload else None
    if seen.workload is None or seen.workload.has(QUOTA_RESERVED) or state is None or state.requeue_at is None:
        return ""
    return f". It is tried again at {render_time(state.requeue_at)}, or as soon as a worker has something else"


def created_again(seen: Seen, queue: str) -> tuple[str, ...]:
    """The commands that replace the job, if it is there, by one made from a changed FILE."""
    submit = f"multikueue submit -n {seen.namespace} -f FILE --queue {queue or 'QUEUE'}"
    if seen.is_foreseen:
        return (submit,)
    ended = (
        f"multikueue workloads cancel -n {seen.namespace} {seen.name}"
        if seen.workload is not None
        else f"kubectl delete -n {seen.namespace} {seen.name}"
    )
    return ended, submit


def queue_named(seen: Seen) -> str:
    """The LocalQueue that the Workload names, or the job without one."""
    if seen.workload is not None:
        return workload_spec(seen.workload).queue_name
    return seen.job.queue if seen.job else ""


def _cluster_queue(seen: Seen) -> str:
    name = seen.quota.cluster_queue if seen.quota else seen.cluster_queue
    return f"ClusterQueue {name}" if name else "its ClusterQueue"


RULES: tuple[Rule, ...] = (
    _kind,
    _part,
    _no_label,
    _no_queue,
    _no_class,
    _undispatchable,
    _no_flavor,
    _too_much,
    _unsuitable,
    _no_worker,
)
