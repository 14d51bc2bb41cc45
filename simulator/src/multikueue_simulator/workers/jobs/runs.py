"""A job's run: its pods, and its status as Kubernetes' job controller writes it. Pure.

The rules are those of kube-controller-manager 1.37 (pkg/controller/job). Pods are numbers here, not objects, so
uncountedTerminatedPods, the UIDs on the way from pod to counter, stays empty. All pods count as restartPolicy Never;
policies for single failures (podFailurePolicy, successPolicy, backoffLimitPerIndex) are not simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.jobs.job import Job
from multikueue.api.meta import Value, decoder, render_time

__all__ = [
    "JOB_CONTROLLER",
    "NO_PODS",
    "Life",
    "Pod",
    "Pods",
    "RunSpec",
    "Status",
    "Sync",
    "run_spec",
    "status_of",
    "sync",
    "vanishes_at",
]

Status = dict[str, Any]

JOB_CONTROLLER = "kubernetes.io/job-controller"
"""The managedBy value of Kubernetes' own controller, which is also the default."""

_ZERO = timedelta()
_FIRST_BACKOFF = timedelta(seconds=10)
_LONGEST_BACKOFF = timedelta(minutes=10)
_SUCCESS, _FAILURE = "SuccessCriteriaMet", "FailureTarget"
_FINAL = {_SUCCESS: "Complete", _FAILURE: "Failed"}


class RunSpec(Value, frozen=True):
    """The fields of a Job's spec that determine its run."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    managed_by: str | None = None

    @property
    def is_indexed(self) -> bool:
        return self.completion_mode == "Indexed"


run_spec: Callable[[msgspec.Raw], RunSpec] = decoder(RunSpec)
_tree: Callable[[msgspec.Raw], Status] = decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The life of a job's pods: each runs for `lasts` and becomes ready `starting` after its start; the first
    `failures` pods of the job fail; a terminated pod needs `leaving` to end."""

    lasts: timedelta = timedelta(seconds=1)
    failures: int = 0
    starting: timedelta = _ZERO
    leaving: timedelta = _ZERO


@dataclass(frozen=True, slots=True)
class Pod:
    """A running pod. `number` is unique within its job; `index` is set in indexed jobs only."""

    number: int
    began: datetime
    fails: bool = False
    index: int | None = None

    def ready_at(self, life: Life) -> datetime:
        return self.began + life.starting

    def ends_at(self, life: Life) -> datetime:
        return self.began + life.lasts


@dataclass(frozen=True, slots=True)
class Pods:
    """A job's pods on the nodes: running pods, end times of terminating pods, the number of pods made, and of failures
    since the last success."""

    running: tuple[Pod, ...] = ()
    leaving: tuple[datetime, ...] = ()
    made: int = 0
    failures: int = 0
    failed_at: datetime | None = None

    @property
    def may_start_at(self) -> datetime | None:
        """The time at which the job controller creates the next pods; None: at once."""
        if self.failed_at is None or not self.failures:
            return None
        return self.failed_at + min(_FIRST_BACKOFF * (1 << min(self.failures - 1, 10)), _LONGEST_BACKOFF)


NO_PODS = Pods()


@dataclass(frozen=True, slots=True)
class Sync:
    """Statuses to write in this order (none: no change), the pods afterwards, and the time of the next sync. `over` are
    the pods that ended by themselves, in contrast to terminated ones."""

    statuses: tuple[Status, ...] = ()
    pods: Pods = NO_PODS
    due: datetime | None = None
    over: tuple[Pod, ...] = ()


def status_of(job: Job) -> Status:
    """The job's status as a tree."""
    return _tree(job.status)


def vanishes_at(job: Job) -> datetime | None:
    """The time at which the job's TTL after its finish ends; None: never."""
    ttl = run_spec(job.spec).ttl_seconds_after_finished
    end = next((c for c in _conditions(status_of(job)) if _is_final(c)), None)
    if ttl is None or end is None:
        return None
    finished: str = end["lastTransitionTime"]
    return _time(finished) + timedelta(seconds=ttl)


def sync(job: Job, pods: Pods | None, life: Life, now: datetime) -> Sync:
    """The job controller's decision on a job. `pods` is None after a start of the runner, which knows no pods yet.

    A finished job, one under deletion and one of another controller are left alone, and have no pods.
    """
    spec, status = run_spec(job.spec), status_of(job)
    if job.metadata.deletion_timestamp is not None or spec.managed_by not in (None, JOB_CONTROLLER):
        return Sync()
    if any(_is_final(condition) for condition in _conditions(status)):
        return Sync()
    run = _Run(spec, status, pods if pods is not None else _found(spec, status, life, now), life, now)
    return run.sync()


