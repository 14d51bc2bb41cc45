"""A whole manager as `manager` wires it, over clusters in this process: no sockets, no tasks, no time of its own.

`settle` takes keys from the queues, one after another, until nothing is left to do: what is due later stays undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import anyio

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.workload import ORIGIN_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.controllers.quota.queue_status import QueueStatuses
from multikueue.controllers.reconcile.events import Recorder
from multikueue.controllers.workers.connection.health import Breaker
from multikueue.controllers.workers.connection.outbox import Outbox
from multikueue.errors import Conflict, MultiKueueError
from multikueue.manager.life import Manager
from multikueue.runtime import Result, WorkQueue
from multikueue.settings import (
    EXTERNAL_DISPATCHER,
    STANDALONE,
    Dispatch,
    InForce,
    Integrations,
    Quota,
    Retention,
    Role,
    Settings,
    Timings,
    TraceExport,
)
from multikueue.telemetry.spans import SpanSink
from multikueue.testing import NOW
from multikueue.workload.handlers.retrying import SHORTEST_ATTEMPT
from tests.cluster import Cluster

Body = dict[str, Any]
Q = TypeVar("Q", bound=WorkQueue[Any])

NAMESPACE, CHECK, CONFIG, QUEUE = "team", "mk", "mk", "main"
ORIGIN = "multikueue"

MOST_CONFLICTS = 20
"""A key that meets more of them before all is at rest waits, as it would for its back-off."""

AT_ONCE = Retention(copies=timedelta())
"""Copies of finished jobs go at once: few tests are about those that stay."""


class Table:
    """The manager's cluster, three workers, one queue."""

    def __init__(
        self,
        *,
        workers: int = 3,
        quota: int = 100,
        roles: frozenset[Role] = STANDALONE,
        rules: Quota = Quota(),  # noqa: B008  # frozen
        retention: Retention = AT_ONCE,
        integrations: Integrations = Integrations(),  # noqa: B008  # frozen
        timings: Timings = Timings(),  # noqa: B008  # frozen
        spans: SpanSink | None = None,
        **dispatch: Any,
    ) -> None:
        """`quota` is the queue's CPUs, `rules` those by which it is given; `dispatch` are settings of that group. `spans`
        takes traces."""
        self.spans = spans
        self.time, self.timings = NOW, timings
        dispatching = Dispatch(origin=ORIGIN, **dispatch)
        self.settings = Settings(
            roles=roles,
            dispatch=dispatching,
            quota=rules,
            retention=retention,
            integrations=integrations,
            traces=TraceExport(endpoint="http://127.0.0.1:9/v1/traces" if spans else ""),
        )
        # Who owns which field only matters where another Kueue writes them too.
        self.manager = Cluster("manager", self.now, managed_fields=roles != STANDALONE)
        self.workers = {f"w{n}": Cluster(f"w{n}", self.now, cluster=f"w{n}") for n in range(1, workers + 1)}
        for cluster in self.workers.values():
            cluster.put(kinds.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        self.start()
        for kind, body in _objects(tuple(self.workers), quota):
            self.manager.put(kind, body)

    # The clock of the manager: time passes as the test says.

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, _seconds: float) -> None:
        await anyio.sleep_forever()

    def start(self) -> None:
        """A new manager process over the clusters as they are."""
        in_force, recorder = InForce(self.settings, self.timings), Recorder(self.now)
        process = Manager(in_force, self.manager, clock=self, recorder=recorder, spans=self.spans)
        self.parts = process.assemble()
        self.world, self.runnables, self.recorder = self.parts.context, self.parts.runnables, process.recorder
        self.observer, self.store, self.queues = self.parts.observer, self.world.store, self.world.queues
        self.engine = self.store.engine
        for queue in self.queues.all():
            _never_due(queue)
        self.parts.enqueuer.is_acting = True
        self.manager.unwatch()
        self.outboxes = {name: self._outbox(name, cluster) for name, cluster in self.workers.items()}
        for watch in self.runnables.watches:
            self.manager.watch(watch.kind, watch.cache)
        for name in self.workers:
            self.connect(name)
        self.observer.is_acting = True

    def _outbox(self, name: str, cluster: Cluster) -> Outbox:
        self.queues.outboxes[name] = _never_due(WorkQueue())
        worker = self.store.worker(name)
        cluster.unwatch()
        cluster.watch(kinds.WORKLOADS, worker.workloads, _is_ours)
        cluster.watch(kinds.JOBS, worker.jobs.of(kinds.JOBS), _is_ours)
        return Outbox(self.world, worker, cluster, Breaker(worker, self.queues.outboxes[name]))

    def connect(self, name: str) -> None:
        worker = self.store.worker(name)
        worker.connected()
        self.outboxes[name].breaker.trust()

    def cut(self, name: str) -> None:
        worker = self.store.worker(name)
        worker.suspected(self.now(), "no answer")
        worker.isolated()

    async def settle(self) -> None:
        """Until nothing is left to do. A conflict is looked at again, some times; any other error is the test's."""
        self._conflicts = Counter[Any]()
        loops: list[tuple[WorkQueue[Any], Callable[[Any], Awaitable[Result]]]] = [
            *((loop.queue, loop.reconcile) for loop in self.runnables.loops),
            *((self.queues.outboxes[name], outbox.reconcile) for name, outbox in self.outboxes.items()),
        ]
        for _ in range(2000):
            moved = await self._read_reports() or self._cycle()
            for queue, reconcile in loops:
                if len(queue):
                    await self._one(queue, reconcile)
                    moved = True
            if not moved:
                return
        raise AssertionError("does not come to rest")

    async def _read_reports(self) -> bool:
        """Keeps up the view of the workers where there are no connections; elsewhere the test does, by connect and cut."""
        moved = False
        for loop in self.runnables.cluster_loops if self.settings.roles == EXTERNAL_DISPATCHER else ():
            while len(loop.queue):
                await self._one(loop.queue, loop.reconcile)
                moved = True
        return moved

    async def _one(self, queue: WorkQueue[Any], reconcile: Callable[[Any], Awaitable[Result]]) -> None:
        key = await queue.get()
        try:
            if (await reconcile(key)).again_after == timedelta():
                queue.add(key)
        except Conflict as error:
            self._conflicts[key] += 1
            if self._conflicts[key] <= MOST_CONFLICTS:
                queue.add(key)
            else:
                self.errors.append(error)
        except MultiKueueError as error:
            self.errors.append(error)
        finally:
            queue.done(key)

    errors: list[MultiKueueError]
    _conflicts: Counter[Any]

    def _cycle(self) -> bool:
        due = self.engine.scheduler.next_look(self.now())
        if due is None or due > self.now():
            return False
        cycle = self.engine.scheduler.cycle(self.now())
        for key in (*cycle.reserved, *cycle.evicted, *cycle.pending):
            self.queues.workloads.add(key)
        return True

    async def statuses(self) -> None:
        """What is written a second later."""
        statuses = QueueStatuses(self.world)
        await statuses.reconcile_cluster_queue("cq")
        await statuses.reconcile_local_queue(ObjectKey(NAMESPACE, QUEUE))

    async def taken(self, queue: WorkQueue[str]) -> list[str]:
        """The keys that wait, which do so no more."""
        keys = [await queue.get() for _ in range(len(queue))]
        for key in keys:
            queue.done(key)
        return keys

    # What users and workers do.

    def submit(self, name: str = "job", **spec: Any) -> None:
        self.manager.put(kinds.JOBS, job_body(name, **spec))

    async def begin(self, worker: str = "w1") -> None:
        """A user submits a job, and that worker admits it."""
        self.submit()
        await self.settle()
        self.admit(worker)
        await self.settle()

    def workload(self, name: str = "job") -> Body:
        made = [w for w in self.manager.all(kinds.WORKLOADS) if w["metadata"].get("ownerReferences")]
        (found,) = [w for w in made if w["metadata"]["ownerReferences"][0]["name"] == name]
        return found

    def status(self, name: str = "job") -> Body:
        status: Body = self.workload(name).get("status", {})
        return status

    def condition(self, type_: str, name: str = "job") -> Body | None:
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == type_), None)

    def key(self, name: str = "job") -> ObjectKey:
        return ObjectKey(NAMESPACE, self.workload(name)["metadata"]["name"])

    def copies(self, name: str = "job") -> list[str]:
        return [w for w, cluster in self.workers.items() if cluster.find(kinds.WORKLOADS, self.key(name))]

    def runs_on(self, name: str = "job") -> list[str]:
        key = ObjectKey(NAMESPACE, name)
        return [w for w, cluster in self.workers.items() if cluster.find(kinds.JOBS, key)]

    def admit(self, worker: str, name: str = "job") -> None:
        """The worker's Kueue admits the copy."""
        self._set(worker, name, QuotaReserved="True", Admitted="True", Evicted="False")

    def block(self, worker: str, name: str = "job") -> None:
        """The worker's Kueue would preempt for the copy, if its gate were open."""
        self._set(worker, name, BlockedOnPreemptionGates="True")

    def evict(self, worker: str, name: str = "job") -> None:
        """The worker's Kueue takes it down, after a while."""
        self.time += SHORTEST_ATTEMPT
        self._set(worker, name, QuotaReserved="False", Admitted="False", Evicted="True")

    def run(self, worker: str, name: str = "job", *, active: int = 1, ready: int = 1, succeeded: int = 0) -> None:
        """So many pods of the job run there, are ready, and are over."""
        status = {"startTime": "2026-01-01T12:00:00Z", "active": active, "ready": ready, "succeeded": succeeded}
        self.workers[worker].change(kinds.JOBS, ObjectKey(NAMESPACE, name), {"status": status})

    def finish(self, worker: str, name: str = "job") -> None:
        """The job has run to its end there."""
        self.finish_job(worker, name)
        self._set(worker, name, Finished="True")

    def finish_job(self, worker: str, name: str = "job") -> None:
        """As `finish`, but the worker's Kueue has not seen it yet."""
        when = "2026-01-01T12:30:00Z"
        done = [{"type": t, "status": "True", "lastTransitionTime": when} for t in ("SuccessCriteriaMet", "Complete")]
        status = {"startTime": "2026-01-01T12:00:00Z", "completionTime": when, "succeeded": 1, "conditions": done}
        self.workers[worker].change(kinds.JOBS, ObjectKey(NAMESPACE, name), {"status": status})

    def _set(self, worker: str, name: str, **states: str) -> None:
        cluster, key = self.workers[worker], self.key(name)
        old = (cluster.find(kinds.WORKLOADS, key) or {}).get("status", {}).get("conditions", [])
        stamp = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        new = [
            {
                "type": type_,
                "status": state,
                "reason": "Succeeded" if type_ == "Finished" else type_,
                "message": "by the worker",
                "lastTransitionTime": stamp,
            }
            for type_, state in states.items()
        ]
        kept = [condition for condition in old if condition["type"] not in states]
        cluster.change(kinds.WORKLOADS, key, {"status": {"conditions": [*kept, *new]}})

    def said(self) -> list[tuple[str, str]]:
        """The events told so far: reason and message."""
        return [(body["reason"], body["message"]) for body in self.recorder.waiting()]


