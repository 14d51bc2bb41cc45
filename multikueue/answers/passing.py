"""What passes by itself: quota that others have, a place on a worker, a back-off, pods that start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from multikueue.answers.codes import Code
from multikueue.answers.fix import SETTLED_AFTER, able, checks_not_ready
from multikueue.answers.obstacle import Obstacle, Rule, foreign, names, obstacle
from multikueue.answers.seen import Seen
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FITS_NO_WORKER,
    QUOTA_RESERVED,
    Workload,
    waits_for_quota,
    workload_spec,
)
from multikueue.api.meta import render_time
from multikueue.quota.visibility.explain import Explanation
from multikueue.workload.nomination.prospects import Prospect, State

__all__ = ["OTHERWISE", "RULES"]


def _terminating(seen: Seen, _now: datetime) -> Obstacle | None:
    if seen.workload is None or seen.workload.metadata.deletion_timestamp is None:
        return None
    finalizers = seen.workload.metadata.finalizers
    waits = f"finalizer {names(finalizers)}" if finalizers else "the API server"
    return obstacle(Code.Terminating, f"it is being deleted, and {waits} still holds it")


def _leaving(seen: Seen, _now: datetime) -> Obstacle | None:
    workload = seen.workload
    if workload is None or not (workload.has(EVICTED) and workload.has(QUOTA_RESERVED)):
        return None
    where = f" on {workload.status.cluster_name}" if workload.status.cluster_name else ""
    return obstacle(Code.Leaving, f"it is being stopped{where}, and queues again once it has given its quota back")


def _back_off(seen: Seen, now: datetime) -> Obstacle | None:
    state = seen.workload.status.requeue_state if _waits_for_quota(seen.workload) and seen.workload else None
    at = state.requeue_at if state is not None else None
    if at is None or at <= now or (seen.workload and seen.workload.has(FITS_NO_WORKER)):  # that has a time of its own
        return None
    evicted = seen.workload.condition(EVICTED) if seen.workload else None
    why = f", after its eviction ({foreign(evicted.message or evicted.reason)})" if evicted else ""
    return obstacle(Code.BackOff, f"it queues again at {render_time(at)}{why}")


def _quota(seen: Seen, _now: datetime) -> Obstacle | None:
    found = seen.quota
    if found is None or found.problem or not _waits_for_quota(seen.workload):
        return None
    lacks = [lack for lack in found.lacks if not lack.problem]
    if not lacks or any(lack.is_final for lack in found.lacks):
        return None
    first = lacks[0]
    more = f" (and {len(lacks) - 1} more resource or flavor)" if len(lacks) > 1 else ""
    text = f"it waits for {first.missing} {first.resource} of flavor {first.flavor}{more} in {_line(found)}"
    return obstacle(Code.QuotaTaken, f"{text}{_ends(seen, found)}")


def _line(found: Explanation) -> str:
    return f"ClusterQueue {found.cluster_queue}{f' (number {found.place} there)' if found.place else ''}"


def _ends(seen: Seen, found: Explanation) -> str:
    """Who has to end."""
    if found.enough:
        each = [seen.job_of(name) for name in found.enough]
        one = each[0] if len(each) == 1 else f"any one of {names(each)}"
        return f"; it fits once {one} ends"
    if found.endings:
        return f"; it fits once {names([seen.job_of(each.workload) for each in found.endings])} have ended"
    return ""


def _behind(seen: Seen, _now: datetime) -> Obstacle | None:
    found = seen.quota
    if found is None or found.problem or not found.behind or not _waits_for_quota(seen.workload):
        return None
    return obstacle(
        Code.BehindHead,
        f"it waits behind {seen.job_of(found.behind)} in {_line(found)}, which is StrictFIFO: the first goes first",
    )


def _next(seen: Seen, _now: datetime) -> Obstacle | None:
    found = seen.quota
    if found is None or found.problem or found.behind or found.lacks or not _waits_for_quota(seen.workload):
        return None
    return obstacle(Code.NextInLine, f"{_line(found)} has room for it, and the manager is about to look at it")


def _unseen_quota(seen: Seen, now: datetime) -> Obstacle | None:
    """What is left where the quota was not seen: the words of the condition."""
    workload = seen.workload
    if workload is None or not _waits_for_quota(workload) or (seen.quota is not None and not seen.quota.problem):
        return None
    if seen.is_foreseen and seen.quota is None:
        return None
    told = workload.condition(QUOTA_RESERVED)
    if seen.quota is not None:
        why = foreign(seen.quota.problem)
    else:
        why = foreign(told.message) if told is not None else _unjudged(workload, now)
    text = f"it waits for quota in LocalQueue {workload_spec(workload).queue_name}"
    return obstacle(Code.WaitsForQuota, f"{text}: {why}" if why else text)


def _unjudged(workload: Workload, now: datetime) -> str:
    began = workload.metadata.creation_timestamp
    doubt = ": others are before it in a StrictFIFO queue, or no manager runs"
    return f"nobody has looked at it yet{doubt if began is not None and now - began >= SETTLED_AFTER else ''}"


def _waits_for_quota(workload: Workload | None) -> bool:
    return workload is not None and waits_for_quota(workload)


def _on_workers(seen: Seen, _now: datetime) -> Obstacle | None:
    waits = [each for each in able(seen) if each.state == State.WAITS.value]
    if not waits:
        return None
    return obstacle(Code.WaitsOnWorkers, f"it has quota, and waits for its place on {names(list(_places(waits)))}")


def _places(waits: list[Prospect]) -> Iterator[str]:
    for each in waits:
        yield f"{each.cluster} (number {each.place} there)" if each.place else each.cluster


def _not_asked(seen: Seen, _now: datetime) -> Obstacle | None:
    workload = seen.workload
    if workload is None or not workload.has(QUOTA_RESERVED) or workload.has(ADMITTED) or workload.has(EVICTED):
        return None
    found = [each for each in able(seen) if each.state in (State.NOT_ASKED.value, State.FORBIDDEN.value)]
    if any(each.state == State.WAITS.value for each in seen.workers):
        return None
    nominated = workload.status.nominated_cluster_names
    if nominated and not seen.workers:
        return obstacle(Code.WaitsOnWorkers, f"it has quota, and waits for its place on {names(nominated)}")
    if not found:
        return None
    text = f"it has quota, and the strategy has not named a worker yet; there are {names([each.cluster for each in found])}"
    return obstacle(Code.NotAskedYet, text)


def _starting(seen: Seen, _now: datetime) -> Obstacle | None:
    workload = seen.workload
    if workload is None or not workload.has(ADMITTED) or workload.has(EVICTED):
        return None
    if seen.pods is None:
        return obstacle(Code.PodsStarting, "no pod is ready yet, by the status of the job")
    if not seen.pods:
        return obstacle(Code.PodsStarting, "it has no pods there yet")
    reasons = dict.fromkeys(
        each.state.waiting.reason
        for pod in seen.pods
        for each in pod.status.container_statuses
        if each.state.waiting is not None
    )
    why = f": {names([reason for reason in reasons if reason])}" if any(reasons) else ""
    unready = f"none of its {len(seen.pods)} pods is ready" if len(seen.pods) > 1 else "its pod is not ready"
    return obstacle(Code.PodsStarting, f"{unready}{why}")


def _unseen_workers(seen: Seen, _now: datetime) -> Obstacle | None:
    """What is left where it was not seen which admission check is the one for workers."""
    workload = seen.workload
    if workload is None or seen.own_check is not None or not workload.has(QUOTA_RESERVED) or workload.has(EVICTED):
        return None
    told = checks_not_ready(workload)
    if workload.has(ADMITTED) or not told:
        return None
    return obstacle(Code.NotAskedYet, f"it has quota, and names no worker yet; it waits for admission check {told}")


def _soon(seen: Seen, _now: datetime) -> Obstacle | None:
    text = "nothing stands in its way, as far as was seen"
    return obstacle(Code.NextInLine, text if seen.is_foreseen else f"{text}: the manager is about to look at it")


RULES: tuple[Rule, ...] = (
    _terminating,
    _leaving,
    _back_off,
    _quota,
    _behind,
    _next,
    _on_workers,
    _not_asked,
)

OTHERWISE: tuple[Rule, ...] = (_unseen_quota, _unseen_workers, _starting, _soon)
"""Asked only if no other rule finds anything, the first that does: they say that it waits, and not for what."""