def _found(spec: RunSpec, status: Status, life: Life, now: datetime) -> Pods:
    """The pods that a status counts, assumed to be in the wave that runs now."""
    active, start = status.get("active") or 0, status.get("startTime")
    if not active or not start:
        return NO_PODS
    began = _time(start)
    if life.lasts:
        began += life.lasts * ((now - began) // life.lasts)
    done = _indexes(status.get("completedIndexes") or "")
    indexes = iter(_free_indexes(done, active, spec)) if spec.is_indexed else iter(())
    first = status.get("failed") or 0
    running = (Pod(n, began, first + n < life.failures, next(indexes, None)) for n in range(active))
    return Pods(tuple(running), made=active)


@dataclass(slots=True)
class _Run:
    """One pass of the controller. The counters start from the status and end with the present values."""

    spec: RunSpec
    status: Status
    pods: Pods
    life: Life
    now: datetime
    succeeded: int = 0
    failed: int = 0
    indexes: frozenset[int] = frozenset()
    conditions: list[Status] = field(default_factory=list)
    start: str | None = None
    over: tuple[Pod, ...] = ()

    def sync(self) -> Sync:
        self.read()
        self.count()
        ending = self.ending()
        if ending is not None:
            self.end_pods(failing=ending["type"] == _FAILURE)
        else:
            self.manage()
            if self.is_complete():
                ending = self.condition(_SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
            else:
                self.note_suspension()
        return self.concluded(ending)

    def read(self) -> None:
        self.succeeded, self.failed = (self.status.get(name) or 0 for name in ("succeeded", "failed"))
        self.indexes = _indexes(self.status.get("completedIndexes") or "")
        self.conditions = list(_conditions(self.status))
        self.start = self.status.get("startTime")
        if self.start is None and not self.spec.suspend:
            self.start = render_time(self.now)

    def count(self) -> None:
        """Count the pods whose time is over as succeeded or failed, and remove terminated pods that are gone."""
        self.over = tuple(pod for pod in self.pods.running if pod.ends_at(self.life) <= self.now)
        won, lost = [pod for pod in self.over if not pod.fails], [pod for pod in self.over if pod.fails]
        self.indexes |= {pod.index for pod in won if pod.index is not None}
        self.succeeded = len(self.indexes) if self.spec.is_indexed else self.succeeded + len(won)
        self.failed += len(lost)
        self.pods = replace(
            self.pods,
            running=tuple(pod for pod in self.pods.running if pod.ends_at(self.life) > self.now),
            leaving=tuple(end for end in self.pods.leaving if end > self.now),
            failures=len(lost) + (0 if won else self.pods.failures),
            failed_at=self.now if lost else None if won else self.pods.failed_at,
        )

    def ending(self) -> Status | None:
        """The condition that announces the end: an existing one, or a failure now; None if the job goes on."""
        for known in self.conditions:
            if known["type"] in _FINAL and known["status"] == "True":
                return known
        if self.failed > self.spec.backoff_limit:
            return self.condition(_FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        deadline = self.deadline()
        if deadline is not None and deadline <= self.now:
            return self.condition(_FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
        return None

    def deadline(self) -> datetime | None:
        if self.spec.active_deadline_seconds is None or self.spec.suspend or self.start is None:
            return None
        return _time(self.start) + timedelta(seconds=self.spec.active_deadline_seconds)

    def end_pods(self, *, failing: bool) -> None:
        """Terminate the pods that still run when the job ends. In a failure they count as failed."""
        self.failed += len(self.pods.running) if failing else 0
        self.send_away(len(self.pods.running))

    def send_away(self, count: int) -> None:
        """Terminate the youngest pods. With `leaving` they count as terminating until then."""
        kept = len(self.pods.running) - count
        until = (self.now + self.life.leaving,) if self.life.leaving else ()
        self.pods = replace(self.pods, running=self.pods.running[:kept], leaving=self.pods.leaving + until * count)

    def manage(self) -> None:
        """Adjust the number of running pods to the wanted number."""
        missing = self.wanted() - len(self.pods.running)
        if missing < 0:
            self.send_away(-missing)
        elif missing and not self.backs_off():
            self.begin(missing)

    def wanted(self) -> int:
        if self.spec.suspend:
            return 0
        if self.spec.completions is None:
            return len(self.pods.running) if self.succeeded else self.spec.parallelism
        return max(0, min(self.spec.parallelism, self.spec.completions - self.succeeded))

    def backs_off(self) -> bool:
        start = self.pods.may_start_at
        return start is not None and start > self.now

    def begin(self, count: int) -> None:
        taken = self.indexes | {pod.index for pod in self.pods.running if pod.index is not None}
        indexes = iter(_free_indexes(taken, count, self.spec)) if self.spec.is_indexed else iter(())
        doomed = self.life.failures - self.failed - sum(pod.fails for pod in self.pods.running)
        made = self.pods.made
        new = tuple(Pod(made + nth, self.now, nth < doomed, next(indexes, None)) for nth in range(count))
        self.pods = replace(self.pods, running=self.pods.running + new, made=made + count)

    def is_complete(self) -> bool:
        if self.pods.running:
            return False
        if self.spec.completions is None:
            return self.succeeded > 0
        return self.succeeded >= self.spec.completions

    def note_suspension(self) -> None:
        """Set the condition Suspended, which only a job that was ever suspended has. A resume sets a new start time."""
        known = next((c for c in self.conditions if c["type"] == "Suspended"), None)
        if self.spec.suspend and (known is None or known["status"] != "True"):
            self.put(self.condition("Suspended", "JobSuspended", "Job suspended"))
        elif not self.spec.suspend and known is not None and known["status"] == "True":
            self.put(self.condition("Suspended", "JobResumed", "Job resumed") | {"status": "False"})
            self.start = render_time(self.now)

    def concluded(self, ending: Status | None) -> Sync:
        if ending is None:
            return Sync(self.news(self.written()), self.pods, self.due(), self.over)
        self.put(ending)
        announced = self.written()
        if self.pods.leaving:
            return Sync(self.news(announced), self.pods, min(self.pods.leaving), self.over)
        final = self.condition(_FINAL[ending["type"]], ending["reason"], ending["message"])
        self.put(final)
        ended = self.written()
        if final["type"] == "Complete":
            ended["completionTime"] = final["lastTransitionTime"]
        return Sync((*self.news(announced), ended), over=self.over)

    def news(self, status: Status) -> tuple[Status, ...]:
        return () if status == self.status else (status,)

    def written(self) -> Status:
        """The status in the controller's form, which leaves out some zeros and keeps others."""
        ready = sum(pod.ready_at(self.life) <= self.now for pod in self.pods.running)
        counted = {"active": len(self.pods.running), "succeeded": self.succeeded, "failed": self.failed}
        texts = {"completedIndexes": _rendered(self.indexes), "startTime": self.start, "conditions": self.conditions[:]}
        known = {name: value for name, value in self.status.items() if name not in {*counted, *texts}}
        always = {"ready": ready, "terminating": len(self.pods.leaving), "uncountedTerminatedPods": {}}
        return known | always | {name: value for name, value in (counted | texts).items() if value}

    def due(self) -> datetime | None:
        """The time of the next change without outside events; None if there is none."""
        times = [pod.ends_at(self.life) for pod in self.pods.running]
        times += [at for pod in self.pods.running if (at := pod.ready_at(self.life)) > self.now]
        times += self.pods.leaving
        if self.wanted() > len(self.pods.running) and self.pods.may_start_at is not None:
            times.append(self.pods.may_start_at)
        deadline = self.deadline()
        return min([*times, deadline] if deadline is not None else times, default=None)

    def condition(self, type_: str, reason: str, message: str) -> Status:
        at = render_time(self.now)
        times = {"lastProbeTime": at, "lastTransitionTime": at}
        return {"type": type_, "status": "True", **times, "reason": reason, "message": message}

    def put(self, condition: Status) -> None:
        types = [known["type"] for known in self.conditions]
        if condition["type"] in types:
            self.conditions[types.index(condition["type"])] = condition
        else:
            self.conditions.append(condition)


_time: Callable[[str], datetime] = datetime.fromisoformat


def _conditions(status: Status) -> list[Status]:
    return status.get("conditions") or []


def _is_final(condition: Status) -> bool:
    return condition["type"] in _FINAL.values() and condition["status"] == "True"


def _free_indexes(taken: frozenset[int], count: int, spec: RunSpec) -> list[int]:
    """The lowest indexes that no pod has completed or runs."""
    free = (index for index in range(spec.completions or 0) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


def _indexes(text: str) -> frozenset[int]:
    """The numbers in a text such as `0,3-5`."""
    spans = (span.partition("-") for span in text.split(",") if span)
    return frozenset(n for first, _, last in spans for n in range(int(first), int(last or first) + 1))


def _rendered(indexes: Iterable[int]) -> str:
    """The text of numbers, such as `0,3-5`; only runs of three or more become a span."""
    spans: list[list[int]] = []
    for index in sorted(indexes):
        if spans and spans[-1][-1] == index - 1:
            spans[-1].append(index)
        else:
            spans.append([index])
    return ",".join(f"{s[0]}-{s[-1]}" if len(s) > 2 else ",".join(map(str, s)) for s in spans)
