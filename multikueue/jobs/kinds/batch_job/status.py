"""The status that a local batch Job may get, given the status of its copy on a worker (contract 5.3).

Facts of Kubernetes 1.35 about updates of jobs/status (pkg/registry/batch/job/strategy.go, pkg/apis/batch/validation).
They apply to a job with managedBy, and most only to fields that the update changes:

- startTime, once set, neither changes nor goes while the job is unsuspended (except in the very update that turns a
  condition Suspended from True to False). On a suspended job both are allowed; while startTime is set there, the pod
  template stays frozen.
- completionTime is required with Complete, refused without it (so also with Failed), not before startTime, final once
  set.
- Complete demands SuccessCriteriaMet=True beside it, Failed demands FailureTarget=True. Job controllers before 1.31 do
  not set these. Complete excludes Failed and FailureTarget; SuccessCriteriaMet excludes Failed and FailureTarget.
- Complete, Failed, FailureTarget and SuccessCriteriaMet are never taken back once True.
- A finished job has a startTime (unless suspended with zero completions), no active and no terminating pods, and no
  uncountedTerminatedPods.
- failed never decreases; succeeded neither, except for an Indexed job with as many completions as parallelism.
- ready is at most active. No counter is negative.
- completedIndexes and failedIndexes must be well-formed and exclude each other; failedIndexes needs
  backoffLimitPerIndex.

The consequence for a job that runs a second time, after its first worker was lost: startTime and counters of the first
run stay where they may not change, so that the final result can still be written. The two conditions that announce an
end are held back until the end, since a run that announced one may yet be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from multikueue.api.meta import render_time
from multikueue.api.values.canonical import canonical

Status = dict[str, Any]

COMPLETE, FAILED = "Complete", "Failed"
_SUSPENDED = "Suspended"
_SUCCESS_CRITERIA_MET, _FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
_ANNOUNCED_BY = {COMPLETE: _SUCCESS_CRITERIA_MET, FAILED: _FAILURE_TARGET}
_IRREVOCABLE = (COMPLETE, FAILED, _SUCCESS_CRITERIA_MET, _FAILURE_TARGET)
_POD_COUNTERS = ("active", "ready", "terminating")


def end_of(status: Status) -> Status | None:
    """The condition Complete or Failed that is True; None while the job has not ended."""
    return next((c for c in _conditions(status) if c.get("type") in _ANNOUNCED_BY and c.get("status") == "True"), None)


def writable(local: Status, remote: Status, *, is_suspended: bool, may_shrink_succeeded: bool = False) -> Status | None:
    """The remote status as far as the local job may have it; None if Kubernetes would refuse any form of it.

    `is_suspended` is the local job's. uncountedTerminatedPods, the worker's controller's record of pods that exist only
    there, is not copied: it would cost a write per pod.
    """
    end = end_of(remote)
    status = {key: value for key, value in remote.items() if key != "uncountedTerminatedPods"}
    status["conditions"] = _finished_conditions(remote, end) if end else _running_conditions(remote)
    if not _keep_irrevocable(status, local):
        return None
    _keep_counters(status, local, may_shrink_succeeded=may_shrink_succeeded)
    _keep_start(status, local, is_suspended=is_suspended, has_ended=end is not None)
    return _finished(status, end) if end else status


def reset(local: Status) -> Status:
    """The local status of a stopped job: no running pods, and no startTime, so that it may start again."""
    gone = (*_POD_COUNTERS, "startTime", "uncountedTerminatedPods")
    return {key: value for key, value in local.items() if key not in gone}


def suspended(local: Status, now: datetime) -> Status:
    """The local status with the condition by which Kubernetes' own controller would say that a job is suspended."""
    others = [c for c in _conditions(local) if c.get("type") != _SUSPENDED]
    if _SUSPENDED in _true_types(local):
        return local
    at = render_time(now)
    said = {"type": _SUSPENDED, "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
    return local | {"conditions": [*others, said | {"lastProbeTime": at, "lastTransitionTime": at}]}


def comparable(status: Status) -> Status:
    """The status without fields that mean nothing: zero, empty, null."""
    return {key: value for key, value in canonical(status).items() if value not in (0, "")}


def _conditions(status: Status) -> list[Status]:
    return status.get("conditions") or []


def _true_types(status: Status) -> set[str]:
    return {c["type"] for c in _conditions(status) if c.get("status") == "True"}


def _running_conditions(remote: Status) -> list[Status]:
    return [c for c in _conditions(remote) if c.get("type") not in _ANNOUNCED_BY.values()]


def _finished_conditions(remote: Status, end: Status) -> list[Status]:
    """The API server takes Complete only together with SuccessCriteriaMet, and Failed with FailureTarget; a worker of an
    older Kubernetes has not written these."""
    announcement = _ANNOUNCED_BY[end["type"]]
    if announcement in _true_types(remote):
        return _conditions(remote)
    others = [c for c in _conditions(remote) if c.get("type") != announcement]
    return [{**end, "type": announcement}, *others]


def _keep_irrevocable(status: Status, local: Status) -> bool:
    """Adds the irrevocable conditions of the local status; False if they contradict the new ones."""
    said = _true_types(status)
    kept = [
        c
        for c in _conditions(local)
        if c["type"] in _IRREVOCABLE and c.get("status") == "True" and c["type"] not in said
    ]
    kept_types = {c["type"] for c in kept}
    status["conditions"] = [*kept, *(c for c in status["conditions"] if c.get("type") not in kept_types)]
    both = said | kept_types
    return not (both & {COMPLETE, _SUCCESS_CRITERIA_MET} and both & {FAILED, _FAILURE_TARGET})


def _keep_counters(status: Status, local: Status, *, may_shrink_succeeded: bool) -> None:
    """The API server refuses counters that go back. In another attempt on another worker they begin with nothing."""
    counters = ("failed",) if may_shrink_succeeded else ("failed", "succeeded")
    for name in counters:
        most = max(status.get(name) or 0, local.get(name) or 0)
        if most:
            status[name] = most


def _keep_start(status: Status, local: Status, *, is_suspended: bool, has_ended: bool) -> None:
    """While a job runs, its first startTime stays. While it is being stopped, a cleared startTime stays cleared: the
    restoration of the template needs that."""
    if not is_suspended and local.get("startTime"):
        status["startTime"] = local["startTime"]
    elif is_suspended and not has_ended and not local.get("startTime"):
        status.pop("startTime", None)


def _finished(status: Status, end: Status) -> Status:
    status = {key: value for key, value in status.items() if key not in _POD_COUNTERS}
    ended = status.pop("completionTime", None) or end.get("lastTransitionTime")
    started = status.get("startTime") or ended
    if started:
        status["startTime"] = started
    if end["type"] == COMPLETE:
        # API times are whole seconds in UTC, so their texts sort as they do. The clocks of two workers may differ.
        status["completionTime"] = max(ended or "", started or "")
    return status


def count_indexes(texts: Iterable[str], *, below: int) -> int:
    """The number of indexes from 0 to `below` (not included) that any of the texts names.

    An index in two texts counts once. What is no index and no range is ignored: it says nothing about any pod.
    """
    counted, after = 0, 0
    for first, last in sorted(interval for text in texts for interval in _intervals(text)):
        begin, end = max(first, after), min(last + 1, below)
        if begin < end:
            counted += end - begin
            after = end
    return counted


def _intervals(text: str) -> Iterator[tuple[int, int]]:
    for interval in text.split(",") if text else ():
        first, is_range, last = interval.partition("-")
        if _is_index(first) and (_is_index(last) or not is_range):
            yield int(first), int(last or first)


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal()
