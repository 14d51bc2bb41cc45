"""The invariants of states: some are checked from time to time, others at the end of a run, in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, FITS_NO_WORKER, QUOTA_RESERVED
from multikueue.api.meta import ObjectKey
from multikueue.quota.capacity.spend import SPEND_LIMIT_REACHED
from multikueue.store.store import TIME_TO_ANSWER
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.adversary_injector import AdversaryInjector
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.faults.odd_objects import PASSWORD, ROGUE
from multikueue_simulator.simulation.invariants.silence import Silence
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.adversaries import Choose, Impersonate, decided
from multikueue_simulator.simulation.plan.plan import JobPlan, Plan
from multikueue_simulator.time import EPOCH, the_loop
from multikueue_simulator.world.objects import CHECK
from multikueue_simulator.world.processes import ManagerProcess
from multikueue_simulator.world.world import MANAGER, NAMESPACE, World

__all__ = ["StateInvariants"]

SOON, PROMPT = 10.0, 25.0
"""Seconds for an act without obstacles; and seconds for an act that may need a retry."""

HEDGED_AFTER = 10.0
"""Seconds before which no strategy hedges."""

SETTLED = 10.0
"""Seconds of leadership after which nothing more is expected of a manager."""

LOOKS_EVERY = 2.0
"""Seconds between two checks."""

Broken = Callable[[str, float, str], None]


@dataclass(slots=True)
class StateInvariants:
    """Owner of the times since when states last. `broken` receives an invariant, the time in seconds of the world, and
    the facts."""

    world: World
    plan: Plan
    injector: FaultInjector
    adversary_injector: AdversaryInjector
    broken: Broken
    _acting_since: float | None = None
    _acting: tuple[tuple[str, float], ...] = ()
    _led_since: float = 0.0
    """Since when the same managers act, without a restart or a take-over."""
    _ready_since: dict[str, float] = field(default_factory=dict)
    _silence: Silence = field(init=False)
    _since: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._silence = Silence(self.world, self.plan, self.injector, self.broken)

    def led_since(self) -> float | None:
        """Since when the same managers act; None if none does."""
        return self._led_since if self._acting else None

    # --- from time to time ---

    def look(self, now: float) -> None:
        """Check the present state. Call it every few seconds."""
        loop = the_loop()
        acting = tuple(
            (each.name, each.begun[-1]) for each in self._dispatchers() if each.acts and not loop.is_stopped(each.name)
        )
        self._acting_since = (self._acting_since if self._acting_since is not None else now) if acting else None
        if acting != self._acting:  # one that loses the lease and gets it again begins again
            self._acting, self._led_since = acting, now if acting else self._led_since
        workloads = self.world.manager.all(kinds.WORKLOADS, NAMESPACE)
        self._remember_ready(workloads, now)
        if acting and not self.plan.layout.core:
            self._silence.look(now, self._led_since)
        if self._is_calm(MANAGER, now):
            for workload in workloads:
                self._no_losers(workload, now)
                self._only_here(workload, now)
                self._still_admitted(workload, now)
                self._not_overdue(workload, now)
                self._stopped(workload, now)
                self._rounds(workload, now)
                self._gives_way(workload, now)
            self._fits_nowhere(now)
            self._refused(now)
        if self.adversary_injector.refused:
            self._secret(now)
        self._not_shut(now)
        self._placed(now)

    def _remember_ready(self, workloads: list[Object], now: float) -> None:
        in_force = (w for w in workloads if not seen.is_true(w, FINISHED) and not seen.is_leaving(w))
        ready = {_attempt(w) for w in in_force if _check(w).get("state") == "Ready"}
        self._ready_since = {attempt: self._ready_since.get(attempt, now) for attempt in sorted(ready)}

    def _is_calm(self, host: str, now: float) -> bool:
        """Whether a manager has been acting for a while, without faults between any manager and that host."""
        acts = self._acting_since is not None and now - self._acting_since > SOON
        noticed = SOON + 2 * self.plan.timing.heartbeat
        return acts and not self.injector.faults.between(host, now - noticed, now)

    def _no_losers(self, workload: Object, now: float) -> None:
        since = self._ready_since.get(_attempt(workload))
        if since is None or now - since < SOON:
            return
        winner = self._winner(workload)
        for worker in self.world.workers.values():
            if worker.name != winner and self._is_calm(worker.name, now) and self._holds(worker.name, workload):
                name = workload["metadata"]["name"]
                self.broken("losers", now, f"{name} is won by {winner}, and {worker.name} still has a copy")

    def _only_here(self, workload: Object, now: float) -> None:
        """What runs on the manager cluster, which is a worker too, leaves nothing on the others."""
        known = (_attempt(workload), "here")
        if not self.plan.layout.home or _check(workload) or not seen.is_true(workload, ADMITTED):
            self._since.pop(known, None)
            return
        if now - self._since.setdefault(known, now) < SOON:
            return
        for worker in self.world.workers.values():
            if self._is_calm(worker.name, now) and self._holds(worker.name, workload):
                name = workload["metadata"]["name"]
                self.broken("losers", now, f"{name} runs on the manager cluster, and {worker.name} still has a copy")

    def _still_admitted(self, workload: Object, now: float) -> None:
        """A Ready workload is admitted on its winner, except for short gaps."""
        winner = self._winner(workload)
        if _attempt(workload) not in self._ready_since or not winner:
            return
        copy = self.world.workers[winner].site.stored(kinds.WORKLOADS, seen.key(workload))
        admitted = copy is not None and seen.is_ours(copy) and seen.is_true(copy, ADMITTED)
        known = (_attempt(workload), "admitted")
        if admitted:
            self._since.pop(known, None)
        elif now - self._since.setdefault(known, now) > SOON and self._is_calm(winner, now):
            name = workload["metadata"]["name"]
            self.broken("I3", now, f"{name} is Ready on {winner}, and is not admitted there for {SOON:g} s")

    def _winner(self, workload: Object) -> str:
        """The worker that won a workload; empty without a winner."""
        return self.injector.host_of((workload.get("status") or {}).get("clusterName") or "")

    def _holds(self, worker: str, workload: Object) -> bool:
        site = self.world.workers[worker].site
        copy = site.stored(kinds.WORKLOADS, seen.key(workload))
        job = site.stored(kinds.JOBS, ObjectKey(NAMESPACE, seen.owner(workload)))
        mine = [body for body in (copy, job) if body is not None and seen.is_ours(body)]
        return any(seen.attempt(body).endswith(workload["metadata"]["uid"]) for body in mine)

    def _not_overdue(self, workload: Object, now: float) -> None:
        """A worker that is away for too long is given up. Restarts and take-overs do not prolong this, but for the time
        that each worker has after them, as one may be cut off before a manager that begins has reached it."""
        winner = self._winner(workload)
        if _attempt(workload) not in self._ready_since or not winner:
            return
        away = self.injector.faults.deaf_since(winner, now)
        if away is None or any(away <= begun <= away + PROMPT for begun in self._begun()):
            return
        noticed = 2 * self.plan.timing.heartbeat + self.plan.timing.call
        for begin, end in self.injector.faults.sleeps:  # managers that are frozen notice it, and record it, afterwards
            away = max(away, end) if begin <= away + noticed and end <= now else away
        if self.world.manager.stored(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", winner)) is None:
            away = max(away, *self._begun())  # the start of its absence could not be recorded
        lost_at = away + self.plan.timing.lost
        faults, own = self.injector.faults, (name for name, _ in self._acting)  # what joins is one absence to a leader
        joined = (faults.away_from(name, winner, now, gap=noticed, news=MANAGER) for name in own)
        if min((since for since in joined if since is not None), default=away) <= self._led_since + SOON:
            lost_at = max(lost_at, self._led_since + TIME_TO_ANSWER.total_seconds())
        if now - lost_at > PROMPT:
            self.broken("overdue", now, f"{winner} is away for {now - away:.0f} s, and nobody gave it up")

    def _begun(self) -> Iterator[float]:
        for manager in self._dispatchers():
            yield from manager.begun

    def _dispatchers(self) -> Iterator[ManagerProcess]:
        """The managers except one that only nominates."""
        return (self.world.managers[replica.name] for replica in self.plan.replicas if not replica.nominates)

    def _stopped(self, workload: Object, now: float) -> None:
        """An evicted workload stops running on its worker."""
        evicted = seen.condition(workload, EVICTED)
        if evicted is None or evicted["status"] != "True" or not seen.is_true(workload, QUOTA_RESERVED):
            return
        since = (datetime.fromisoformat(evicted["lastTransitionTime"]) - EPOCH).total_seconds()
        for worker in self.world.workers.values():
            job = worker.site.stored(kinds.JOBS, ObjectKey(NAMESPACE, seen.owner(workload)))
            runs = job is not None and seen.is_ours(job) and seen.is_running(job) and worker.kueue.is_running
            if runs and now - since > SOON and self._is_calm(worker.name, now):
                name = workload["metadata"]["name"]
                self.broken("stops", now, f"{name} is evicted for {now - since:.0f} s and still runs on {worker.name}")
        home = self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, seen.owner(workload)))
        if self.plan.layout.home and home is not None and seen.is_running(home) and now - since > SOON:
            name = workload["metadata"]["name"]
            self.broken(
                "stops", now, f"{name} is evicted for {now - since:.0f} s and still runs on the manager cluster"
            )

    def _rounds(self, workload: Object, now: float) -> None:
        """The strategies that go by time add no more workers in a round than their options say, whichever of them fail. A
        worker with too little quota takes no other's place."""
        if self._pace is None or self.injector.faults.all or self._meddled_with_choice():
            return
        if seen.owner(workload) in self._huge():
            return
        reserved = seen.condition(workload, QUOTA_RESERVED)
        nominated = (workload.get("status") or {}).get("nominatedClusterNames") or ()
        if reserved is None or reserved["status"] != "True":
            return
        begun = (datetime.fromisoformat(reserved["lastTransitionTime"]) - EPOCH).total_seconds()
        first, step, length = self._pace
        skew = max(abs(replica.skew) for replica in self.plan.replicas)
        rounds = 1 + int((now - begun + 2 * skew + 1.0) / length)
        if len(nominated) > first + step * (rounds - 1):
            text = f"{len(nominated)} workers are nominated in round {rounds}, {first} and {step} at a time"
            self.broken("rounds", now, f"{workload['metadata']['name']}: {text}")

    def _huge(self) -> dict[str, JobPlan]:
        """The jobs that fit no worker at first, by name."""
        return {job.name: job for job in self.plan.jobs if job.room}

    def _gives_way(self, workload: Object, now: float) -> None:
        """A workload that fits no worker holds quota only until all workers were asked."""
        huge, known = self._huge().get(seen.owner(workload)), (workload["metadata"]["uid"], "quota")
        calm = all(self._is_calm(name, now) and worker.kueue.is_running for name, worker in self.world.workers.items())
        holds = seen.is_true(workload, QUOTA_RESERVED) and not seen.is_true(workload, FINISHED)
        if huge is None or now >= huge.room_at or not calm or not holds:
            self._since.pop(known, None)
        elif now - self._since.setdefault(known, now) > PROMPT + self._asking and now > huge.room_at - PROMPT:
            self.broken("fits", now, f"{huge.name} fits no worker, and keeps its quota")

    @property
    def _asking(self) -> float:
        """Seconds until a strategy has asked every worker."""
        if self._pace is None:
            return 0.0
        if self.plan.strategy == "composed":  # with nobody's room for them, further copies wait for three times as long
            return 3 * float(str(self.plan.options["patience"]).rstrip("s")) * len(self.plan.workers)
        _, step, length = self._pace
        return length * len(self.plan.workers) / step

    @property
    def _pace(self) -> tuple[int, int, float] | None:
        """How many workers the strategy nominates first and in each later round, and a round's length in seconds; None if it
        does not go by time."""
        options = {name: str(value) for name, value in self.plan.options.items()}
        if self.plan.strategy == "incremental":
            return int(options["step"]), int(options["step"]), float(options["round_length"].rstrip("s"))
        if self.plan.strategy == "composed":
            patience = float(options["patience"].rstrip("s"))
            return int(options["copies"]), 1, min(patience, HEDGED_AFTER) if "hedge" in options else patience
        return None

    def _fits_nowhere(self, now: float) -> None:
        """Just before a worker grows: each workload that fits nowhere, and did not while somebody raised a quota for a moment,
        has a condition that says so, and all other jobs have ended."""
        for huge in self._huge().values():
            if not huge.room_at - LOOKS_EVERY <= now < huge.room_at:
                continue
            told = [w for w in self.world.manager.all(kinds.WORKLOADS, NAMESPACE) if seen.owner(w) == huge.name]
            is_told = any((seen.condition(w, FITS_NO_WORKER) or {}).get("message") for w in told)
            if not is_told and not any(seen.is_true(w, FINISHED) for w in told):
                self.broken("fits", now, f"{huge.name} fits no worker, and does not say so")
            for job in self.world.manager.all(kinds.JOBS, NAMESPACE):
                if job["metadata"]["name"] != huge.name and not seen.result(job):
                    self.broken("fits", now, f"{job['metadata']['name']} has not ended beside {huge.name}")

    def _refused(self, now: float) -> None:
        """A kubeconfig that must not be used, or leads nowhere: the MultiKueueCluster says so, with the reason."""
        for name, reason in self.adversary_injector.refused.items():
            cluster, known = (
                self.world.manager.stored(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)),
                (name, "refused"),
            )
            said = (seen.condition(cluster or {}, ACTIVE) or {}).get("reason")
            if cluster is None or said == reason:
                self._since.pop(known, None)
            elif now - self._since.setdefault(known, now) > PROMPT:
                self.broken("told", now, f"MultiKueueCluster {name} says {said}, and not {reason}")

    def _not_shut(self, now: float) -> None:
        """No worker is taken for a second name of another one because of the identity that one of them shows."""
        for act in self.plan.adversaries:
            pair = (act.worker, act.other) if isinstance(act, Impersonate) else ()
            is_calm = self._is_calm(MANAGER, now) and all(self._is_calm(name, now) for name in pair)
            for name in pair:
                cluster, known = (
                    self.world.manager.stored(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)),
                    (name, "shut"),
                )
                said = (seen.condition(cluster or {}, ACTIVE) or {}).get("reason")
                if said != "SameCluster" or not is_calm:
                    self._since.pop(known, None)
                elif now - self._since.setdefault(known, now) > SOON:
                    self.broken("proven", now, f"{name} is shut as a second name, and leads to a cluster of its own")

    def _secret(self, now: float) -> None:
        """A password is in no object beside the Secret that it came with."""
        for kind in (kinds.MULTIKUEUE_CLUSTERS, kinds.EVENTS, kinds.ADMISSION_CHECKS):
            for body in self.world.manager.all(kind):
                if PASSWORD in str(body):
                    self.broken("secret", now, f"{kind.kind} {body['metadata']['name']} shows the password of a proxy")

    def _placed(self, now: float) -> None:
        """A tenant's workload goes where the admin's Placement has it, whatever the tenant names."""
        choices = [each for each in self.plan.adversaries if isinstance(each, Choose)]
        if not choices or self._meddled_with_choice():
            return
        for workload in self.world.manager.all(kinds.WORKLOADS, ROGUE):
            nominated = (workload.get("status") or {}).get("nominatedClusterNames") or ()
            name, strayed = seen.owner(workload), set(nominated) - decided(self.plan)
            if (
                name and strayed
            ):  # one without a job is made by hand, with nominations of the tenant's own until a manager acts
                self.broken("placed", now, f"{name} goes to {min(strayed)}, where no admin's Placement has it")

    def _meddled_with_choice(self) -> bool:
        meddling = (plans.StrategyChange, plans.Foreign, plans.TakeOver, plans.LeaveConfig, plans.Quota)
        return any(isinstance(event, meddling) for event in self.plan.events)

    # --- at the end ---

    def unsettled(self, now: float) -> str:
        """The first deviation from the expected final state; empty if there is none."""
        for job in self.world.manager.all(kinds.JOBS, NAMESPACE):
            if not seen.result(job) and not self._given_up(job):
                return f"job {job['metadata']['name']} has not ended"
        for workload in self.world.manager.all(kinds.WORKLOADS, NAMESPACE):
            if not seen.is_true(workload, FINISHED):
                return f"workload {workload['metadata']['name']} is not Finished"
        for workload in self.world.manager.all(kinds.WORKLOADS, ROGUE):
            # Whether a worker has carried out a request for a job that it did not answer shows after a minute.
            if seen.owner(workload) and seen.is_true(workload, EVICTED) and seen.is_true(workload, QUOTA_RESERVED):
                return f"the job of workload {workload['metadata']['name']} still has to stop"
        for worker in self.world.workers.values():
            for kind in (kinds.JOBS, kinds.WORKLOADS):
                left = [body for body in worker.site.all(kind, NAMESPACE) if seen.is_ours(body)]
                if left:
                    return f"{worker.name} still has {kind.kind} {left[0]['metadata']['name']} of ours"
        for cluster in self.world.manager.all(kinds.MULTIKUEUE_CLUSTERS):
            if not seen.is_true(cluster, ACTIVE):
                return f"{cluster['metadata']['name']} is not Active"
        if self._acting_since is None or now - self._acting_since < SETTLED:
            return "nobody leads for long enough"
        return ""

    def _given_up(self, job: Object) -> bool:
        """Whether the Kueue beside the manager has finished all workloads of a job; its decisions are its own
        responsibility."""
        workloads = [
            w for w in self.world.manager.all(kinds.WORKLOADS, NAMESPACE) if seen.owner_uid(w) == job["metadata"]["uid"]
        ]
        return self.plan.layout.core and bool(workloads) and all(seen.is_true(w, FINISHED) for w in workloads)

    def spending(self) -> set[str]:
        """The paths of the statuses of queues that will say something new of what they spent, by time alone: those that still
        spend, as the hostile tenant's jobs need not end, every five minutes; and those above their limit once they are within
        it again."""
        workloads = self.world.manager.all(kinds.WORKLOADS, ROGUE)
        spends = any(seen.is_true(w, QUOTA_RESERVED) and not seen.is_true(w, FINISHED) for w in workloads)
        found = (
            {(kinds.LOCAL_QUEUES, ObjectKey(ROGUE, ROGUE)), (kinds.CLUSTER_QUEUES, ObjectKey("", ROGUE))}
            if spends
            else set()
        )
        for kind in (kinds.LOCAL_QUEUES, kinds.CLUSTER_QUEUES):
            for queue in self.world.manager.all(kind):
                if seen.is_true(queue, SPEND_LIMIT_REACHED):
                    found.add((kind, ObjectKey(queue["metadata"].get("namespace", ""), queue["metadata"]["name"])))
        return {kind.path(key, subresource="status") for kind, key in found}

    def at_the_end(self, now: float) -> None:
        """Check the settled state."""
        present = {job["metadata"]["name"] for job in self.world.manager.all(kinds.JOBS, NAMESPACE)}
        lost = {job.name for job in self.plan.jobs} - present - self.injector.deleted
        if lost:
            self.broken("lost", now, f"nothing is there of {', '.join(sorted(lost))}")
        for (worker, plural, name), body in self.injector.foreign.items():
            kind: Kind[Any] = kinds.JOBS if plural == kinds.JOBS.plural else kinds.WORKLOADS
            found = self.world.site(worker).find(kind, ObjectKey(NAMESPACE, name))
            if found is None or found["metadata"]["uid"] != body["metadata"]["uid"]:
                self.broken("I6", now, f"the {kind.kind} {name} of a user of {worker} is gone")
        self._all_told(now)

    def _all_told(self, now: float) -> None:
        """Each hostile object that can never be dispatched has a message: an event about it or its workload, or a
        condition."""
        about = {event["involvedObject"]["uid"] for event in self.world.manager.all(kinds.EVENTS, ROGUE)}
        for kind, key in self.adversary_injector.told:
            body = self.world.manager.stored(kind, key)
            if body is None:
                continue
            uid = body["metadata"]["uid"]
            workloads = [w for w in self.world.manager.all(kinds.WORKLOADS, ROGUE) if seen.owner_uid(w) == uid]
            said = any(c.get("message") for w in workloads for c in (w.get("status") or {}).get("conditions") or ())
            if not said and not about & {uid, *(w["metadata"]["uid"] for w in workloads)}:
                self.broken("told", now, f"nobody says what is wrong with {kind.kind} {key.name}")


def _attempt(workload: Object) -> str:
    reserved = seen.condition(workload, QUOTA_RESERVED)
    since = reserved["lastTransitionTime"] if reserved is not None and reserved["status"] == "True" else ""
    return f"{since}/{workload['metadata']['uid']}"


def _check(workload: Object) -> Object:
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return next((check for check in checks if check["name"] == CHECK), {})
