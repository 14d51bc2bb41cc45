"""The invariants that hold at every write (contract 10, I1 to I12): one file, as they share the record of writes.

They read the clusters and never the state of a manager. An exception to an invariant (a worker that was away too long,
news that could not arrive) follows from the faults of the world, not from what the manager says.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fakekube.model.storage import ADDED, DELETED, Change
from fakekube.model.wire import Object, Request, Response
from multikueue.api import kinds
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FAILED,
    FINISHED,
    QUOTA_RESERVED,
    SUCCEEDED,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue.kube.nonce import PROOF_LABEL
from multikueue.store.store import TIME_TO_ANSWER
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.odd_objects import ROGUE
from multikueue_simulator.simulation.plan.plan import JobPlan, Plan
from multikueue_simulator.time import EPOCH
from multikueue_simulator.world.objects import CHECK, HOME_FLAVOR
from multikueue_simulator.world.world import MANAGER, NAMESPACE, World

__all__ = ["Course", "Invariants", "Violation", "Write", "held_up"]

RELEARNING = 30.0
"""Seconds in which a manager must learn the state of a restored worker."""

STARTING = 10.0
"""Seconds from a manager's start in which local jobs must get the status of the remote ones."""

SLACK = 10.0
"""Seconds of difference between two runs that count as chance."""

LEAST = 2.0
"""Seconds by which a loss may be counted early: times in objects are whole seconds, and a silence begins with a call."""

PACE, MOST_AT_A_PACE = 5.0, 100
"""Seconds, and the number of requests that are the same but for their body, from which on these are a loop without a pause."""

LOSS = re.compile(r'(?:Admitting|Reserving) remote lost(?:: worker cluster "([^"]+)")?')
"""How the message of a check begins whose winner is lost, by the release that is followed; and the winner, which need not be
recorded yet."""

LEASES = f"{kinds.LEASES.plural}.{kinds.LEASES.group}"
CLUSTER_QUEUES = f"{kinds.CLUSTER_QUEUES.plural}.{kinds.CLUSTER_QUEUES.group}"
CLUSTERS = f"{kinds.MULTIKUEUE_CLUSTERS.plural}.{kinds.MULTIKUEUE_CLUSTERS.group}"
JOBS, WORKLOADS = f"{kinds.JOBS.plural}.{kinds.JOBS.group}", f"{kinds.WORKLOADS.plural}.{kinds.WORKLOADS.group}"


@dataclass(frozen=True, slots=True)
class Write:
    """A completed write: its cluster, time (seconds of the world) and manager (empty for any other client)."""

    host: str
    at: float
    change: Change
    by: str = ""

    @property
    def new(self) -> Object:
        return self.change.version.object

    @property
    def old(self) -> Object | None:
        return self.change.old.object if self.change.old is not None else None


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of an invariant."""

    invariant: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.text}"


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a job, in seconds of the world: when it ended, and when a worker first had admitted its Workload; the
    Workload's creationTimestamp, which is its place in the queue; and which worker that was. `is_honest`: no liar has
    won it, so its times are its own; one that a liar has won may still keep others waiting."""

    ended: float
    admitted: float = 0.0
    created: str = ""
    winner: str = ""
    is_honest: bool = True


@dataclass(slots=True)
class _Attempt:
    """A quota reservation of a local workload: its period, the workers that admitted it, and those that got its job.
    `lost`: the workload was evicted because its worker was lost, or gave its quota back while it was; `off`: the last time it
    was seen deactivated; `dropped`: the workers out of the configuration that can win no more, and since when."""

    began: float = 0.0
    ended: float | None = None
    off: float | None = None
    lost: bool = False
    admitted: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    dropped: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _End:
    """The end of a remote job."""

    worker: str
    at: float
    attempt: str
    status: Object


