"""The next status of a workload (quota-engine 4.2-4.4, 5.3, 12; contract 3.11): one file, a method for each rule.

`step` does everything that is due at once, so that several changes end in one write. It is safe to repeat: with nothing
new it returns the same status object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.unadmitted import (
    ADMISSION_GATED,
    INADMISSIBLE,
    MISCONFIGURED,
    OF_CYCLES,
    PENDING_EVALUATION,
    SUSPENDED,
    WAITING,
    WAITING_FOR_PODS_READY,
)
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    JOB_UID_LABEL,
    OUT_OF_TIME,
    PODS_FAILED,
    PODS_READY,
    PODS_READY_TIMEOUT,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    SLICE_REPLACED,
    UNDISPATCHABLE_ANNOTATION,
    WAITING_FOR_REPLACEMENT,
    Admission,
    AdmissionCheckState,
    Finish,
    ReclaimablePod,
    RequeueState,
    Workload,
    WorkloadStatus,
    admission_gates,
    workload_spec,
)
from multikueue.api.meta import Condition, find_condition, is_true, without_condition
from multikueue.api.values.foreign import moment
from multikueue.quota.workload import readiness, transitions
from multikueue.quota.workload.budget import keep_time
from multikueue.quota.workload.ends import end_of, keep_end, time_is_up
from multikueue.quota.workload.outcome import Eviction, Verdict, is_news
from multikueue.quota.workload.readiness import REQUEUING_LIMIT_EXCEEDED, WaitForPodsReady
from multikueue.quota.workload.reasons import AS_BEFORE, Reasons
from multikueue.quota.workload.transitions import evict, put_condition, synchronise_admitted

__all__ = [
    "NO_SLICES",
    "Facts",
    "JobFacts",
    "Queues",
    "Scheduling",
    "SliceFacts",
    "Step",
    "evict",
    "step",
    "synchronise_admitted",
]

ADMISSION_CHECK = "AdmissionCheck"
_EVENT_LENGTH = 1024
"""Characters in the message of an Event, as in Kueue (quota-engine 3.1)."""

_MESSAGE_LENGTH = 32_000
"""Characters of what checks say in a message of ours. A condition may have 32768, and more is put before it."""

_LONGEST_DELAY = 2**31 - 1
"""Seconds. The longest delay that a check may ask for: Kueue's field is an int32, and datetime can add that much."""

_FIRST_LOOK = timedelta(seconds=2)
"""The time after its creation in which a workload is usually judged; one behind the head of its queue may never be."""

_RETRIED = (ADMISSION_CHECK, PODS_READY_TIMEOUT)
"""Reasons of Requeued=False that end with the back-off (quota-engine 4.4)."""


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler's decisions about the workload.

    `until`: with the reservation, when it has to be gone. `preemption`: another workload is to get its quota.
    `misconfiguration`: why no cycle would judge it, whatever the quota. `uncounted`: why it does not even queue: its
    devices cannot be counted. `is_switched_off`: it was inactive for a moment, in which another one may have got its quota.
    `required_checks` are those of the present reservation or admission, else those for all flavors.
    """

    reservation: Admission | None = None
    until: datetime | None = None
    preemption: Eviction | None = None
    is_switched_off: bool = False
    verdict: Verdict | None = None
    misconfiguration: str = ""
    uncounted: str = ""
    required_checks: tuple[str, ...] = ()


class Queues(msgspec.Struct, frozen=True, kw_only=True):
    """Its queues, None where one is missing; and whether its ClusterQueue is active."""

    local_queue: LocalQueue | None = None
    cluster_queue: ClusterQueue | None = None
    is_cluster_queue_active: bool = False


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The state of its job.

    `job_finished`: its final status. `is_holding`: something of the workload runs, or may; until that ends an evicted
    workload keeps its quota. `is_run_by_others`: it has no job of a known kind, so the controller that runs its pods says
    when they are gone (4.4). `ready_pods`: by the job's status; None: there is no job. `reclaimable`: pods that are not
    needed again; None: as before. `replaceable`: how many members a group of Pods lacks; None: it is no group.
    """

    job_finished: Finish | None = None
    is_holding: bool = False
    is_run_by_others: bool = False
    ready_pods: int | None = None
    reclaimable: tuple[ReclaimablePod, ...] | None = None
    replaceable: int | None = None


class SliceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`stays`: the cluster where the slice that it replaces runs. `successor`: the slice that has quota in its
    place."""

    stays: str | None = None
    successor: Workload | None = None


NO_SLICES = SliceFacts()


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a step may know beside the workload.

    `retry_backoff`: the wait after an eviction by a check that asked for a retry, or for late pods; None: none.
    `wait_for_pods_ready`: how long pods may take; None: nothing waits for them. `may_fit_now`: it is held back since it fits no
    worker, and that may have changed, so its wait is over. `should_check_gates`: admission gates hold work
    back. `reasons` say why it has no quota.
    """

    now: datetime
    scheduling: Scheduling
    queues: Queues
    job: JobFacts
    slices: SliceFacts = NO_SLICES
    compatibility: Compatibility = NEWEST
    retry_backoff: timedelta | None = None
    wait_for_pods_ready: WaitForPodsReady | None = None
    may_fit_now: bool = False
    should_check_gates: bool = True
    reasons: Reasons = AS_BEFORE


class Step(msgspec.Struct, frozen=True):
    """The status to write if it differs; then, with `should_deactivate`, `spec.active` becomes false.

    `again_after`: when time alone makes another step due; None: never.
    """

    status: WorkloadStatus
    should_deactivate: bool = False
    again_after: timedelta | None = None
    events: tuple[Event, ...] = ()


def step(workload: Workload, facts: Facts) -> Step:
    """The next status of a workload. Raises msgspec.ValidationError if its spec cannot be decoded."""
    return _Step(workload, facts).run()


