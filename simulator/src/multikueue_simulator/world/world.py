"""A world: a manager cluster, workers that run their jobs, and managers, all in one process.

    world = World(Layout(queues=(Share("main", 8),), workers=(Share("w1", 4), Share("w2", 8))), clock=clock, seed=1)
    world.apply_fixtures()
    async with anyio.create_task_group() as tasks:
        await world.start(tasks)
        manager = world.add_manager("manager-0", settings)
        tasks.start_soon(manager.run)
        world.manager.create(objects.job("job", NAMESPACE, queue="main"))

It works on any event loop; on a virtual one (`multikueue_simulator.time`) a day of it passes in seconds, always in the
same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from fakekube.cluster import Cluster
from fakekube.model.storage import key_of
from fakekube.model.wire import Object, Refused, Request, User, object_of
from fakekube.network.transport import Network, Observer, on_the_spot
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import PRICES_ANNOTATION
from multikueue.controllers.reconcile.context import OnDecision
from multikueue.runtime import Clock
from multikueue.settings import InForce
from multikueue_simulator import definitions
from multikueue_simulator.workers.jobs.jobs import Lives
from multikueue_simulator.workers.jobs.logs import PodLogs
from multikueue_simulator.workers.kueue import webhooks
from multikueue_simulator.world import objects
from multikueue_simulator.world.processes import MANAGER, Kueue, ManagerProcess, Process, Runner

__all__ = [
    "ADMISSION",
    "MANAGER",
    "NAMESPACE",
    "PLACEMENT",
    "ClusterHandle",
    "Layout",
    "Prices",
    "Share",
    "Worker",
    "World",
    "token",
]

NAMESPACE = "default"
"""The namespace of the jobs."""

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
"""Where the configurations of webhooks are."""

PLACEMENT = "placement"
"""The name of the Placement, if there is one, in the namespace of the jobs."""


@dataclass(frozen=True, slots=True)
class Share:
    """A number of CPUs for a queue of the manager, or for a worker."""

    name: str
    cpu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What an hour of a unit costs by worker, and what each LocalQueue may spend, in the words of their annotations."""

    workers: Mapping[str, str] = field(default_factory=dict)
    most: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The clusters and queues. Each worker has one ClusterQueue, and in it a LocalQueue for each queue of the
    manager."""

    queues: tuple[Share, ...] = (Share("main", 8),)
    workers: tuple[Share, ...] = (Share("worker1", 4), Share("worker2", 4), Share("worker3", 4))
    secrets: str = "kueue-system"
    """The namespace of the kubeconfigs."""
    placement: tuple[str, ...] = ()
    """The workers in the decision of an OCM Placement; empty: no Placement."""
    core: bool = False
    """Whether a Kueue on the manager cluster owns jobs and quota."""
    is_reviewed: bool = False
    """Whether that Kueue's webhooks review what is written there."""
    pods: bool = False
    """Whether the pods of jobs are objects with logs, for people to look at."""
    prices: Prices = field(default_factory=Prices)
    home: int = 0
    """The CPUs on the manager cluster that each queue has besides those of its workers; 0: it is no worker of theirs."""
    is_home_last: bool = False
    """Whether those come after the workers' instead of before them."""


