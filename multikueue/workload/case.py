"""One workload as seen now, in one file: the local object, what its workers hold, its fleet, and what follows from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from multikueue import strategy as contract
from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import (
    ADMITTED,
    REPLACES_ANNOTATION,
    Admission,
    AdmissionCheckState,
    Finish,
    ReclaimablePod,
    Workload,
)
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.values.foreign import excerpt
from multikueue.dispatch.remote import Remote, attempt_of, is_of_attempt, is_taken_over, true_types
from multikueue.dispatch.slices import NO_SLICE, Slice
from multikueue.quota.workload.outcome import Eviction, Verdict
from multikueue.strategy import Nomination
from multikueue.workload.decision_rules import NO_RETENTION, CopyRetention, DecisionRules
from multikueue.workload.strategy_call import NominationResult

__all__ = [
    "CONTROLLER_NAME",
    "MAX_NOMINATED",
    "NO_FLEET",
    "Case",
    "Fleet",
    "JobFacts",
    "Queues",
    "Scheduling",
]

MAX_NOMINATED = 20
"""The maximum length of status.nominatedClusterNames. To keep a longer nomination, the strategy is called again."""


class Fleet(msgspec.Struct, frozen=True):
    """The workers of a MultiKueueConfig, in its order: one value for all its workloads."""

    workers: tuple[contract.Worker, ...] = ()
    missing: Mapping[str, str] = {}
    """Workers without such jobs, or not in that namespace, and what each lacks."""
    usable: tuple[str, ...] = ()
    """The names of the usable workers; computed."""
    order: Mapping[str, int] = {}
    """The place of each worker; computed."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "usable", tuple(worker.name for worker in self.workers if worker.usable))
        msgspec.structs.force_setattr(
            self, "order", {worker.name: number for number, worker in enumerate(self.workers)}
        )

    def but_for(self, taken: Mapping[str, str]) -> Fleet:
        """The fleet for a workload that some workers cannot take, with the reasons."""
        workers = (replace(w, usable=False, why=taken[w.name]) if w.name in taken else w for w in self.workers)
        return Fleet(tuple(workers), self.missing)


NO_FLEET = Fleet()


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


