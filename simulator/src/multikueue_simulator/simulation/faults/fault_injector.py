"""The effects of a plan's events on a world, and their ends, if any: one file, a method for each event."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial, singledispatchmethod
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from fakekube.model.storage import Backup
from fakekube.model.wire import Object, Refused
from fakekube.network.link import State
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.api.meta import ObjectKey, render_time
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_log import EVERYBODY, Fault, FaultLog
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.plan import Event, JobPlan, Plan
from multikueue_simulator.time import the_loop
from multikueue_simulator.workers.kueue.behaviour import PROMPT, Behaviour, always
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, World, token

__all__ = ["FaultInjector", "Undo", "attempted"]

T = TypeVar("T")

Undo = Callable[[], None]


def attempted(what: Callable[[], T]) -> T | None:
    """The result of an act, None if it is impossible: the object may be gone, or too deep to be read and changed."""
    try:
        return what()
    except (Refused, RecursionError):
        return None


@dataclass(slots=True)
class FaultInjector:
    """Owner of the faults in force.

    `disturbed` are the jobs that an event interfered with, `deleted` the jobs that a user deleted, `restored` has the
    time at which a cluster was restored from a backup; `woken` is the last time a frozen manager continued; `foreign`
    has the own objects of workers' users, by worker, plural and name.
    """

    world: World
    plan: Plan
    tasks: TaskGroup
    faults: FaultLog = field(default_factory=FaultLog)
    disturbed: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    restored: dict[str, float] = field(default_factory=dict)
    woken: float = -math.inf
    foreign: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    second_names: list[str] = field(default_factory=list)
    """MultiKueueClusters in the MultiKueueConfig besides those of the plan."""
    aliases: dict[str, str] = field(default_factory=dict)
    """The worker behind each second name, now or last."""
    taken_over: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the UID of a job on a worker that another manager made, as it seems: the local job, and the mark of its attempt."""
    dropped: dict[str, float] = field(default_factory=dict)
    """The fields that the manager cluster does not keep, or did not until then, in seconds of the world."""
    resumed: dict[str, float] = field(default_factory=dict)
    """The jobs that a user started on the manager cluster, and when last, in seconds of the world."""
    shared: set[str] = field(default_factory=set)
    """The jobs whose workload has a field that a person owns as well."""
    _links: dict[tuple[str, str], State] = field(default_factory=dict)
    _dark: list[str] = field(default_factory=list)
    _outside: list[str] = field(default_factory=list)
    _tokens: dict[str, str] = field(default_factory=dict)
    _refusing: defaultdict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    _backups: dict[int, tuple[float, Backup]] = field(default_factory=dict)
    _ended: defaultdict[str, list[tuple[float, Undo]]] = field(default_factory=lambda: defaultdict(list))

    def submit(self, job: JobPlan) -> None:
        body = objects.job(
            job.name,
            NAMESPACE,
            queue=job.queue,
            cpu=job.cpu,
            parallelism=job.pods,
            completions=job.completions or None,
            seconds=job.seconds,
            failures="true" if job.fails else job.retried,
            retries=job.retried,
            managed=not self.plan.layout.home,
        )
        attempted(lambda: self.world.manager.create(kinds.JOBS, body))
        self.deleted.discard(job.name)

    def make_room(self, job: JobPlan) -> None:
        """Grow a worker's quota to the job's need. This happens after all events, so no event changes the quota
        afterwards."""
        groups = objects.cluster_queue(job.room, cpu=job.total)["spec"]["resourceGroups"]
        body = {"spec": {"resourceGroups": groups}}
        self.world.site(job.room).patch(kinds.CLUSTER_QUEUES, ObjectKey("", job.room), body)

    def placed(self, event: Event) -> Event:
        """The event with the name of its worker: `@job` becomes the worker that has the job, or may get it."""
        for name in ("host", "worker"):
            where = getattr(event, name, "")
            if where.startswith("@"):
                found: dict[str, Any] = {name: self._worker_of(where[1:])}
                return replace(event, **found)
        return event

    def host_of(self, cluster: str) -> str:
        """The worker behind a MultiKueueCluster. Of two names for one worker, managers use the one they found first."""
        return self.aliases.get(cluster, cluster)

    def _worker_of(self, job: str) -> str:
        local = self.workload(job)
        if local is not None and (winner := (local.get("status") or {}).get("clusterName")):
            return self.host_of(winner)
        names = (name for name in self.plan.workers if self._copy(name, job) is not None)
        return next(names, self.plan.workers[0])

    @singledispatchmethod
    def do(self, event: Event) -> Undo | None:
        """Apply an event. Raises Refused if it is impossible."""
        raise NotImplementedError(event)

    def token(self, worker: str) -> str:
        """The token that a worker accepts from managers, now or after a revocation."""
        return self._tokens.get(worker, token(worker))

    def fault(self, host: str) -> Undo:
        """Excuse managers from knowledge of a cluster's state, until the returned function is called."""
        return partial(self._past, self._fault(EVERYBODY, host, deaf=False, told=True))

    def fault_of_a_part(self, host: str, *, mutes: bool) -> Undo:
        """Note that a cluster answers but for one thing, until the returned function is called. With `mutes` it is one that
        managers need for saying what they wait for."""
        return partial(self._past, self._fault(EVERYBODY, host, deaf=False, partial=not mutes))

    # Links.

    @do.register
    def _break(self, event: plans.Break) -> Undo:
        fault = self._fault(event.replica, event.host)
        self._links[event.replica, event.host] = event.state
        self._weigh(event.replica, event.host)

        def undo() -> None:
            self._links[event.replica, event.host] = State.UP
            self._weigh(event.replica, event.host)
            self._past(fault)

        return undo

    @do.register
    def _cut(self, event: plans.Cut) -> None:
        self.world.network.link(event.replica, event.host).cut()

    @do.register
    def _storm(self, event: plans.Storm) -> Undo:
        fault = self._fault(event.replica, event.host, deaf=False)
        link = self.world.network.link(event.replica, event.host)
        link.weather = event.weather

        def undo() -> None:
            link.weather = self.plan.weather
            self._past(fault)

        return undo

    @do.register
    def _outage(self, event: plans.Outage) -> Undo:
        return self._darken(event.host)

    def _darken(self, host: str) -> Undo:
        """Cut all connections, and refuse new ones."""
        fault = self._fault(EVERYBODY, host)
        self._dark.append(host)
        self._weigh_all(host)

        def undo() -> None:
            self._dark.remove(host)
            self._weigh_all(host)
            self._past(fault)

        return undo

    def _weigh_all(self, host: str) -> None:
        for source in self.world.network.sources(host):
            self._weigh(source, host)

    def _weigh(self, source: str, host: str) -> None:
        state = State.REFUSE if host in self._dark else self._links.get((source, host), State.UP)
        self.world.network.link(source, host).become(state)

    def _fault(self, source: str, host: str, *, deaf: bool = True, told: bool = False, partial: bool = False) -> Fault:
        return self.faults.begin(source, host, the_loop().time(), deaf=deaf, told=told, partial=partial)

    def _past(self, fault: Fault) -> None:
        fault.end = the_loop().time()

    # Clusters.

    def back_up(self, event: plans.Restore) -> None:
        """Take the backup for a later restore. The versions skipped stand for other clients' writes after it."""
        storage = self.world.site(event.host).cluster.storage
        self._backups[id(event)] = the_loop().time(), storage.backup()
        storage.skip(1000)

    @do.register
    def _restore(self, event: plans.Restore) -> Undo:
        """Stop the API server; it returns with the backup. Ends of other events since the backup are repeated."""
        self.disturbed.update(job.name for job in self.plan.jobs)
        up = self._darken(event.host)

        def undo() -> None:
            self.restored[event.host] = the_loop().time()
            cluster = self.world.site(event.host).cluster
            cluster.api.watches.end()
            taken, backup = self._backups[id(event)]
            cluster.storage.restore(backup)
            for at, end in tuple(self._ended[event.host]):
                if at >= taken:
                    attempted(end)
            up()

        return undo

    def remembered(self, host: str, end: Undo) -> Undo:
        """The end of a change in a cluster, recorded so that a restore from an older backup repeats it."""

        def undo() -> None:
            self._ended[host].append((the_loop().time(), end))
            end()

        return undo

    @do.register
    def _compact(self, event: plans.Compact) -> None:
        self.world.site(event.host).cluster.storage.compact()

    @do.register
    def _quota(self, event: plans.Quota) -> Undo:
        site, name = self.world.site(event.host), self._cluster_queue(event.host)
        (planned,) = (
            share.cpu for share in (*self.plan.layout.queues[:1], *self.plan.layout.workers) if share.name == name
        )

        def become(cpu: int) -> None:
            is_manager = event.host == MANAGER
            body = self.world.queue_body(name, cpu=cpu) if is_manager else objects.cluster_queue(name, cpu=cpu)
            groups = body["spec"]["resourceGroups"]
            site.patch(kinds.CLUSTER_QUEUES, ObjectKey("", name), {"spec": {"resourceGroups": groups}})

        become(event.cpu)
        return self.remembered(event.host, lambda: become(planned))  # not the previous value, which may be odd too

    @do.register
    def _stop_queue(self, event: plans.StopQueue) -> Undo:
        site, key = self.world.site(event.host), ObjectKey("", self._cluster_queue(event.host))
        if event.policy == "HoldAndDrain":
            self.disturbed.update(job.name for job in self.plan.jobs)

        def become(policy: str) -> None:
            site.patch(kinds.CLUSTER_QUEUES, key, {"spec": {"stopPolicy": policy}})

        become(event.policy)
        return self.remembered(event.host, lambda: become("None"))

    def _cluster_queue(self, host: str) -> str:
        return self.plan.layout.queues[0].name if host == MANAGER else host

    # Workers.

    @do.register
    def _revoke(self, event: plans.Revoke) -> Undo:
        self._refusing[event.worker].append(self._fault(EVERYBODY, event.worker, told=True))
        self.world.accept(event.worker)

        def undo() -> None:
            old = self.token(event.worker)
            new = f"{old}+" if event.rotated else old
            self._tokens[event.worker] = new
            self.world.accept(event.worker, new)
            if event.rotated:
                self.world.trust(event.worker, new)
            for fault in self._refusing.pop(event.worker, ()):  # an accepted token ends all refusals
                self._past(fault)

        return undo

    @do.register
    def _restart_kueue(self, event: plans.RestartKueue) -> Undo | None:
        kueue = self.world.kueue(event.worker)
        if kueue is None or not kueue.is_running:
            return None
        kueue.kill()

        def undo() -> None:
            if not kueue.is_running:
                kueue.begin(self.tasks)

        return undo

    @do.register
    def _slow_admission(self, event: plans.SlowAdmission) -> Undo:
        kueue = self.world.workers[event.worker].kueue
        kueue.behave(Behaviour(admission_delay=always(timedelta(seconds=event.seconds))))
        return lambda: kueue.behave(PROMPT)

    @do.register
    def _lose_local_queue(self, event: plans.LoseLocalQueue) -> Undo:
        site = self.world.workers[event.worker].site
        queues = site.all(kinds.LOCAL_QUEUES, NAMESPACE)
        for queue in queues:
            site.delete(kinds.LOCAL_QUEUES, seen.key(queue))

        def undo() -> None:
            for queue in queues:
                body = objects.local_queue(queue["metadata"]["name"], NAMESPACE, cluster_queue=event.worker)
                attempted(partial(site.create, kinds.LOCAL_QUEUES, body))

        return self.remembered(event.worker, undo)

    @do.register
    def _leave_config(self, event: plans.LeaveConfig) -> Undo | None:
        if len({*self._outside, event.worker}) == len(self.plan.workers):
            return None
        self._outside.append(event.worker)
        self.configure()

        def undo() -> None:
            self._outside.remove(event.worker)
            self.configure()

        return undo

    def configure(self) -> None:
        """Set the clusters of the MultiKueueConfig, unless it is deleted at the moment."""
        clusters = [name for name in self.plan.workers if name not in self._outside] + self.second_names
        key = ObjectKey("", objects.CONFIG)
        if self.world.manager.stored(kinds.MULTIKUEUE_CONFIGS, key) is not None:
            self.world.manager.patch(kinds.MULTIKUEUE_CONFIGS, key, {"spec": {"clusters": clusters}})

    @do.register
    def _forget_cluster(self, event: plans.ForgetCluster) -> Undo:
        self.world.manager.delete(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", event.worker))
        fault = self._fault(EVERYBODY, event.worker, told=True)

        def undo() -> None:
            self._past(fault)
            self.world.manager.create(kinds.MULTIKUEUE_CLUSTERS, objects.multikueue_cluster(event.worker))

        return undo

    @do.register
    def _lose_secret(self, event: plans.LoseSecret) -> Undo:
        key = ObjectKey(self.plan.layout.secrets, objects.secret_name(event.worker))
        self.world.manager.delete(kinds.SECRETS, key)
        fault = self._fault(EVERYBODY, event.worker, told=True)

        def undo() -> None:
            self._past(fault)
            self.world.trust(event.worker, self.token(event.worker))

        return undo

    # Objects of a job on a worker.

    @do.register
    def _preempt(self, event: plans.Preempt) -> None:
        """Preempt a copy as its Kueue would for another workload; the worker's Kueue does the rest."""
        found = self._copy(event.worker, event.job)
        if found is None or not seen.is_true(found, "Admitted") or seen.is_true(found, "Finished"):
            return
        self.disturbed.add(event.job)
        evicted = {
            "type": "Evicted",
            "status": "True",
            "reason": "Preempted",
            "message": "Preempted to accommodate another workload",
            "lastTransitionTime": render_time(self.world.clock.now()),
            "observedGeneration": found["metadata"]["generation"],
        }
        conditions = [c for c in found["status"]["conditions"] if c["type"] != "Evicted"]
        site = self.world.workers[event.worker].site
        body = {"status": {"conditions": [*conditions, evicted]}}
        site.patch(kinds.WORKLOADS, seen.key(found), body, subresource="status")

    @do.register
    def _delete_copy(self, event: plans.DeleteCopy) -> None:
        found = self._copy(event.worker, event.job)
        if found is not None:
            self.disturbed.add(event.job)
            self.world.workers[event.worker].site.delete(kinds.WORKLOADS, seen.key(found))

    @do.register
    def _delete_job_there(self, event: plans.DeleteRemoteJob) -> None:
        self._delete_remote_job(event)

    def _delete_remote_job(self, event: plans.DeleteRemoteJob) -> None:
        site = self.world.workers[event.worker].site
        found = site.find(kinds.JOBS, ObjectKey(NAMESPACE, event.job))
        if found is not None and seen.is_ours(found):
            self.disturbed.add(event.job)
            site.delete(kinds.JOBS, seen.key(found))

    @do.register
    def _take_over(self, event: plans.TakeOver) -> Undo | None:
        self._delete_remote_job(plans.DeleteRemoteJob(job=event.job, worker=event.worker))
        return self._have_foreign(plans.Foreign(job=event.job, worker=event.worker))

    @do.register
    def _edit_copy(self, event: plans.EditCopy) -> None:
        found = self._copy(event.worker, event.job)
        if found is None:
            return
        self.disturbed.add(event.job)
        edits: Mapping[str, Object] = {
            "inactive": {"spec": {"active": False}},
            "priority": {"spec": {"priority": 7}},
            "annotation": {"metadata": {"annotations": {"example.com/note": "was here"}}},
        }
        self.world.workers[event.worker].site.patch(kinds.WORKLOADS, seen.key(found), edits[event.what])

    @do.register
    def _foreign(self, event: plans.Foreign) -> Undo | None:
        return self._have_foreign(event)

    def _have_foreign(self, event: plans.Foreign) -> Undo | None:
        site = self.world.workers[event.worker].site
        kind: Kind[Any] = kinds.JOBS if event.what == "job" else kinds.WORKLOADS
        body = self._foreign_body(event)
        if body is None or site.find(kind, seen.key(body)) is not None:
            return None
        self.disturbed.add(event.job)
        made = site.create(kind, body)
        name = event.worker, kind.plural, made["metadata"]["name"]
        self.foreign[name] = made

        def undo() -> None:
            self.foreign.pop(name, None)
            found = site.find(kind, seen.key(made))
            if found is not None and found["metadata"]["uid"] == made["metadata"]["uid"]:
                site.delete(kind, seen.key(made))

        return self.remembered(event.worker, undo)

    def _foreign_body(self, event: plans.Foreign) -> Object | None:
        body = objects.job(event.job, NAMESPACE, queue=None, seconds=1000, managed=False)
        body["spec"]["suspend"] = False
        if event.what == "job":
            return body
        local = self.workload(event.job)
        if local is None:
            return None
        pod_set = {"name": "main", "count": 1, "template": body["spec"]["template"]}
        metadata = {"name": local["metadata"]["name"], "namespace": NAMESPACE}
        spec = {"podSets": [pod_set], "queueName": "elsewhere"}
        kind = kinds.WORKLOADS
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}

    def workload(self, job: str) -> Object | None:
        """The local workload of a job; the newest of several."""
        found = [w for w in self.world.manager.all(kinds.WORKLOADS, NAMESPACE) if seen.owner(w) == job]
        return max(found, key=lambda w: int(w["metadata"]["resourceVersion"]), default=None)

    def _copy(self, worker: str, job: str) -> Object | None:
        local = self.workload(job)
        site = self.world.workers[worker].site
        found = attempted(lambda: site.find(kinds.WORKLOADS, seen.key(local))) if local else None
        return found if found is not None and seen.is_ours(found) else None

    # A job on the manager cluster.

    @do.register
    def _delete_job(self, event: plans.DeleteJob) -> None:
        self.disturbed.add(event.job)
        self.world.manager.delete(kinds.JOBS, ObjectKey(NAMESPACE, event.job))
        self.deleted.add(event.job)

    @do.register
    def _recreate(self, event: plans.Recreate) -> Undo | None:
        planned = next((job for job in self.plan.jobs if job.name == event.job), None)
        if planned is None or the_loop().time() < planned.at:
            return None
        self.disturbed.add(event.job)
        self.world.manager.delete(kinds.JOBS, ObjectKey(NAMESPACE, event.job))
        self.deleted.add(event.job)
        return lambda: self.submit(planned)

    @do.register
    def _suspend(self, event: plans.Suspend) -> None:
        self.disturbed.add(event.job)
        self.world.manager.patch(kinds.JOBS, ObjectKey(NAMESPACE, event.job), {"spec": {"suspend": True}})

    @do.register
    def _resume(self, event: plans.Resume) -> None:
        self.disturbed.add(event.job)
        self.resumed[event.job] = anyio.current_time()
        self.world.manager.patch(kinds.JOBS, ObjectKey(NAMESPACE, event.job), {"spec": {"suspend": False}})

    @do.register
    def _edit_job(self, event: plans.EditJob) -> None:
        self.disturbed.add(event.job)
        queues = self.plan.layout.queues
        edits: Mapping[str, Object] = {
            "annotation": {"metadata": {"annotations": {"example.com/note": "was here"}}},
            "parallelism": {"spec": {"parallelism": 2}},
            "queue": {"metadata": {"labels": {QUEUE_LABEL: queues[-1].name}}},
        }
        self.world.manager.patch(kinds.JOBS, ObjectKey(NAMESPACE, event.job), edits[event.what])

    @do.register
    def _delete_workload(self, event: plans.DeleteWorkload) -> None:
        found = self.workload(event.job)
        if found is not None:
            self.disturbed.add(event.job)
            self.world.manager.delete(kinds.WORKLOADS, seen.key(found))

    @do.register
    def _deactivate(self, event: plans.Deactivate) -> Undo | None:
        found = self.workload(event.job)
        if found is None:
            return None
        self.disturbed.add(event.job)
        key = seen.key(found)  # of this workload, as the job may have another one at the end
        self.world.manager.patch(kinds.WORKLOADS, key, {"spec": {"active": False}})

        def undo() -> None:
            self.world.manager.patch(kinds.WORKLOADS, key, {"spec": {"active": True}})

        return undo

    # Settings.

    @do.register
    def _change_strategy(self, event: plans.StrategyChange) -> None:
        annotations = objects.strategy_annotations(event.name, event.options)
        body = {"metadata": {"annotations": annotations}}
        self.world.manager.patch(kinds.ADMISSION_CHECKS, ObjectKey("", objects.CHECK), body)

    @do.register
    def _decide(self, event: plans.Decide) -> Undo | None:
        if not self.plan.layout.placement:
            return None
        self.world.decide(event.clusters)
        return lambda: self.world.decide(self.plan.layout.placement)