@dataclass(slots=True)
class Invariants:
    """Owner of the history for the checks. Only the first entry of `violations` counts."""

    world: World
    plan: Plan
    injector: FaultInjector
    on_violation: Callable[[], None]
    violations: list[Violation] = field(default_factory=list)
    _attempts: defaultdict[str, _Attempt] = field(default_factory=lambda: defaultdict(_Attempt))
    _leader: tuple[str, float] = "", 0.0
    _job_of: dict[str, str] = field(default_factory=dict)
    _running: dict[tuple[str, str], float] = field(default_factory=dict)
    _over: dict[str, float] = field(default_factory=dict)
    _winners: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _ends: defaultdict[str, list[_End]] = field(default_factory=lambda: defaultdict(list))
    _paces: dict[tuple[str, str, str, str, bool], tuple[float, int]] = field(default_factory=dict)
    _turns: dict[str, tuple[float, str, str]] = field(default_factory=dict)
    _away: defaultdict[str, list[tuple[float, float | None]]] = field(default_factory=lambda: defaultdict(list))
    """By MultiKueueCluster: when it was written, and since when it says that its worker is away."""

    def broken(self, invariant: str, at: float, text: str) -> None:
        self.violations.append(Violation(invariant, at, text))
        self.on_violation()

    def judge(self, write: Write) -> None:
        """Check a change. All changes arrive here, in their order."""
        change, host = write.change, write.host
        if write.new["metadata"].get("namespace") == ROGUE:
            if write.by and host != MANAGER:
                self._is_of_ours(write)
        elif host == MANAGER:
            if change.storage == WORKLOADS:
                self._local_workload(write)
            elif change.storage == JOBS and self.plan.layout.home:
                self._home_job(write)
            elif change.storage == LEASES:
                self._lease(write)
            elif change.storage == CLUSTER_QUEUES:
                self._not_below_zero(write)
            elif change.storage == CLUSTERS:
                self._cluster_said(write)
        else:
            self._remote(write)

    def _remote(self, write: Write) -> None:
        change = write.change
        if write.by:
            self._by_a_manager(write)
        if change.storage == JOBS:
            self._remote_job(write)
        elif change.storage == WORKLOADS:
            self._remote_workload(write)

    def sent(self, by: str, host: str, request: Request, now: float) -> None:
        """Check a manager's write at its arrival, except writes of a lease: only the holder of the lease may write."""
        holder, since = self._leader
        mine = self.world.managers[by].identity
        if holder and holder != mine and now - since > self._news:
            text = f"{request.method} {request.path} of {mine} arrives at {host} {now - since:.1f} s after {holder} took over"
            self.broken("leads", now, text)

    def asked(self, by: str, host: str, request: Request, now: float) -> None:
        """Check the pace of any request of a manager: the same is not made again and again without a pause. A Workload that is
        made again is another one."""
        if ROGUE in request.path:
            return
        same = by, host, request.method, request.path, "watch" in request.query
        began, times = self._paces.get(same, (now, 0))
        self._paces[same] = (began, times + 1) if now < began + PACE else (now, 1)
        if times + 1 == MOST_AT_A_PACE and now < began + PACE:
            self.broken(
                "paced", now, f"{by} makes {times} requests {request.method} {request.path} of {host} in {PACE:g} s"
            )

    def invalid(self, by: str, request: Request, answer: Response, now: float) -> None:
        """Check a write of a manager that the manager cluster refused as invalid. Permitted are objects of the hostile
        tenant, which may be odd, and patches refused for their UID, as the object was recreated meanwhile."""
        is_shared = (
            bool(self.injector.shared) and b"clusterName" in answer.body
        )  # what a person owns as well is cleared then
        if f"/namespaces/{ROGUE}/" not in request.path and b"metadata.uid" not in answer.body and not is_shared:
            text = f"{request.method} {request.path} of {by} is refused: {answer.body[:300].decode(errors='replace')}"
            self.broken("valid", now, text)

    def courses(self) -> dict[str, Course]:
        """The course of each undisturbed job whose Workload was Finished at last."""
        liars = {act.liar for act in self.plan.adversaries if act.liar}
        return {
            name: Course(at, *self._turns.get(name, (0.0, "", "")), not self._winners[name] & liars)
            for name, at in self._over.items()
            if name not in self.injector.disturbed
        }

    def _lease(self, write: Write) -> None:
        holder = (write.new.get("spec") or {}).get("holderIdentity") or ""
        if holder != self._leader[0]:
            self._leader = holder, write.at

    # --- the local workload -----------------------------------------------------------------------------------------

    def _local_workload(self, write: Write) -> None:
        new, old = write.new, write.old
        uid = new["metadata"]["uid"]
        self._job_of.setdefault(uid, seen.owner_uid(new))
        before, after = _mark(old), "" if write.change.type == DELETED else _mark(new)
        if before and before != after:
            self._attempts[before].ended = write.at
        if after:
            known = self._attempts.setdefault(after, _Attempt(began=write.at))
            known.ended = None
        if write.change.type == DELETED:
            self._paces = {same: pace for same, pace in self._paces.items() if "/workloads" not in same[3]}
            return
        if before and not after:
            self._released(write, before)
        self._exclusive(write)
        if after and after == before:
            self._note_dropped(write, self._attempts[after])
        if after and not seen.is_active(new):
            self._attempts[after].off = write.at
        if after and after != before:
            self._within_quota(write)
        if after:
            self._counted(new, write.at)
        if _cluster(new):
            created = new["metadata"].get("creationTimestamp", "")
            self._turns.setdefault(seen.owner(new), (write.at, created, self._winner(new)))
        self._win(write, after)
        if old is not None and seen.is_true(new, FINISHED) and not seen.is_true(old, FINISHED):
            self._finish(write, before or after)

    def _exclusive(self, write: Write) -> None:
        new, old = write.new.get("status") or {}, (write.old or {}).get("status") or {}
        name, before = new.get("clusterName"), old.get("clusterName")
        if name and new.get("nominatedClusterNames"):
            self.broken("I2", write.at, f"{_name(write)} has a winner and nominations: {name}")
        if not name or name == before or self._is_dropped(write.at, "nominations", "winner"):
            return
        if before:
            self.broken("I2", write.at, f"{_name(write)} moved from {before} to {name} in one step")
        elif name not in (old.get("nominatedClusterNames") or ()):
            self.broken("I2", write.at, f"{name} won {_name(write)} and was not nominated")

    def _note_dropped(self, write: Write, attempt: _Attempt) -> None:
        """Keeps which workers can win no more: an administrator took them out of the configuration before their win was
        written, and then the manager that nominates for another one took them off its list."""
        if not any(replica.nominates for replica in self.plan.replicas if replica.name == write.by):
            return
        configured = {
            name for each in self.world.manager.all(kinds.MULTIKUEUE_CONFIGS) for name in each["spec"]["clusters"]
        }
        now, before = _nominated(write.new), _nominated(write.old)
        for name in before - now - configured if not _cluster(write.new) else ():
            attempt.dropped[self.injector.host_of(name)] = write.at
        for name in now:
            attempt.dropped.pop(self.injector.host_of(name), None)

    def _released(self, write: Write, attempt: str) -> None:
        """Quota is released only when the job runs nowhere. Exempt are a worker where it started a moment ago, and the
        time after a manager was frozen, as it reads its news in order. A Kueue on the manager cluster decides by the
        local job, which may lack pods because no manager was there to report them."""
        winner = self._winner(write.old)
        if winner and self._is_lost(winner, write.at):
            self._attempts[attempt].lost = True
        for worker in self.world.workers.values():
            job = worker.site.stored(kinds.JOBS, ObjectKey(NAMESPACE, seen.owner(write.new)))
            if job is None or seen.attempt(job) != attempt or not seen.is_running(job):
                continue
            began = self._running[worker.name, job["metadata"]["name"]]
            if write.at - max(began, self.injector.woken) < self._news or self._is_untold(job, write.at):
                continue
            if not self._excused(worker.name, write.at) and self._away_since(worker.name, write.at) is None:
                self.broken("release", write.at, f"{_name(write)} gives its quota back and runs on {worker.name}")
        home = self._at_home(seen.owner(write.new), seen.owner_uid(write.new), write.at)
        if home is not None and write.at - self._running[MANAGER, home["metadata"]["name"]] >= self._news:
            self.broken("release", write.at, f"{_name(write)} gives its quota back and runs on the manager cluster")

    def _is_untold(self, job: Object, now: float) -> bool:
        """Whether the local job shows no pods beside a Kueue, and no manager acted long enough to copy them from the
        remote job."""
        local = self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, job["metadata"]["name"]))
        if not self.plan.layout.core or (local is not None and seen.is_running(local)):
            return False
        managers = [self.world.managers[replica.name] for replica in self.plan.replicas if not replica.nominates]
        acting = [max(each.begun[-1], self._leader[1]) for each in managers if each.acts]
        return all(now - since < STARTING for since in acting)

    def _within_quota(self, write: Write) -> None:
        """Reservations stay within quota. As in Kueue, a deactivated workload does not count, even if its job still
        runs; so it must go even if it is reactivated at once. Finished pods do not count either."""
        used = self._held(write.at)
        for queue in self.world.manager.all(kinds.CLUSTER_QUEUES):
            if self._changed_of_late(queue):
                continue
            name = queue["metadata"]["name"]
            for quotas in queue["spec"]["resourceGroups"][0]["flavors"]:
                quota, given = _milli(quotas["resources"][0]["nominalQuota"]), used[name, quotas["name"]]
                if given > quota:
                    where = f"flavor {quotas['name']} of {name}"
                    self.broken("quota", write.at, f"{where} has {quota} milli-CPU, and {given} of them are given out")

    def _not_below_zero(self, write: Write) -> None:
        """Nobody makes quota: whatever is submitted, by the hostile tenant too, no queue's usage is below zero."""
        status = write.new.get("status") or {}
        for flavors in (status.get("flavorsReservation") or (), status.get("flavorsUsage") or ()):
            for flavor in flavors:
                for each in flavor["resources"]:
                    if quantity.parse(each["total"]) < 0:
                        text = f"{_name(write)} uses {each['total']} {each['name']} of flavor {flavor['name']}"
                        self.broken("counted", write.at, text)

    def _counted(self, local: Object, now: float) -> None:
        """What runs for a reservation never exceeds the pods that are counted for it: what is given back is over, on the
        worker too, as that tells what is over first. What runs after the reservation is for `release`; exempt are workers
        that managers need not know of, and jobs that somebody interferes with."""
        name, status = seen.owner(local), local.get("status") or {}
        if name in self.injector.disturbed or self._gives_up(local, now):
            return
        assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
        over = sum(pods["count"] for pods in status.get("reclaimablePods") or ())
        if self.plan.layout.core and self._tried_before(local):
            # The local job's counters never decrease. So Kueue gives back, or does not reserve again, what was over in an
            # attempt before, and the job begins again on its worker.
            assigned, over = local["spec"]["podSets"], 0
        counted = sum(each.get("count") or 1 for each in assigned) - over
        runs = 0
        for worker in self.world.workers.values():
            job = worker.site.stored(kinds.JOBS, ObjectKey(NAMESPACE, name))
            if job is not None and seen.attempt(job) == _mark(local) and not self._excused(worker.name, now):
                runs += (job.get("status") or {}).get("active") or 0
        home = self._at_home(name, seen.owner_uid(local), now)
        runs += home["status"]["active"] if home is not None else 0
        if runs > counted:
            text = f"{runs} pods of job {name} run, and {counted} are counted"
            self.broken("counted", now, text)

    def _tried_before(self, local: Object) -> bool:
        mark, uid = _mark(local), local["metadata"]["uid"]
        return any(known.endswith(uid) and known != mark for known in self._attempts)

    def _held(self, now: float) -> Counter[tuple[str, str]]:
        """Milli-CPU by ClusterQueue and flavor."""
        held: Counter[tuple[str, str]] = Counter()
        for workload in self.world.manager.all(kinds.WORKLOADS, NAMESPACE):
            if seen.is_true(workload, QUOTA_RESERVED) and not self._gives_up(workload, now):
                held.update(_usage(workload))
        return held

    def _gives_up(self, workload: Object, now: float) -> bool:
        """Whether other workloads may use the quota of a workload. A Kueue may have given it away even before a
        reactivation."""
        if seen.is_true(workload, FINISHED) or not seen.is_active(workload):
            return True
        off = self._attempts[_mark(workload)].off
        if off is None:
            return False
        return seen.is_true(workload, EVICTED) or self.plan.layout.core or self._unaware(off, now)

    def _changed_of_late(self, queue: Object) -> bool:
        return bool(queue["metadata"].get("generation", 1) > 1)

    def _win(self, write: Write, attempt: str) -> None:
        check, before = _check(write.new), _check(write.old)
        if check.get("state") == "Retry" and before.get("state") != "Retry":
            self._stays(write, check)
            self._loss(write, attempt, check.get("message") or "")
        if check.get("state") != "Ready" or before.get("state") == "Ready":
            return
        winner, known = self._winner(write.new), self._attempts[attempt]
        self._winners[seen.owner(write.new)].add(winner)
        if not winner:
            if not self._is_dropped(write.at, "winner"):
                self.broken("I3", write.at, f"{_name(write)} is Ready and nobody has won it")
        elif winner not in known.admitted:
            self.broken("I3", write.at, f"{_name(write)} is Ready on {winner}, which never admitted this attempt")
        elif (
            winner not in known.jobs and winner not in self.injector.restored
        ):  # its Kueue may know of jobs of earlier attempts
            self.broken("I4", write.at, f"{_name(write)} is Ready on {winner}, which never had the job of this attempt")

    def _is_dropped(self, now: float, *fields: str) -> bool:
        """Whether the manager cluster does not keep one of these fields, or did not lately."""
        return any(self.injector.dropped.get(field, -math.inf) > now - RELEARNING for field in fields)

    def _winner(self, workload: Object | None) -> str:
        """The worker that won a workload; empty without a winner."""
        return self.injector.host_of(_cluster(workload))

    def _stays(self, write: Write, check: Object) -> None:
        """What another manager dispatched goes on: nothing else happens in such a run."""
        if any(job == seen.owner(write.new) for job, _ in self.injector.taken_over.values()):
            self.broken("stays", write.at, f"{_name(write)} was taken over, and is tried again: {check.get('message')}")

    def _loss(self, write: Write, attempt: str, message: str) -> None:
        lost = LOSS.match(message)
        if lost is None:
            return
        cluster = _cluster(write.old) or lost[1] or ""
        worker = self.injector.host_of(cluster)
        if not any(self._may_give_up(write.by, cluster, host, write.at) for host in (worker, cluster)):
            since = self._away_since(cluster, write.at)
            self.broken("I9", write.at, f"{_name(write)}: {worker} counts as lost, and is away since {since}")
        self._attempts[attempt].lost = True

    def _may_give_up(self, by: str, cluster: str, host: str, now: float) -> bool:
        """Whether the leader may count a worker as lost: out of its own reach for the timeout, as far as it knew that
        itself; else since its beginning, or since the leader before it wrote so into the MultiKueueCluster, and not
        within a minute of its beginning."""
        if by not in self.world.managers:
            return self._is_lost(host, now)
        timing = self.plan.timing
        gap = 2 * timing.heartbeat + timing.call
        since = self.injector.faults.away_from(by, host, now, gap=gap, news=MANAGER)
        if since is None:
            return False
        led = self._led_since(by)
        latest = self.injector.faults.away_from(by, host, now, gap=0.0, news=MANAGER)
        if (
            since <= led - gap and latest is not None and latest > led
        ):  # the leader reached it in between, however short that was
            since = latest
        if since > led - gap:
            return now >= since + timing.lost - LEAST
        said = [when for at, when in self._away[cluster] if at <= led][-1:]
        if said and said[0] is not None:
            skew = max(abs(replica.skew) for replica in self.plan.replicas)
            lost_at = said[0] + timing.lost - 2 * skew
        else:
            lost_at = led + timing.lost
        return now >= max(lost_at, led + TIME_TO_ANSWER.total_seconds()) - LEAST

    def _led_since(self, by: str) -> float:
        """Since when that manager acts, at the earliest."""
        manager = self.world.managers[by]
        holder, since = self._leader
        return max(0.0, *manager.begun[-1:], since if holder and holder == manager.identity else 0.0)

    def _cluster_said(self, write: Write) -> None:
        """Keeps since when the MultiKueueCluster says that its worker is away; None: it does not."""
        active = seen.condition(write.new, ACTIVE) or {}
        away = active.get("status") == "False" and write.change.type != DELETED
        when = (datetime.fromisoformat(active["lastTransitionTime"]) - EPOCH).total_seconds() if away else None
        self._away[write.new["metadata"]["name"]].append((write.at, when))

    def _finish(self, write: Write, attempt: str) -> None:
        finished = seen.condition(write.new, FINISHED) or {}
        if finished.get("reason") not in (SUCCEEDED, FAILED):
            return
        job = self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, seen.owner(write.new)))
        if job is None or job["metadata"]["uid"] != seen.owner_uid(write.new):
            return
        name = job["metadata"]["name"]
        self._over[name] = write.at
        if not seen.result(job):
            if name not in self.injector.disturbed:
                self.broken("I8", write.at, f"{_name(write)} is Finished before the status of job {name} is final")
            return
        ends = [end for end in self._ends[seen.owner_uid(write.new)] if end.attempt == attempt]
        if any(end.worker in self.injector.restored for end in ends):
            return  # what had failed before it went back is counted here, as counters never decrease
        if ends and not any(_same_end(end.status, job["status"]) for end in ends):
            self.broken(
                "result", write.at, f"job {name} ended as {_end(job['status'])}, there as {_end(ends[-1].status)}"
            )

    # --- what managers do on workers --------------------------------------------------------------------------------

    def _by_a_manager(self, write: Write) -> None:
        if not self._is_of_ours(write):
            return
        if write.change.type == ADDED:
            self._made(write)
        elif write.change.storage == JOBS and (write.change.type == DELETED or seen.is_leaving(write.new)):
            self._ended(write)

    def _is_of_ours(self, write: Write) -> bool:
        """Whether a manager wrote a copy or job of ours; reports a violation for what is neither that nor a nonce."""
        if write.change.storage == WORKLOADS and PROOF_LABEL in seen.labels(write.old or write.new):
            return False
        if write.change.storage not in (JOBS, WORKLOADS):
            self.broken("I6", write.at, f"{write.by} wrote {write.change.storage} on {write.host}")
        elif not seen.is_ours(write.old or write.new) or not seen.is_ours(write.new):
            self.broken("I6", write.at, f"{write.by} changed {_name(write)} on {write.host}, which is not its own")
        else:
            return True
        return False

    def _ended(self, write: Write) -> None:
        """A running job stays on its winner while its workload is neither evicted nor finished."""
        old = write.old
        if old is None or not seen.is_running(old) or seen.is_leaving(old):
            return
        local = self.world.manager.stored(kinds.WORKLOADS, seen.workload_key(old))
        attempt = seen.attempt(old) or self.injector.taken_over.get(old["metadata"]["uid"], ("", ""))[1]
        if local is None or seen.is_leaving(local) or not seen.is_active(local) or _mark(local) != attempt:
            return
        is_over = seen.is_true(local, EVICTED) or seen.is_true(local, FINISHED)
        if not is_over and self._winner(local) == write.host:
            self.broken(
                "stays", write.at, f"{_name(write)} is deleted by {write.by} on {write.host}, where it runs and was won"
            )

    def _made(self, write: Write) -> None:
        attempt = self._attempts.get(seen.attempt(write.new))
        if attempt is None:
            self.broken("I7", write.at, f"{_name(write)} was made on {write.host} for a reservation that never was")
        elif attempt.ended is not None and not self._unaware(attempt.ended, write.at):
            late = write.at - attempt.ended
            text = f"{_name(write)} was made on {write.host} {late:.1f} s after its reservation had ended"
            self.broken("I7", write.at, text)

    @property
    def _news(self) -> float:
        """The maximum delay of news in seconds without faults."""
        return 1.0 + 2 * self.plan.weather.latency[1]

    def _unaware(self, since: float, now: float) -> bool:
        """Whether a manager may still be unaware of a change on the manager cluster."""
        slack = self.plan.timing.call + self._news
        return since > now - slack or self.injector.faults.between(MANAGER, since - slack, now)

    # --- remote jobs ------------------------------------------------------------------------------------------------

    def _remote_workload(self, write: Write) -> None:
        if write.change.type != DELETED and seen.is_ours(write.new) and seen.is_true(write.new, ADMITTED):
            self._attempts[seen.attempt(write.new)].admitted.add(write.host)

    def _remote_job(self, write: Write) -> None:
        new, old = write.new, write.old
        if not seen.is_ours(new) or write.change.type == DELETED:
            return
        if write.change.type == ADDED:
            self._attempts[seen.attempt(new)].jobs.add(write.host)
            if write.by:
                self._single(write)
                self._once(write)
        if seen.is_running(new) and not (old is not None and seen.is_running(old)):
            self._running[write.host, new["metadata"]["name"]] = write.at
            self._alone(write)
        if seen.is_running(new):
            for local in self.world.manager.all(kinds.WORKLOADS, NAMESPACE):
                if _mark(local) == seen.attempt(new):
                    self._counted(local, write.at)
        if seen.result(new) and not (old is not None and seen.result(old)):
            uid = self._local_job(new)
            self._ends[uid].append(_End(write.host, write.at, seen.attempt(new), new["status"]))

    def _local_job(self, remote: Object) -> str:
        """The UID of the local job behind a remote job."""
        return self._job_of.get(seen.attempt(remote).partition("/")[2], "")

    def _at_home(self, name: str, uid: str, now: float) -> Object | None:
        """The job while it runs on the manager cluster, which is a worker too; not one that a user has just started."""
        job = self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, name)) if self.plan.layout.home else None
        if job is None or job["metadata"]["uid"] != uid or not seen.is_running(job):
            return None
        return job if now - self.injector.resumed.get(name, -math.inf) > RELEARNING else None

    def _home_job(self, write: Write) -> None:
        """A job runs on the manager cluster if it has quota there, and if no worker has it; its end there is one of a
        reservation, as on a worker."""
        new, old = write.new, write.old
        name, uid = new["metadata"]["name"], new["metadata"]["uid"]
        if write.change.type == DELETED:
            return
        if seen.is_running(new) and not (old is not None and seen.is_running(old)):
            self._running[MANAGER, name] = write.at
            if self._at_home(name, uid, write.at) is not None:
                self._alone_at_home(write)
        if seen.result(new) and not (old is not None and seen.result(old)) and not write.by:
            self._ends[uid].append(_End(MANAGER, write.at, _mark(self._local_workload_of(uid)), new["status"]))

    def _alone_at_home(self, write: Write) -> None:
        name, uid = write.new["metadata"]["name"], write.new["metadata"]["uid"]
        for worker in self.world.workers.values():
            job = worker.site.stored(kinds.JOBS, ObjectKey(NAMESPACE, name))
            if (
                job is None
                or not seen.is_ours(job)
                or self._local_job(job) != uid
                or self._excused(worker.name, write.at)
            ):
                continue
            if not seen.is_leaving(job):
                self.broken("twice", write.at, f"job {name} runs on the manager cluster while {worker.name} has it")
        local = self._local_workload_of(uid)
        flavors = {flavor for _, flavor in _usage(local)} if local is not None else set()
        if flavors != {HOME_FLAVOR}:
            self.broken(
                "quota", write.at, f"job {name} runs on the manager cluster with quota of {flavors or 'nothing'}"
            )
        ends = [
            end for end in self._ends[uid] if not self._attempts[end.attempt].lost and not self._is_of_the_past(end)
        ]
        if ends and name not in self.injector.disturbed:
            self.broken("twice", write.at, f"job {name} runs on the manager cluster, and had ended on {ends[0].worker}")

    def _local_workload_of(self, uid: str) -> Object | None:
        """The Workload of a job with a reservation."""
        found = self.world.manager.all(kinds.WORKLOADS, NAMESPACE)
        return next((each for each in found if seen.owner_uid(each) == uid and _mark(each)), None)

    def _others(self, write: Write) -> Iterator[tuple[str, Object]]:
        """Copies of the job on other workers, with the worker of each; the manager cluster is one while it runs there."""
        name, uid = write.new["metadata"]["name"], self._local_job(write.new)
        if (home := self._at_home(name, uid, write.at)) is not None:
            yield MANAGER, home
        for worker in self.world.workers.values():
            if worker.name != write.host:
                found = worker.site.stored(kinds.JOBS, ObjectKey(NAMESPACE, name))
                if found is not None and seen.is_ours(found) and self._local_job(found) == uid:
                    yield worker.name, found

    def _single(self, write: Write) -> None:
        for worker, other in self._others(write):
            if not (seen.is_leaving(other) or self._excused(worker, write.at) or self._is_untraceable(worker, other)):
                text = f"{write.host} gets job {write.new['metadata']['name']} while {worker} has it"
                self.broken("I1", write.at, text)

    def _alone(self, write: Write) -> None:
        if self._excused(write.host, write.at):
            return  # nothing can stop it from starting again
        for worker, other in self._others(write):
            if seen.is_running(other) and not (self._excused(worker, write.at) or self._is_untraceable(worker, other)):
                text = f"job {write.new['metadata']['name']} runs on {write.host} while it runs on {worker}"
                self.broken("twice", write.at, text)

    def _once(self, write: Write) -> None:
        """A finished job is not created again, as its result could be read. Exempt are results of a reservation that a
        newer one had replaced by then, or that was lost with its worker; those of a worker that an administrator
        took away before its win was written: its job may end while its removal is under way; and those that came too
        late to be written before a Kueue gave the reservation back, which waits for nobody."""
        name = write.new["metadata"]["name"]
        if name in self.injector.disturbed:
            return
        for end in self._ends[self._local_job(write.new)]:
            known = self._attempts[end.attempt]
            may_be_forgotten = (
                known.lost
                or known.dropped.get(end.worker, math.inf) <= end.at
                or self._is_of_the_past(end)
                or (bool(self.plan.layout.core) and known.ended is not None and self._unaware(end.at, known.ended))
            )
            if not self._excused(end.worker, write.at) and not may_be_forgotten:
                self.broken("twice", write.at, f"job {name} is made on {write.host}, and had ended on {end.worker}")

    def _is_of_the_past(self, end: _End) -> bool:
        """Whether the ended job belonged to a reservation older than the one in force at its end."""
        _, _, workload = end.attempt.partition("/")
        began = self._attempts[end.attempt].began
        same = (known for mark, known in self._attempts.items() if mark.partition("/")[2] == workload)
        return any(began < known.began <= end.at for known in same)

    def _excused(self, worker: str, now: float) -> bool:
        """Whether managers need not know the state of a worker: it was away too long, or was restored from a backup
        recently."""
        restored = self.injector.restored.get(worker)
        if worker == MANAGER:
            return False
        return self._is_lost(worker, now) or (restored is not None and now - restored < RELEARNING)

    def _is_untraceable(self, worker: str, job: Object) -> bool:
        """Whether nothing on the manager cluster says that the worker has the job: beside a Kueue, whose finalizer does not
        wait for workers, people deleted its MultiKueueCluster and the Workload of the job, and then a manager began."""
        if not self.plan.layout.core or job["metadata"]["name"] not in self.injector.disturbed:
            return False
        cluster = self.world.manager.stored(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", worker))
        own = (local for local in self.world.manager.all(kinds.WORKLOADS, NAMESPACE) if _mark(local))
        is_named = any(_mark(local) == seen.attempt(job) for local in own)
        return cluster is None and not is_named and any(len(each.begun) > 1 for each in self.world.managers.values())

    def _away_since(self, worker: str, now: float) -> float | None:
        timing = self.plan.timing
        gap = 2 * timing.heartbeat + timing.call
        return self.injector.faults.away_since(worker, now, gap=gap, news=MANAGER)

    def _is_lost(self, worker: str, now: float) -> bool:
        """Whether a worker may count as lost. It may for a while after its return, until a manager has noticed it."""
        since = self._away_since(worker, now)
        skew = max(abs(replica.skew) for replica in self.plan.replicas)
        return since is not None and now - since >= self.plan.timing.lost - 2.0 - 2 * skew


def held_up(plan: Plan, courses: Mapping[str, Course], without: Mapping[str, Course]) -> Violation | None:
    """The first job that waits much longer with adversaries than without them, as a violation.

    The order of Workloads created in the same second is random. A younger workload may also pass an older one whose
    obstacle has ended but whose retry comes a second later, as in Kueue: in the manager's queue, and in a worker's. The
    winner may hold the quota for any time, so the wait of an overtaken job counts only from the end of the workloads
    admitted before it.
    """
    for job in plan.jobs:
        here, there = courses.get(job.name), without.get(job.name)
        if here is not None and there is not None and here.is_honest and there.is_honest:
            took, would = here.ended - max(job.at, _kept_waiting(plan, job, courses, without)), there.ended - job.at
            if took > 2 * would + SLACK + sum(act.patience for act in plan.adversaries):
                return Violation(
                    "beside", here.ended, f"{job.name} took {took:.1f} s, and {would:.1f} s without adversaries"
                )
    return None


def _kept_waiting(plan: Plan, job: JobPlan, courses: Mapping[str, Course], without: Mapping[str, Course]) -> float:
    """The time until which others delayed a job by chance. 0 without such delay.

    One of them overtook it by a tie or as the older one, and was overtaken in the other run; or took the room of another
    worker there. Those of another queue meet it in the one queue of a worker, where their copies tie that were made at about
    the same time. One that is still there when the job is admitted, on its worker, may have made room bit by bit.
    """
    mine, there = courses[job.name], without[job.name]
    queues = {each.name: each.queue for each in plan.jobs if each.name != job.name}
    before = {name: courses[name] for name in queues.keys() & courses.keys() if courses[name].admitted < mine.admitted}

    def is_lucky(name: str) -> bool:
        if without[name].admitted <= there.admitted:
            return courses[name].winner != without[name].winner and courses[name].ended > job.at
        if queues[name] != job.queue:
            return _seconds_between(courses[name].created, mine.created) <= 1
        return courses[name].created <= mine.created or without[name].created == there.created

    if not any(map(is_lucky, before.keys() & without.keys())):
        return 0.0
    over = [each.ended for each in before.values() if each.ended <= mine.admitted]
    still = [
        mine.admitted for each in before.values() if each.ended > mine.admitted and each.winner == mine.winner != ""
    ]
    return max(over + still, default=0.0)


def _seconds_between(created: str, other: str) -> float:
    return abs((datetime.fromisoformat(created) - datetime.fromisoformat(other)).total_seconds())


def _name(write: Write) -> str:
    return f"{write.change.storage.partition('.')[0][:-1]} {write.new['metadata']['name']}"


def _mark(workload: Object | None) -> str:
    """The mark of a local workload's reservation, which managers copy to remote objects; empty without a
    reservation."""
    reserved = seen.condition(workload, QUOTA_RESERVED) if workload is not None else None
    if workload is None or reserved is None or reserved["status"] != "True":
        return ""
    return f"{reserved['lastTransitionTime']}/{workload['metadata']['uid']}"


def _check(workload: Object | None) -> Object:
    checks = ((workload or {}).get("status") or {}).get("admissionChecks") or ()
    return next((check for check in checks if check["name"] == CHECK), {})


def _cluster(workload: Object | None) -> str:
    """The MultiKueueCluster that won the workload; empty without a winner."""
    name: str = ((workload or {}).get("status") or {}).get("clusterName") or ""
    return name


def _nominated(workload: Object | None) -> set[str]:
    return set(((workload or {}).get("status") or {}).get("nominatedClusterNames") or ())


def _usage(workload: Object) -> Counter[tuple[str, str]]:
    """Milli-CPU of a workload's pods that are not over, by ClusterQueue and flavor."""
    status, used = workload["status"], Counter[tuple[str, str]]()
    admission = status.get("admission") or {}
    over = {pods["name"]: pods["count"] for pods in status.get("reclaimablePods") or ()}
    for assigned in admission.get("podSetAssignments") or ():
        usage, count = (assigned.get("resourceUsage") or {}).get("cpu", "0"), assigned.get("count") or 1
        flavor, left = (assigned.get("flavors") or {}).get("cpu", ""), count - min(count, over.get(assigned["name"], 0))
        used[admission["clusterQueue"], flavor] += _milli(usage) * left // count
    return used


def _milli(text: str) -> int:
    return quantity.parse(text) // 1_000_000


def _end(status: Object) -> str:
    types = [c["type"] for c in status.get("conditions") or () if c["status"] == "True"]
    return f"{'+'.join(types)} succeeded={status.get('succeeded', 0)} failed={status.get('failed', 0)}"


def _same_end(one: Object, other: Object) -> bool:
    return _end(one) == _end(other) and one.get("completionTime") == other.get("completionTime")