def _starts(_workload: Workload) -> Finish | None:
    return None


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The state of its job.

    `finished`: its final status. `failed_start`: why it cannot be started with the admission that the workload has.
    `is_let_go`: its Workload was made for a job that has let it go. `may_run`: it runs on the manager cluster, or may.
    `is_run_by_others`: it has no job of a known kind, so the controller that runs its pods says when they are gone (4.4).
    `ready_pods`: by the job's status; None: there is no job. `reclaimable`: pods that are not needed again; None: as before.
    `replaceable`: how many members a group of Pods lacks; None: it is no group.
    """

    finished: Finish | None = None
    failed_start: Callable[[Workload], Finish | None] = _starts
    is_let_go: bool = False
    may_run: bool = False
    is_run_by_others: bool = False
    ready_pods: int | None = None
    reclaimable: tuple[ReclaimablePod, ...] | None = None
    replaceable: int | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that is known of one workload, on the manager cluster and on the workers that it concerns, at one moment.

    - `workload`: None: it is gone.
    - `is_unreadable`: the local workload exists and cannot be decoded, so nothing is decided about it.
    - `remotes`: the workers that the workload concerns: nominated, recorded, with a failed attempt, or with objects of
      ours; in the order of the MultiKueueConfig, then those outside it.
    - `fleet`: the whole configuration, the same for all workloads. The reasons against one worker for this workload are in
      its remote.
    - `closed`: the workers where nothing in its queue can run, as is known, each with the reason.
    - `problem`: why the workload cannot be dispatched at all (no adapter, not managed by us), in Kueue's words.
    - `own_job`: its job on the manager cluster; None: there is none, or it is not seen yet. `job_key`: of what kind and name.
    - `may_copy_job`: False before the local job has been seen, and until it is fully stopped after an earlier
      attempt.
    - `is_job_finished`: the local job's status is final.
    - `choice`: the worker chosen among those that admitted in this attempt. An event of an earlier admission may arrive
      late, and must not change it.
    - `nomination_result`: the strategy's last one in this attempt, None if there is none.
    - `slice_of`: the relation to other slices of the job, as the workload's status says; None: elastic jobs are off.
    - `give_back_after`: how long the workload may keep quota without a worker; None: forever.
    - `copy_retention`: how long the copy of a finished workload stays where it ran.
    - `opening`: the worker whose gate the last decision opened; the caches may not show that yet.
    - `may_be_anywhere`: another program has evicted the workload, maybe while no process of ours ran, and removed its
      nomination, which was the trace of a requested job.
    - `scheduling`, `queues`, `job`: what the scheduler has decided, its queues, its job on the manager cluster.
    - `successor`: the slice that has quota in its place; `takes_over`: where the slice runs that it replaces, once it has a
      reservation.
    - `has_ceiling_news`: queues of workers have changed since it fitted none of them.
    - `class_value`: the value of its WorkloadPriorityClass now; None: it has none, or that is gone.
    - `waits_for_its_job`: its job is stopped first when it is deleted, and the job's reconcile removes the finalizer.
    - `misread`: what is wrong with annotations that have no effect.

    What follows from these is derived when it is first asked for, and once.
    """

    now: datetime
    key: ObjectKey
    workload: Workload | None
    rules: DecisionRules = DecisionRules()
    is_unreadable: bool = False
    check: str = ""
    remotes: tuple[Remote, ...] = ()
    fleet: Fleet = NO_FLEET
    closed: Mapping[str, str] = {}
    problem: str = ""
    own_job: AnyJob | None = None
    job_key: JobKey | None = None
    may_copy_job: bool = True
    is_job_finished: bool = False
    choice: str = ""
    nomination_result: NominationResult | None = None
    slice_of: Callable[[Workload | None], Slice] | None = None
    give_back_after: timedelta | None = None
    copy_retention: CopyRetention = NO_RETENTION
    opening: str = ""
    may_be_anywhere: bool = False
    scheduling: Scheduling = Scheduling()
    queues: Queues = Queues()
    job: JobFacts = JobFacts()
    successor: Workload | None = None
    takes_over: str | None = None
    has_ceiling_news: bool = False
    class_value: int | None = None
    waits_for_its_job: bool = False
    misread: tuple[str, ...] = ()

    true = cached_property(true_types)
    """The types of the workload's conditions that are True."""

    @cached_property
    def local(self) -> Workload:
        """The workload, which is there."""
        assert self.workload is not None
        return self.workload

    @cached_property
    def check_state(self) -> AdmissionCheckState | None:
        """Our entry in the local status.admissionChecks."""
        checks = self.workload.status.admission_checks if self.workload else ()
        for check in checks:
            if check.name == self.check:
                return check
        return None

    @cached_property
    def state(self) -> str:
        """The state of our check; empty without one."""
        return self.check_state.state if self.check_state is not None else ""

    @property
    def retry_backoff(self) -> timedelta | None:
        """The wait after an eviction by a check that asked for a retry, or for late pods: longer with each attempt (CX-19);
        None: none."""
        if self.rules.requeue is None:
            return None
        state = self.local.status.requeue_state
        return self.rules.requeue.after((state.count or 0) if state else 0, self.local.metadata.uid)

    @cached_property
    def slice(self) -> Slice:
        """The relation to other slices of the job."""
        return self.slice_of(self.workload) if self.slice_of is not None else NO_SLICE

    @cached_property
    def attempt(self) -> str:
        """The mark of the present reservation, empty without one: see `attempt_of`."""
        return attempt_of(self.workload) if self.workload is not None else ""

    @cached_property
    def recorded_winner(self) -> str:
        """The worker whose win was recorded with a Ready check; empty if none was.

        It stays the winner when the check is removed from the queue, and when it is added again: Pending, though the
        workload is admitted. A running job is not stopped for that (contract 3.1 E2). A pinned slice has its cluster from
        the start, before any win.
        """
        local, check = self.workload, self.check_state
        if local is None or not local.status.cluster_name:
            return ""
        won = check.state == "Ready" if check is not None else not self.slice.stays
        return local.status.cluster_name if won or ADMITTED in self.true else ""

    @cached_property
    def has_won(self) -> bool:
        """Whether a worker has won for good: the check is Ready, or was before it was removed."""
        return self.state == "Ready" or bool(self.recorded_winner)

    @cached_property
    def is_unchecked(self) -> bool:
        """Whether no check of ours applies, and no worker has won while one did."""
        return self.check_state is None and not self.has_won

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The recorded nomination; for a pinned slice, the worker of the slice it replaces."""
        if self.slice.stays:
            return (self.slice.stays,)
        return self.workload.status.nominated_cluster_names if self.workload is not None else ()

    @cached_property
    def winner(self) -> Remote | None:
        """The worker that has, or is to get, the job of the present attempt.

        In this order: the recorded winner (sticky); a worker whose job was requested with unknown outcome; a worker that has
        our job, made by us or a predecessor just before a crash, unless its nomination was withdrawn meanwhile; the worker
        chosen among those that admitted, while it may still win; the one that admitted first now, ties by the order of the
        configuration. That last choice is made here and kept in the plan: outboxes act on it.
        """
        if not self.attempt:
            return None
        if self.recorded_winner:
            return self.remote(self.recorded_winner)
        return self._holder or self._first

    @cached_property
    def chosen(self) -> str:
        """The worker chosen among those that admitted; another one only if the one chosen before may not win any more."""
        if not self.attempt or self.recorded_winner or self._holder is not None:
            return self.choice
        return self._first.cluster if self._first is not None else ""

    @cached_property
    def _holder(self) -> Remote | None:
        """The worker that has our job, or may have it: one that was asked for it, else the first where it is."""
        holding = list[Remote]()
        for remote in self.remotes:
            if remote.asked is not None and remote.is_asked_for(self.attempt):
                return remote
            if remote.job is not None and self.is_current(remote.job) and self._is_nominated(remote):
                holding.append(remote)
        return min(holding, key=_job_age, default=None)

    @cached_property
    def _first(self) -> Remote | None:
        """The worker chosen before, while it may still win, else the one that admitted first."""
        admitted = [r for r in self.remotes if ADMITTED in r.true and self._may_win(r)]
        for remote in admitted:
            if remote.cluster == self.choice:
                return remote
        if len(admitted) < 2:
            return admitted[0] if admitted else None
        return min(admitted, key=self._taken_at)

    def after(self, workload: Workload) -> Case:
        """The same with another version of the workload, to be written or just written, and the choice that was made. What
        the pods of a later slice ask for stays as the case has it."""
        if workload is self.workload:
            made = msgspec.structs.replace(self, choice=self.chosen)
            made.__dict__.update(self.__dict__)  # the winner too: if it was chosen, then by this choice
            return made
        if self.workload is not None and REPLACES_ANNOTATION in self.workload.metadata.annotations:
            workload = msgspec.structs.replace(workload, spec=self.workload.spec)
        if attempt_of(workload) != self.attempt:
            return msgspec.structs.replace(self, workload=workload, choice="", opening="")
        return msgspec.structs.replace(self, workload=workload, choice=self.chosen)

    def scheduled(self, scheduling: Scheduling, now: datetime) -> Case:
        """The same later, with other decisions of the scheduler. What is derived depends on neither, but for the slice, which
        is asked for again."""
        made = msgspec.structs.replace(self, scheduling=scheduling, now=now)
        if self.slice_of is None:
            made.__dict__.update(self.__dict__)
        return made

    @cached_property
    def won(self) -> Remote:
        """The winner, which is there."""
        assert self.winner is not None
        return self.winner

    def _may_win(self, remote: Remote) -> bool:
        if not remote.is_reachable or remote.link.is_silent or remote.unfit is not None:
            return False
        return remote.has_taken and self.is_current(remote.workload) and self._is_nominated(remote)

    def _is_nominated(self, remote: Remote) -> bool:
        """Whether the worker is nominated now. A copy may be admitted just while it is withdrawn, which is too late:
        Kueue's webhook, where it is installed, accepts only a nominated winner."""
        return remote.cluster in self.named or len(self.named) == MAX_NOMINATED

    def _taken_at(self, remote: Remote) -> str:
        condition = remote.condition(ADMITTED)
        since = condition and condition.last_transition_time
        return since.isoformat() if since else ""

    @property
    def nomination(self) -> Nomination | None:
        """The strategy's nomination in this attempt, None if it gave none."""
        return self.nomination_result.nomination if self.nomination_result is not None else None

    @cached_property
    def is_otherwise_ready(self) -> bool:
        """Whether every other admission check is Ready (contract 3.10 step 2)."""
        for check in self.workload.status.admission_checks if self.workload else ():
            if check.name != self.check and check.state != "Ready":
                return False
        return True

    def is_current(self, item: Object | None) -> bool:
        """Whether a remote object, one of `remotes`, belongs to the present attempt."""
        local = self.workload
        if local is None or item is None:
            return False
        if is_of_attempt(item, local, self.attempt):
            return True
        owners = [r for r in self.remotes if item is r.workload or item is r.job]
        return any(is_taken_over(item, local, self.attempt, r) for r in owners)

    @cached_property
    def shown(self) -> Fleet:
        """The fleet for this workload: workers that cannot take it are not usable. A queue that closes takes nothing from a
        worker that has something of this attempt."""
        taken = {r.cluster: excerpt(r.unfit.text) for r in self.remotes if r.unfit is not None}
        if self.closed:  # rarely
            taken |= {n: excerpt(why) for n, why in self.closed.items() if not self.has_something(self.remote(n))}
        for cluster, lack in self.lacks.items():
            taken[cluster] = f"can never hold it: {lack}"
        return self.fleet.but_for(taken) if taken else self.fleet

    @cached_property
    def lacks(self) -> Mapping[str, str]:
        """The reachable workers that say that they can never admit their copy of this attempt, each with the reason."""
        found = dict[str, str]()
        for remote in self.remotes:
            if remote.never and remote.is_reachable and remote.is_configured and self.is_current(remote.workload):
                found[remote.cluster] = remote.never
        return found

    def has_something(self, remote: Remote | None) -> bool:
        """Whether a worker has, or may have, something of this attempt."""
        if remote is None:
            return False
        return remote.asked is not None or self.is_current(remote.workload) or self.is_current(remote.job)

    def remote(self, cluster: str) -> Remote | None:
        for remote in self.remotes:  # a plain loop: asked for each nominated worker, again and again
            if remote.cluster == cluster:
                return remote
        return None


def _job_age(remote: Remote) -> str:
    created = remote.job and remote.job.metadata.creation_timestamp
    return created.isoformat() if created else ""