class _Step:
    """One run over the rules. Each method is a rule: it looks at `status` and may replace it."""

    def __init__(self, workload: Workload, facts: Facts) -> None:
        self.workload, self.facts, self.now = workload, facts, facts.now
        self.spec = workload_spec(workload)
        self.status = workload.status
        self.generation = workload.metadata.generation
        self.deactivate = False
        self.due: list[datetime] = []
        self.events: list[Event] = []

    def run(self) -> Step:
        if not self.has(FINISHED):
            self.go_on()
        status = self.workload.status if self.status == self.workload.status else self.status
        again_after = min(self.due) - self.now if self.due else None
        return Step(status, self.deactivate, again_after, tuple(self.events))

    def go_on(self) -> None:
        if self.facts.job.job_finished is not None:
            self.finish(self.facts.job.job_finished)
        elif self.facts.slices.successor is not None:
            self.make_way(self.facts.slices.successor)
        elif not self.spec.active:
            self.end_deactivation()
            self.release()
            self.explain_deactivation()
            self.list_checks()
        elif self.has(DEACTIVATION_TARGET) and not self.has(EVICTED):
            self.deactivate = True
        else:
            self.live()
        self.reclaim()
        self.look_at_pods()
        self.look_for_members()

    def live(self) -> None:
        self.reserve()
        self.check_delays()
        self.list_checks()
        self.admit()
        self.look_at_pods()
        if self.has(QUOTA_RESERVED) and not self.has(EVICTED):
            self.look_for_trouble()
        self.release()
        if self.deactivate:
            return
        self.requeue()
        if not self.has(QUOTA_RESERVED):
            self.explain()
            self.list_checks()
            self.admit()

    # --- what we know ---

    def has(self, type_: str) -> bool:
        return is_true(self.status.conditions, type_)

    @property
    def requeue_at(self) -> datetime | None:
        return self.status.requeue_state.requeue_at if self.status.requeue_state else None

    @property
    def first_look_until(self) -> datetime | None:
        created = self.workload.metadata.creation_timestamp
        return created + _FIRST_LOOK if created else None

    def is_waiting_for(self, when: datetime | None) -> bool:
        """Whether that time is still to come; if so, the step is due again then."""
        if when is None or when <= self.now:
            return False
        self.due.append(when)
        return True

    # --- the rules ---

    def finish(self, finish: Finish) -> None:
        self.put(FINISHED, "True", reason=finish.reason, message=finish.message)

    def make_way(self, successor: Workload) -> None:
        """Finish the workload as replaced. A later slice has quota in its place by now, so running pods are never
        without quota."""
        meta = successor.metadata
        job = meta.labels.get(JOB_UID_LABEL, "UNKNOWN")
        message = f"Replaced by a later slice of its elastic job: Workload {meta.name} (UID: {meta.uid}, JobUID: {job})"
        self.put(FINISHED, "True", reason=SLICE_REPLACED, message=message)
        self.add_event("Normal", SLICE_REPLACED, message)

    def end_deactivation(self) -> None:
        """Evict a deactivated workload: its user deactivated it, or we did, for the cause in DeactivationTarget.

        As in Kueue that condition is over with the eviction, but for a workload whose time is up: it says so until nothing
        of it runs.
        """
        target = find_condition(self.status.conditions, DEACTIVATION_TARGET)
        if not self.has(EVICTED):
            cause, message = "", "The workload is deactivated"
            if target and target.status == "True":
                cause, message = target.reason, f"{message} due to {target.message}"
            self.evict(DEACTIVATED, message, cause=cause)
        is_kept = target is not None and target.reason == OUT_OF_TIME and self.has(ADMITTED)
        conditions = (
            self.status.conditions if is_kept else without_condition(self.status.conditions, DEACTIVATION_TARGET)
        )
        if conditions is not self.status.conditions or self.status.requeue_state is not None:
            self.status = replace(self.status, conditions=conditions, requeue_state=None)

    def reclaim(self) -> None:
        """Free the quota of pods that are over. It cannot be taken again (Kueue's webhook), but by a pod set that was scaled
        down since its admission: what is over of it depends on its size (kueue#12670, #12958)."""
        told, known = self.facts.job.reclaimable, self.status.reclaimable_pods
        if told is None or not (told or known) or self.has(FINISHED):
            return
        sizes = {pod_set.name: pod_set.count for pod_set in self.spec.pod_sets}
        old = {pods.name: pods.count for pods in known}
        freed = {pods.name: min(pods.count, sizes[pods.name]) for pods in told if pods.name in sizes}
        if self.has(QUOTA_RESERVED):
            kept = {name: count for name, count in old.items() if name not in self._scaled_down(sizes)}
            freed |= {name: min(max(count, freed.get(name, 0)), sizes.get(name, 0)) for name, count in kept.items()}
        if freed != old:
            pods = tuple(ReclaimablePod(name=name, count=count) for name, count in freed.items())
            self.status = replace(self.status, reclaimable_pods=pods)

    def _scaled_down(self, sizes: Mapping[str, int]) -> set[str]:
        """The pod sets of an elastic job with fewer pods than they were admitted with: no others can have fewer."""
        admission = self.status.admission
        made = admission.pod_set_assignments if admission is not None else ()
        return {each.name for each in made if each.count is not None and each.count > sizes.get(each.name, 0)}

    def reserve(self) -> None:
        admission = self.facts.scheduling.reservation
        if admission is None or self.has(QUOTA_RESERVED):
            return
        requeued = find_condition(self.status.conditions, REQUEUED)
        since = requeued.last_transition_time if requeued else self.workload.metadata.creation_timestamp
        self.status = transitions.reserve(
            self.status, admission, self.facts.scheduling.required_checks, generation=self.generation, now=self.now
        )
        if self.facts.slices.stays is not None:
            self.status = replace(self.status, cluster_name=self.facts.slices.stays)
        self.status = keep_end(self.status, self.facts.scheduling.until, generation=self.generation, now=self.now)
        message = f"Quota reserved in ClusterQueue {admission.cluster_queue}, wait time since queued was"
        self.add_event("Normal", QUOTA_RESERVED, f"{message} {self.seconds_since(since)}s")

    def check_delays(self) -> None:
        """A check may ask for a delay. The latest end of all counts, and it never moves back."""
        ends = [
            since + timedelta(seconds=max(-_LONGEST_DELAY, min(check.requeue_after_seconds, _LONGEST_DELAY)))
            for check in self.status.admission_checks
            if check.requeue_after_seconds and (since := moment(check.last_transition_time))
        ]
        if ends:
            self.hold_back(until=max(ends))

    def hold_back(self, *, until: datetime, retries: int = 0) -> None:
        state = self.status.requeue_state or RequeueState()
        until = until.replace(microsecond=0)
        later = until if state.requeue_at is None else max(until, state.requeue_at)
        count = (state.count or 0) + retries if retries else state.count
        self.status = replace(self.status, requeue_state=RequeueState(count=count, requeue_at=later))

    def list_checks(self) -> None:
        """Update the list of checks. At first it waits for the verdict: otherwise it would cost a write of its own."""
        judged = find_condition(self.status.conditions, QUOTA_RESERVED) is not None
        if judged or (self.facts.scheduling.required_checks and not self.is_waiting_for(self.first_look_until)):
            self.status = transitions.synchronise_checks(
                self.status, self.facts.scheduling.required_checks, now=self.now
            )

    def admit(self) -> None:
        before = self.has(ADMITTED)
        reserved = find_condition(self.status.conditions, QUOTA_RESERVED)
        self.status = synchronise_admitted(self.status, self.generation, self.now, self.facts.reasons)
        if self.has(ADMITTED) and not before and self.status.admission:
            waited = self.seconds_since(reserved.last_transition_time if reserved else None)
            queue = self.status.admission.cluster_queue
            message = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"
            self.add_event("Normal", ADMITTED, message)

    def look_at_pods(self) -> None:
        """Set PodsReady, but not before the first verdict: it is not worth a write of its own."""
        judged = find_condition(self.status.conditions, QUOTA_RESERVED) is not None
        if (
            self.facts.wait_for_pods_ready is None
            or self.facts.job.ready_pods is None
            or not judged
            or self.has(FINISHED)
        ):
            return
        found = readiness.finding(self.status, are_ready=self.facts.job.ready_pods >= self.pods_wanted)
        self.put(PODS_READY, found.status, reason=found.reason, message=found.message)

    def look_for_members(self) -> None:
        """Set WaitingForReplacementPods: whether a group of Pods lacks members, and why they went."""
        if self.facts.job.replaceable is None:
            return
        said = find_condition(self.status.conditions, WAITING_FOR_REPLACEMENT)
        waits = said is not None and said.status == "True"
        evicted = find_condition(self.status.conditions, EVICTED)
        if self.facts.job.replaceable and evicted is not None and evicted.status == "True":
            self.put(WAITING_FOR_REPLACEMENT, "True", reason=evicted.reason, message=evicted.message)
        elif self.facts.job.replaceable and not waits:
            self.put(WAITING_FOR_REPLACEMENT, "True", reason=PODS_FAILED, message="Some Failed pods need replacement")
        elif waits and not self.facts.job.replaceable:
            self.put(WAITING_FOR_REPLACEMENT, "False", reason=PODS_READY, message="No pods need replacement")

    @property
    def pods_wanted(self) -> int:
        """The number of admitted pods; before the admission, of all pods."""
        all_ = {pod_set.name: pod_set.count for pod_set in self.spec.pod_sets}
        some = self.status.admission.pod_set_assignments if self.status.admission else ()
        return sum((all_ | {each.name: each.count for each in some if each.count is not None}).values())

    def look_for_trouble(self) -> None:
        """End a reservation if a rule says so; the first that applies decides, in the order of Kueue's own reconcile."""
        rules = (
            self.evict_if_deactivated,
            self.evict_if_preempted,
            self.evict_if_backfilled_for_too_long,
            self.deactivate_if_rejected,
            self.evict_if_retried,
            self.check_local_queue,
            self.check_cluster_queue,
        )
        if not any(rule() for rule in rules) and self.has(ADMITTED) and not self.evict_if_pods_are_late():
            self.limit_execution_time()

    def evict_if_deactivated(self) -> bool:
        if not self.facts.scheduling.is_switched_off:
            return False
        self.evict(DEACTIVATED, "The workload is deactivated")
        return True

    def evict_if_preempted(self) -> bool:
        eviction = self.facts.scheduling.preemption
        if eviction is None:
            return False
        if not self.workload.has(QUOTA_RESERVED):
            self.due.append(self.now)  # the reservation is written first: otherwise it would pass for one still to come
            return False
        self.status = transitions.preempt(self.status, eviction, generation=self.generation, now=self.now)
        self.status = keep_time(self.status, self.facts.queues.cluster_queue, generation=self.generation, now=self.now)
        self.add_event("Normal", "EvictedDueToPreempted", eviction.message)
        self.add_event("Normal", PREEMPTED, eviction.message)
        return True

    def evict_if_backfilled_for_too_long(self) -> bool:
        """Evict a backfilled workload when the head that it passed is to start, however late it started itself."""
        until = end_of(self.status)
        if until is None or self.is_waiting_for(until):
            return False
        self.evict(PREEMPTED, "Preempted since the head of its ClusterQueue, which it passed, is to start")
        return True

    def deactivate_if_rejected(self) -> bool:
        """A check that says Rejected has no other answer next time (KEP 993): deactivated, the workload is not tried again
        and again."""
        rejected = self.checks_in("Rejected")
        if rejected:
            names = ",".join(check.name for check in rejected)
            told = f"Admission check(s): {names}, were rejected"
            message = _about(rejected) if self.facts.compatibility.has_check_messages else told
            self.target(ADMISSION_CHECK, message, event="AdmissionCheckRejected")
        return bool(rejected)

    def checks_in(self, state: str) -> list[AdmissionCheckState]:
        found = (check for check in self.status.admission_checks if check.state == state)
        return sorted(found, key=lambda check: check.name)

    def evict_if_retried(self) -> bool:
        """A check that says Retry ends the reservation, but not before the delay that it asks for: until then, Kueue keeps
        the quota too."""
        asking = self.checks_in("Retry")
        if not asking or self.is_waiting_for(self.requeue_at):
            return False
        told = f"Evicted due to {_about(asking)}"
        self.evict(
            ADMISSION_CHECK,
            told if self.facts.compatibility.has_check_messages else "At least one admission check is false",
        )
        if self.facts.retry_backoff is not None:
            self.hold_back(until=self.now + self.facts.retry_backoff, retries=1)
        return True

    def check_local_queue(self) -> bool:
        return self.check_queue("LocalQueue", self.spec.queue_name, self.facts.queues.local_queue)

    def check_cluster_queue(self) -> bool:
        name = self.status.admission.cluster_queue if self.status.admission else ""
        return self.check_queue("ClusterQueue", name, self.facts.queues.cluster_queue)

    def check_queue(self, kind: str, name: str, queue: LocalQueue | ClusterQueue | None) -> bool:
        """A stopped queue takes reservations back; admitted workloads it ends only with HoldAndDrain."""
        policy = queue.spec.stop_policy if queue else "None"
        gone = queue is None or queue.metadata.deletion_timestamp is not None
        admitted = self.has(ADMITTED)
        if policy == "None" and (admitted or not gone):
            return False
        if admitted and policy != "HoldAndDrain":
            return False
        if admitted or self.facts.job.is_holding:
            self.evict(f"{kind}Stopped", f"The {kind} is stopped")
            return True
        reason, what = (MISCONFIGURED, "terminating or missing") if policy == "None" else (SUSPENDED, "stopped")
        self.status = transitions.unreserve(
            self.status,
            reason=self.facts.reasons.of(reason, before=INADMISSIBLE),
            message=f"{kind} {name} is {what}",
            generation=self.generation,
            now=self.now,
            reasons=self.facts.reasons,
        )
        return True

    def evict_if_pods_are_late(self) -> bool:
        """Evict a workload whose pods are not all ready in time; after too many times, deactivate it."""
        wait_for_pods_ready = self.facts.wait_for_pods_ready
        deadline = readiness.deadline(self.status, wait_for_pods_ready) if wait_for_pods_ready else None
        if wait_for_pods_ready is None or deadline is None or self.is_waiting_for(deadline.at):
            return False
        if readiness.is_given_up(self.status, wait_for_pods_ready):
            message = "exceeding the maximum number of re-queuing retries"
            self.target(REQUEUING_LIMIT_EXCEEDED, message)
            return True
        self.evict(PODS_READY_TIMEOUT, f"Exceeded the PodsReady timeout {self.workload.key}", cause=deadline.cause)
        self.hold_back(until=self.now + (self.facts.retry_backoff or timedelta()), retries=1)
        return True

    def limit_execution_time(self) -> None:
        end = time_is_up(self.status, self.spec)
        if end is None or self.is_waiting_for(end):
            return
        self.status = replace(self.status, accumulated_past_execution_time_seconds=None)
        message = "exceeding the maximum execution time"
        self.target(OUT_OF_TIME, message, event=OUT_OF_TIME)

    def release(self) -> None:
        """Complete an eviction once nothing runs any more: only now does the quota go back."""
        if self.facts.job.is_holding or self.facts.job.is_run_by_others:
            return
        if self.has(EVICTED) and self.has(QUOTA_RESERVED):
            self.status = transitions.release(
                self.status, generation=self.generation, now=self.now, reasons=self.facts.reasons
            )

    def requeue(self) -> None:
        """Let a workload queue again when the reason of its eviction is over. If its queue runs again, it may have
        quota by then."""
        backing_off = not self.facts.may_fit_now and self.is_waiting_for(self.requeue_at)
        if not self.has(QUOTA_RESERVED) and not backing_off and self.status.requeue_state and self.requeue_at:
            self.status = replace(self.status, requeue_state=replace(self.status.requeue_state, requeue_at=None))
        requeued = find_condition(self.status.conditions, REQUEUED)
        if requeued is None or requeued.status != "False":
            return
        if requeued.reason.startswith(DEACTIVATED):  # with a cause too: else it would never queue again (5.3)
            self.put(REQUEUED, "True", reason="Reactivated", message="The workload is active again")
        elif requeued.reason in _RETRIED and not backing_off:
            self.put(REQUEUED, "True", reason="BackoffFinished", message="The back-off is over")
        elif requeued.reason == "LocalQueueStopped" and _is_running(self.facts.queues.local_queue):
            self.put(REQUEUED, "True", reason="LocalQueueRestarted", message="The LocalQueue runs again")
        elif requeued.reason == "ClusterQueueStopped" and _is_running(self.facts.queues.cluster_queue):
            self.put(REQUEUED, "True", reason="ClusterQueueRestarted", message="The ClusterQueue runs again")
        elif requeued.reason == INADMISSIBLE and not self.facts.scheduling.uncounted:
            for condition in (REQUEUED, QUOTA_RESERVED):
                self.status = replace(self.status, conditions=without_condition(self.status.conditions, condition))

    def explain(self) -> None:
        """Say why a workload without quota has none."""
        verdict = self.facts.scheduling.verdict
        if self.check_queue_problem() or self.check_devices() or self.check_misconfiguration():
            return
        if self.check_gates() or self.check_members():
            return
        if verdict is not None:
            self.pass_on(verdict)
        elif self.facts.reasons.is_granular:
            self.await_evaluation()

    def pass_on(self, verdict: Verdict) -> None:
        """Say what a cycle found, unless all that is new about it are amounts."""
        before, told = self.status, find_condition(self.status.conditions, QUOTA_RESERVED)
        if told is None or self.is_news(verdict, told):
            self.put(QUOTA_RESERVED, "False", reason=verdict.reason, message=verdict.message)
        if verdict.reason in (WAITING, WAITING_FOR_PODS_READY):
            return
        if self.status.resource_requests != verdict.resource_requests:
            self.status = replace(self.status, resource_requests=verdict.resource_requests)
        if self.status is not before:
            self.add_event("Warning", verdict.reason, verdict.message)

    def is_news(self, verdict: Verdict, told: Condition) -> bool:
        """Whether the condition QuotaReserved of this generation does not say so yet."""
        if (told.status, told.reason, told.observed_generation) != ("False", verdict.reason, self.generation):
            return True
        return is_news(verdict.message, told.message)

    def await_evaluation(self) -> None:
        """No cycle has looked at the workload since it was held up, or at all. A new one says so only explicitly."""
        told = find_condition(self.status.conditions, QUOTA_RESERVED)
        is_news = told.reason not in OF_CYCLES if told else self.facts.reasons.is_explicit
        if is_news:
            message = "No scheduling cycle has looked at the workload yet"
            self.put(QUOTA_RESERVED, "False", reason=PENDING_EVALUATION, message=message)

    def explain_deactivation(self) -> None:
        """Say why a workload that is not active has no quota. One that we keep inactive says what is wrong with its
        job."""
        if not self.facts.reasons.is_granular:
            self.check_queue_problem()
        elif not self.has(QUOTA_RESERVED):
            wrong = self.workload.metadata.annotations.get(UNDISPATCHABLE_ANNOTATION)
            reason, message = (MISCONFIGURED, wrong) if wrong else (DEACTIVATED, "The workload is deactivated")
            self.put(QUOTA_RESERVED, "False", reason=reason, message=message)
            self.admit()

    def check_gates(self) -> bool:
        """A gated workload queues once nobody holds it back any more (Kueue 0.19). Returns whether somebody does."""
        gates = admission_gates(self.workload.metadata) if self.facts.should_check_gates else ""
        told = find_condition(self.status.conditions, QUOTA_RESERVED)
        was_gated = told is not None and told.reason == ADMISSION_GATED
        if gates:
            self.put(QUOTA_RESERVED, "False", reason=ADMISSION_GATED, message=f"Admission is gated by: {gates}")
            if not was_gated:
                self.add_event("Normal", ADMISSION_GATED, f"Workload admission is gated by: {gates}")
        elif was_gated:
            message, reason = "AdmissionGatedBy cleared, waiting for quota reservation", PENDING_EVALUATION
            self.put(QUOTA_RESERVED, "False", reason=self.facts.reasons.of(reason), message=message)
            self.add_event("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
        return bool(gates)

    def check_members(self) -> bool:
        """A group of Pods that lacks members does not queue until others replace them (kueue#12768, 0.19). Returns whether
        that is so."""
        lacking = self.facts.job.replaceable
        if lacking:
            told = self.facts.reasons.of(WAITING_FOR_REPLACEMENT)
            message = f"The group waits for Pods that replace failed or missing ones: {lacking}"
            self.put(QUOTA_RESERVED, "False", reason=told, message=message)
        return bool(lacking)

    def check_queue_problem(self) -> bool:
        """A workload without quota cannot get any while its queue gives none, active or not. Returns whether that is
        so."""
        reason, problem = ("", "") if self.has(QUOTA_RESERVED) else self.queue_problem()
        if problem:
            told = self.facts.reasons.of(reason, before=INADMISSIBLE)
            self.put(QUOTA_RESERVED, "False", reason=told, message=problem)
        return bool(problem)

    def queue_problem(self) -> tuple[str, str]:
        """Reason and message; empty if its queues are well."""
        local_queue, queue = self.facts.queues.local_queue, self.facts.queues.cluster_queue
        if local_queue is None:
            return MISCONFIGURED, f"LocalQueue {self.spec.queue_name} doesn't exist"
        if local_queue.spec.stop_policy != "None":
            return SUSPENDED, f"LocalQueue {self.spec.queue_name} is inactive"
        if queue is None:
            return MISCONFIGURED, f"ClusterQueue {local_queue.spec.cluster_queue} doesn't exist"
        is_active = self.facts.queues.is_cluster_queue_active
        return ("", "") if is_active else (SUSPENDED, f"ClusterQueue {queue.metadata.name} is inactive")

    def check_devices(self) -> bool:
        """Work whose devices cannot be counted does not queue (KEP 2941). Returns whether that is so."""
        problem = self.facts.scheduling.uncounted
        if problem:
            told = self.facts.reasons.of(MISCONFIGURED, before=INADMISSIBLE)
            self.put(QUOTA_RESERVED, "False", reason=told, message=problem)
            self.put(REQUEUED, "False", reason=INADMISSIBLE, message=problem)
        return bool(problem)

    def check_misconfiguration(self) -> bool:
        """Granular reasons say at once what keeps a workload from being judged; else that waits for a cycle."""
        problem = self.facts.scheduling.misconfiguration if self.facts.reasons.is_granular else ""
        if problem:
            self.put(QUOTA_RESERVED, "False", reason=MISCONFIGURED, message=problem)
        return bool(problem)

    # --- how a rule acts ---

    def put(self, type_: str, value: Literal["True", "False"], *, reason: str, message: str) -> None:
        self.status = put_condition(
            self.status, type_, value, reason=reason, message=message, generation=self.generation, now=self.now
        )

    def evict(self, reason: str, message: str, *, cause: str = "") -> None:
        self.status = evict(
            self.status, reason=reason, message=message, cause=cause, generation=self.generation, now=self.now
        )
        because = f"DueTo{cause}" if cause and reason == DEACTIVATED else ""
        self.add_event("Normal", f"EvictedDueTo{reason}{because}", message)

    def target(self, reason: str, message: str, *, event: str = "") -> None:
        """Have the workload deactivated. The condition keeps the reason, and makes sure that it happens even after a
        crash."""
        self.put(DEACTIVATION_TARGET, "True", reason=reason, message=message)
        self.deactivate = True
        if event:
            self.add_event("Warning", event, message)

    def add_event(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.events.append(Event(type_, reason, message[:_EVENT_LENGTH]))

    def seconds_since(self, since: datetime | None) -> int:
        return max(0, int((self.now - since).total_seconds())) if since else 0


def _about(checks: Sequence[AdmissionCheckState]) -> str:
    """Which checks are in a state, all in the same one, and what each says."""
    said = (f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"' for check in checks)
    kind = "AdmissionCheck" if len(checks) == 1 else "AdmissionChecks"
    return f"{kind} in {checks[0].state} state: {'; '.join(said)}"[:_MESSAGE_LENGTH]


def _is_running(queue: LocalQueue | ClusterQueue | None) -> bool:
    return queue is not None and queue.spec.stop_policy == "None"