def table(**settings: Any) -> Table:
    made = Table(**settings)
    made.errors = []
    return made


def job_body(
    name: str, *, managed: bool = True, suspend: bool = True, cpu: str = "1", pods: int = 1, queue: str = QUEUE
) -> Body:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec: Body = {
        "parallelism": pods,
        "completions": pods,
        "suspend": suspend,
        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
    }
    if managed:
        spec["managedBy"] = CONTROLLER_NAME
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": queue}}
    metadata["creationTimestamp"] = "2026-01-01T12:00:00Z"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _is_ours(body: Body) -> bool:
    return bool(body["metadata"].get("labels", {}).get(ORIGIN_LABEL) == ORIGIN)


def _never_due(queue: Q) -> Q:
    """Keys that are due later stay undone, however slow the machine is: a queue's timers follow the loop's own clock."""
    queue._ring = lambda key: None  # type: ignore[method-assign]
    return queue


def _objects(clusters: tuple[str, ...], quota: int) -> list[tuple[Kind[Any], Body]]:
    active = {"conditions": [_active()]}
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CONFIG}
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(quota)}]}]
    queue = {
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "namespaceSelector": {},
        "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
    }
    source = {"clusterSource": {"kubeConfig": {"location": "secret"}}}
    return [
        (kinds.NAMESPACES, {"metadata": {"name": NAMESPACE}}),
        (kinds.RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}}),
        *((kinds.MULTIKUEUE_CLUSTERS, {"metadata": {"name": n}, "spec": source, "status": active}) for n in clusters),
        (kinds.MULTIKUEUE_CONFIGS, {"metadata": {"name": CONFIG}, "spec": {"clusters": list(clusters)}}),
        (
            kinds.ADMISSION_CHECKS,
            {
                "metadata": {"name": CHECK, "generation": 1},
                "spec": {"controllerName": CONTROLLER_NAME, "parameters": parameters},
                "status": active,
            },
        ),
        (kinds.CLUSTER_QUEUES, {"metadata": {"name": "cq", "generation": 1}, "spec": queue}),
        (
            kinds.LOCAL_QUEUES,
            {"metadata": {"name": QUEUE, "namespace": NAMESPACE, "generation": 1}, "spec": {"clusterQueue": "cq"}},
        ),
    ]


def _active() -> Body:
    return {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T11:00:00Z",
    }