class ClusterHandle:
    """A cluster of the world, with direct calls: without a link and without delay."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name

    def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """The answer to a request. Raises Refused."""
        return object_of(on_the_spot(self.cluster.api.handle(_request(method, path, body, content_type, query))))

    async def ask(
        self, method: str, path: str, body: Object | None = None, *, content_type: str = "application/json"
    ) -> Object:
        """The answer to a request that may wait for an admission webhook. Raises Refused."""
        return object_of(await self.cluster.api.handle(_request(method, path, body, content_type, None)))

    def create(self, kind: Kind[Any], body: Object) -> Object:
        return self.call("POST", kind.collection(body["metadata"].get("namespace", "")), body)

    def find(self, kind: Kind[Any], key: ObjectKey) -> Object | None:
        try:
            return self.call("GET", kind.path(key))
        except Refused as refusal:
            if refusal.code == 404:
                return None
            raise

    def stored(self, kind: Kind[Any], key: ObjectKey) -> Object | None:
        """A stored object, faster than by a request; None if it is missing."""
        version = self.cluster.storage.get(f"{kind.plural}.{kind.group}", key_of(key.namespace, key.name))
        return version.object if version is not None else None

    def patch(self, kind: Kind[Any], key: ObjectKey, body: Object, *, subresource: str = "") -> Object:
        """Apply a merge patch. Raises Refused."""
        path = kind.path(key, subresource=subresource)
        return self.call("PATCH", path, body, content_type="application/merge-patch+json")

    def delete(self, kind: Kind[Any], key: ObjectKey) -> Object:
        return self.call("DELETE", kind.path(key), query={"propagationPolicy": "Background"})

    def all(self, kind: Kind[Any], namespace: str = "") -> list[Object]:
        """The stored objects (of a namespace), in the order of their keys."""
        found = self.cluster.storage.select(f"{kind.plural}.{kind.group}", namespace)
        return [version.object for version in found]


def _request(
    method: str, path: str, body: Object | None, content_type: str, query: Mapping[str, str] | None
) -> Request:
    return Request(
        method=method,
        path=path,
        query=query or {},
        body=b"" if body is None else msgspec.json.encode(body),
        content_type=content_type,
        user=User("somebody"),
        user_agent="somebody",
    )


@dataclass(slots=True)
class Worker:
    """A worker cluster with its Kueue and the runner of its jobs."""

    site: ClusterHandle
    kueue: Kueue
    runner: Runner

    @property
    def name(self) -> str:
        return self.site.name


class World:
    """Owner of the clusters, the network between them, and the programs on the workers. `clock` is the clock of all but
    managers with clocks of their own; `seed` determines all randomness."""

    def __init__(self, layout: Layout, *, clock: Clock, seed: int, lives: Lives | None = None) -> None:
        self.layout, self.clock = layout, clock
        self._rng = random.Random(seed)  # noqa: S311  # not a secret
        self.network = Network(self._luck())
        self.manager = self._site(MANAGER, managed_fields=layout.core)
        self.core = Kueue(MANAGER, self.network, clock=clock, rng=self._luck()) if layout.core else None
        if self.core is not None:
            self.network.hosts[MANAGER].users[f"Bearer {self.core.name}"] = User(self.core.name)
        self.workers = {share.name: self._worker(share.name, lives) for share in layout.workers}
        self.runner = self._runner(MANAGER, lives) if layout.home else None
        if self.runner is not None:
            self.network.hosts[MANAGER].users[f"Bearer {self.runner.name}"] = User(self.runner.name)
        self.managers: dict[str, ManagerProcess] = {}

    @property
    def sites(self) -> tuple[ClusterHandle, ...]:
        """All clusters, the manager's first."""
        return (self.manager, *(worker.site for worker in self.workers.values()))

    def site(self, host: str) -> ClusterHandle:
        return self.manager if host == MANAGER else self.workers[host].site

    def apply_fixtures(self, *, annotations: Mapping[str, str] | None = None) -> None:
        """Create the initial objects of an administrator. `annotations` are those of the AdmissionCheck."""
        for worker, share in zip(self.workers.values(), self.layout.workers, strict=True):
            self._apply_worker_fixtures(worker, share)
        make = self.manager.create
        make(kinds.NAMESPACES, objects.namespace(self.layout.secrets))
        make(kinds.RESOURCE_FLAVORS, objects.flavor())
        if self.layout.home:
            make(kinds.RESOURCE_FLAVORS, objects.flavor(objects.HOME_FLAVOR))
        for name in self.workers:
            self.trust(name, token(name))
            priced = {PRICES_ANNOTATION: price} if (price := self.layout.prices.workers.get(name)) else {}
            make(kinds.MULTIKUEUE_CLUSTERS, objects.annotated(objects.multikueue_cluster(name), priced))
        make(kinds.MULTIKUEUE_CONFIGS, objects.multikueue_config(clusters=tuple(self.workers)))
        make(kinds.ADMISSION_CHECKS, objects.admission_check(annotations=annotations))
        for queue in self.layout.queues:
            make(kinds.CLUSTER_QUEUES, self.queue_body(queue.name))
            bound = {MAX_SPEND_ANNOTATION: self.layout.prices.most} if self.layout.prices.most else {}
            local = objects.local_queue(queue.name, NAMESPACE, cluster_queue=queue.name)
            make(kinds.LOCAL_QUEUES, objects.annotated(local, bound))
        if self.layout.placement:
            self.manager.cluster.install(definitions.ocm())
            make(kinds.PLACEMENTS, objects.placement(PLACEMENT, NAMESPACE))
            make(kinds.PLACEMENT_DECISIONS, objects.placement_decision(PLACEMENT, NAMESPACE))
            self.decide(self.layout.placement)
        if self.layout.is_reviewed:
            self.manager.cluster.admission.local[webhooks.HOST] = webhooks.review
            configuration = webhooks.configuration()
            self.manager.call("POST", f"{ADMISSION}/validatingwebhookconfigurations", configuration)

    def queue_body(self, name: str, *, cpu: int | None = None) -> Object:
        """A ClusterQueue of the manager as planned, or with another quota of its own flavor."""
        planned = {queue.name: queue.cpu for queue in self.layout.queues}
        given = planned[name] if cpu is None else cpu
        home, is_last = self.layout.home, self.layout.is_home_last
        return objects.cluster_queue(name, cpu=given, checks=(objects.CHECK,), home=home, is_home_last=is_last)

    def decide(self, clusters: Sequence[str]) -> None:
        """Set the decisions of OCM's placement controller."""
        key = ObjectKey(NAMESPACE, objects.placement_decision(PLACEMENT, NAMESPACE)["metadata"]["name"])
        self.manager.patch(kinds.PLACEMENT_DECISIONS, key, objects.decisions(clusters), subresource="status")

    def kueue(self, host: str) -> Kueue | None:
        """The Kueue of a cluster, if there is one."""
        return self.core if host == MANAGER else self.workers[host].kueue

    async def start(self, tasks: TaskGroup) -> None:
        """Start the programs on the clusters; returns when they run."""
        programs: list[Process] = [p for worker in self.workers.values() for p in (worker.kueue, worker.runner)]
        programs += [each for each in (self.core, self.runner) if each is not None]
        for started in [program.begin(tasks) for program in programs]:
            await started.wait()

    def add_manager(
        self,
        name: str,
        in_force: InForce,
        *,
        clock: Clock | None = None,
        observer: Observer | None = None,
        ended: Callable[[str], None] | None = None,
        on_decision: OnDecision | None = None,
    ) -> ManagerProcess:
        """Add a manager, which is not started yet."""
        clock = clock or self.clock
        made = ManagerProcess(
            name, self.network, in_force, clock=clock, observer=observer, ended=ended, on_decision=on_decision
        )
        self.managers[name] = made
        return made

    def trust(self, worker: str, token: str, *, server: str = "", ca: bytes = b"") -> None:
        """Set the token that the manager uses for a worker, whether or not the worker accepts it. `server` and `ca` are those
        of a port that others reach it by."""
        namespace = self.layout.secrets
        body = objects.kubeconfig_secret(worker, namespace, server=server or f"https://{worker}", token=token, ca=ca)
        key = ObjectKey(namespace, body["metadata"]["name"])
        if self.manager.find(kinds.SECRETS, key) is None:
            self.manager.create(kinds.SECRETS, body)
        else:
            self.manager.patch(kinds.SECRETS, key, {"data": body["data"]})

    def accept(self, worker: str, *tokens: str) -> None:
        """Replace the manager tokens that a worker accepts."""
        users = {f"Bearer {each}": User("multikueue") for each in tokens}
        programs = self.workers[worker].kueue, self.workers[worker].runner
        host = self.network.hosts[worker]
        host.users, host.stranger = users | {f"Bearer {each.name}": User(each.name) for each in programs}, None

    def _apply_worker_fixtures(self, worker: Worker, share: Share) -> None:
        make = worker.site.create
        make(kinds.RESOURCE_FLAVORS, objects.flavor())
        make(kinds.CLUSTER_QUEUES, objects.cluster_queue(share.name, cpu=share.cpu))
        for queue in self.layout.queues:
            make(kinds.LOCAL_QUEUES, objects.local_queue(queue.name, NAMESPACE, cluster_queue=share.name))
        self.accept(share.name, token(share.name))

    def _luck(self) -> random.Random:
        return random.Random(self._rng.getrandbits(64))  # noqa: S311  # not a secret

    def _site(self, name: str, *, managed_fields: bool = False) -> ClusterHandle:
        """Create a cluster. Field owners are tracked only where clients apply, as tracking makes each write more
        expensive."""
        cluster = Cluster(
            name,
            now=self.clock.now,
            rng=self._luck(),
            definitions=definitions.kueue_alone(),
            managed_fields=managed_fields,
            pod_log=PodLogs(name) if self.layout.pods else None,
        )
        self.network.add(name, cluster.api)
        return ClusterHandle(cluster, name)

    def _worker(self, name: str, lives: Lives | None) -> Worker:
        return Worker(
            self._site(name),
            Kueue(name, self.network, clock=self.clock, rng=self._luck()),
            self._runner(name, lives),
        )

    def _runner(self, name: str, lives: Lives | None) -> Runner:
        return Runner(name, self.network, clock=self.clock, rng=self._luck(), lives=lives, pods=self.layout.pods)


def token(worker: str) -> str:
    """The token that a worker accepts from the manager by default."""
    return f"token-of-{worker}"
