"""The effects of adversaries on a world: one file, a handler for each, which returns the function that ends its effect.

Most of their objects could not pass fakekube's API, which has fewer stack frames than a real server. They go directly
to the storage, where the etcd of a real cluster would have them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, singledispatchmethod
from typing import Any

import msgspec

from fakekube.model.storage import ADDED, Change, key_of
from fakekube.model.wire import Object, Request, Response, Watch
from fakekube.network.transport import Handler
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kubernetes.builtins import KUBE_SYSTEM
from multikueue.api.kueue.workload import (
    QUEUE_LABEL,
    QUOTA_RESERVED,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION
from multikueue.jobs.framework.workloads import owner_reference, workload_name
from multikueue.store.caches.placements import PLACEMENT_ANNOTATION
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector, Undo, attempted
from multikueue_simulator.simulation.faults.odd_objects import (
    DEEP,
    DIGITS,
    EXPONENT,
    HAND_MADE,
    KUBECONFIGS,
    ODD_ANSWERS,
    ODD_JOBS,
    ROGUE,
    SLANDERS,
    SPOILED,
    WRONG_JOBS,
    copy_marks,
    deep_copy,
    idle_job,
    made_good,
    meta_of,
    plain_job,
    plain_workload,
)
from multikueue_simulator.simulation.plan import adversaries as acts
from multikueue_simulator.simulation.plan.plan import Adversity
from multikueue_simulator.time import the_loop
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, ClusterHandle, World

__all__ = ["AdversaryInjector"]

ALIAS = "second-name"
ODD_CLUSTER = "odd-cluster"
CHOICE = "choice"

_MANY_PAGES, _SOON = 60, 10.0
"""Requests for one page within so many seconds, after which the requester is taken to repeat it forever. Two managers that try
again after a back-off, by two names of the worker, need longer."""

_PATCHES_PER_SECOND = 25

Broken = Callable[[str, str], None]


_OWN_METADATA = ("name", "namespace", "labels", "annotations")


@dataclass(slots=True)
class AdversaryInjector:
    """Owner of the adversaries' objects. `told` are hostile objects that must get a message about their fault, by kind
    and key; `refused` the reasons that MultiKueueClusters must give at the moment; `broken` reports a violated invariant.
    `_whole` has the objects in use before any change: a repair restores this state, not that of just before the damage,
    which may be odd too."""

    world: World
    injector: FaultInjector
    broken: Broken
    told: list[tuple[Kind[Any], ObjectKey]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    _whole: dict[str, Object] = field(default_factory=dict)

    def apply_fixtures(self) -> None:
        """Give the hostile tenant a namespace, and queues with a quota of their own, like any other tenant."""
        for what in acts.IN_USE:
            kind, key = self._in_use(what)
            self._whole[what] = self.world.manager.stored(kind, key) or {}
        for site in self.world.sites:
            checks = (objects.CHECK,) if site is self.world.manager else ()
            site.create(kinds.NAMESPACES, objects.namespace(ROGUE))
            site.create(kinds.CLUSTER_QUEUES, objects.cluster_queue(ROGUE, cpu=4, checks=checks))
            site.create(kinds.LOCAL_QUEUES, objects.local_queue(ROGUE, ROGUE, cluster_queue=ROGUE))

    @singledispatchmethod
    def do(self, event: Adversity) -> Undo | None:
        """Apply an event. Raises Refused if it is impossible."""
        raise NotImplementedError(event)

    # Hostile tenants.

    @do.register
    def _odd_job(self, event: acts.OddJob) -> None:
        body = self._decent(self.world.manager, kinds.JOBS, plain_job(event.name))
        ODD_JOBS[event.what](body)
        _store(self.world.manager, kinds.JOBS, body)
        if QUEUE_LABEL in seen.labels(body) and event.what in WRONG_JOBS:
            self.told.append((kinds.JOBS, seen.key(body)))

    @do.register
    def _hand_made(self, event: acts.HandMade) -> None:
        body = self._decent(self.world.manager, kinds.WORKLOADS, plain_workload(event.name))
        HAND_MADE[event.what](body, self.world.layout.workers[0].name)
        _store(self.world.manager, kinds.WORKLOADS, body)

    @do.register
    def _squat(self, event: acts.Squat) -> None:
        manager = self.world.manager
        job, other = (manager.create(kinds.JOBS, idle_job(name)) for name in (event.name, f"{event.name}-other"))
        taken = plain_workload(workload_name(kinds.JOBS, meta_of(job)))
        taken["metadata"]["ownerReferences"] = [owner_reference(kinds.JOBS, meta_of(other))]
        manager.create(kinds.WORKLOADS, taken)
        manager.patch(kinds.JOBS, seen.key(job), {"metadata": {"labels": {QUEUE_LABEL: ROGUE}}})
        self.told.append((kinds.JOBS, seen.key(job)))

    @do.register
    def _flood(self, event: acts.Flood) -> Undo:
        manager = self.world.manager
        key = seen.key(manager.create(kinds.JOBS, plain_job(event.name)))
        over = False

        def patch(number: int) -> None:
            if over:
                return
            note = {"metadata": {"annotations": {"example.com/note": str(number)}}}
            attempted(lambda: manager.patch(kinds.JOBS, key, note))
            self._later(1 / _PATCHES_PER_SECOND, partial(patch, number + 1))

        def undo() -> None:
            nonlocal over
            over = True

        patch(0)
        return undo

    @do.register
    def _choose(self, event: acts.Choose) -> None:
        manager, decision = self.world.manager, objects.placement_decision(CHOICE, ROGUE)
        manager.create(kinds.PLACEMENTS, objects.placement(CHOICE, ROGUE))
        manager.create(kinds.PLACEMENT_DECISIONS, decision)
        chosen = objects.decisions((event.worker,))
        manager.patch(kinds.PLACEMENT_DECISIONS, seen.key(decision), chosen, subresource="status")
        job = plain_job(event.name)
        job["metadata"]["annotations"] |= {PLACEMENT_ANNOTATION: f"{ROGUE}/{CHOICE}"}
        manager.create(kinds.JOBS, job)

    # Hostile workers.

    @do.register
    def _slander(self, event: acts.Slander) -> Undo | None:
        """Applies to the existing copies, and to those created meanwhile."""
        worker = self.world.workers[event.worker]
        if not worker.kueue.is_running:
            return None
        worker.kueue.kill()
        believed = self.injector.fault(event.worker)
        site, slandered = worker.site, set[ObjectKey]()

        def slander(body: Object) -> None:
            if seen.is_ours(body) and not seen.is_true(body, QUOTA_RESERVED):
                slandered.add(seen.key(body))
                with suppress(RecursionError):  # an object too deep to copy stays as it is
                    _store(site, kinds.WORKLOADS, SLANDERS[event.what](body))

        def listen(change: Change) -> None:
            if change.type == ADDED:
                slander(change.version.object)

        for body in site.all(kinds.WORKLOADS):
            slander(body)
        silence = site.cluster.storage.subscribe(listen, _storage(kinds.WORKLOADS))

        def undo() -> None:
            silence()
            for key in slandered:
                _drop(site, kinds.WORKLOADS, key)
            if not worker.kueue.is_running:
                worker.kueue.begin(self.injector.tasks)
            believed()

        return undo

    @do.register
    def _odd_answers(self, event: acts.OddAnswers) -> Undo:
        host = self.world.network.hosts[event.worker]
        away = self.injector.fault(event.worker)
        odd = host.api = _Odd(host.api, event.what, self.broken)
        for source in self.world.network.sources(event.worker):
            self.world.network.link(source, event.worker).cut()

        def undo() -> None:
            odd.is_over = True
            self._later(event.echo, away)

        return undo

    @do.register
    def _impersonate(self, event: acts.Impersonate) -> None:
        liar, other = (self.world.workers[name].site for name in (event.worker, event.other))
        honest = other.stored(kinds.NAMESPACES, KUBE_SYSTEM) or {}
        own = deep_copy(liar.stored(kinds.NAMESPACES, KUBE_SYSTEM) or {})
        own["metadata"]["uid"] = honest["metadata"]["uid"]
        _store(liar, kinds.NAMESPACES, own)

    @do.register
    def _impose(self, event: acts.Impose) -> Undo:
        site = self.world.workers[event.worker].site
        made: list[tuple[Kind[Any], ObjectKey]] = []
        for number in range(event.count):
            kind: Kind[Any] = kinds.JOBS if number % 3 == 2 else kinds.WORKLOADS
            name = f"imposed{number}"
            body = self._decent(site, kind, plain_job(name) if kind is kinds.JOBS else plain_workload(name))
            copy_marks(body)
            if number % 5 == 3:
                body["metadata"]["managedFields"] = [DEEP]
            _store(site, kind, body)
            made.append((kind, seen.key(body)))

        def undo() -> None:
            for kind, key in made:
                _drop(site, kind, key)

        return undo

    # Clumsy admins.

    @do.register
    def _second_name(self, event: acts.SecondName) -> Undo:
        manager, namespace = self.world.manager, self.world.layout.secrets
        server, theirs = f"https://{event.worker}", self.injector.token(event.worker)
        secret = objects.kubeconfig_secret(ALIAS, namespace, server=server, token=theirs)
        manager.create(kinds.SECRETS, secret)
        manager.create(kinds.MULTIKUEUE_CLUSTERS, objects.multikueue_cluster(ALIAS))
        self.injector.aliases[ALIAS] = event.worker
        if event.configured:
            self.injector.second_names.append(ALIAS)
            self.injector.configure()

        def undo() -> None:
            if event.configured:
                self.injector.second_names.remove(ALIAS)
                self.injector.configure()
            manager.delete(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", ALIAS))
            manager.delete(kinds.SECRETS, seen.key(secret))
            self.injector.fault(ALIAS)

        return undo

    @do.register
    def _odd_cluster(self, event: acts.OddCluster) -> Undo:
        manager, namespace = self.world.manager, self.world.layout.secrets
        server, theirs = f"https://{event.worker}", self.injector.token(event.worker)
        secret = objects.kubeconfig_secret(ODD_CLUSTER, namespace, server=server, token=theirs)
        spoil, self.refused[ODD_CLUSTER] = KUBECONFIGS[event.what]
        spoilt = spoil(msgspec.json.decode(b64decode(secret["data"]["kubeconfig"])))
        manager.create(kinds.SECRETS, secret | {"data": {"kubeconfig": b64encode(spoilt).decode()}})
        manager.create(kinds.MULTIKUEUE_CLUSTERS, objects.multikueue_cluster(ODD_CLUSTER))

        def undo() -> None:
            del self.refused[ODD_CLUSTER]
            for kind, key in (
                (kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", ODD_CLUSTER)),
                (kinds.SECRETS, seen.key(secret)),
            ):
                if manager.stored(kind, key) is not None:
                    manager.delete(kind, key)

        return undo

    @do.register
    def _drop_check(self, event: acts.DropCheck) -> Undo:
        key = ObjectKey("", event.queue)
        before = self._whole["ClusterQueue"]["spec"].get("admissionChecksStrategy")

        def become(strategy: object) -> None:
            self.world.manager.patch(kinds.CLUSTER_QUEUES, key, {"spec": {"admissionChecksStrategy": strategy}})

        become(None)
        return lambda: become(before)

    @do.register
    def _mix_up(self, event: acts.MixUp) -> Undo | None:
        """Call it while no manager runs.

        Does nothing before a manager has recorded the cluster UIDs of both names: until then the admin may point them
        anywhere.
        """
        if not (self._is_recorded(event.worker) and self._is_recorded(event.other)):
            return None
        away = self.injector.fault(event.worker)

        def lead(cluster: str, worker: str) -> None:
            secret = objects.kubeconfig_secret(
                cluster, self.world.layout.secrets, server=f"https://{worker}", token=self.injector.token(worker)
            )
            self.world.manager.patch(kinds.SECRETS, seen.key(secret), {"data": secret["data"]})

        lead(event.worker, event.other)

        def undo() -> None:
            lead(event.worker, event.worker)
            away()

        return undo

    def _is_recorded(self, worker: str) -> bool:
        """Whether managers have recorded the cluster UID behind the name."""
        cluster = self.world.manager.stored(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", worker)) or {}
        return CLUSTER_UID_ANNOTATION in ((cluster.get("metadata") or {}).get("annotations") or {})

    @do.register
    def _mislay(self, event: acts.Mislay) -> Undo | None:
        manager = self.world.manager
        kind, key = self._in_use(event.what)
        if manager.stored(kind, key) is None:
            return None
        manager.delete(kind, key)
        whole = self._whole[event.what]
        metadata = {name: whole["metadata"][name] for name in _OWN_METADATA if name in whole["metadata"]}
        body = {name: value for name, value in whole.items() if name != "status"} | {"metadata": metadata}

        def undo() -> None:
            """Recreate the object once it is gone; a finalizer may keep it while it is in use."""
            now = manager.stored(kind, key)
            if now is None:
                manager.create(kind, body)
                self.injector.configure()
            elif seen.is_leaving(now):
                self._later(1.0, undo)

        return undo

    @do.register
    def _mangle(self, event: acts.Mangle) -> Undo | None:
        """Write directly to the storage: objects that the API server's rules refuse may be older than the rules."""
        site = self.world.manager
        if event.what == "limit range":
            body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "odd", "namespace": ROGUE}}
            body["spec"] = {
                "limits": [{"type": "Container", "defaultRequest": {"cpu": DIGITS}, "max": {"cpu": EXPONENT}}]
            }
            _store(site, kinds.LIMIT_RANGES, self._decent(site, kinds.LIMIT_RANGES, body))
            return lambda: _drop(site, kinds.LIMIT_RANGES, ObjectKey(ROGUE, "odd"))
        name, spoil, path = SPOILED[event.what]
        kind, key = self._in_use(name)
        found = site.stored(kind, key)
        if found is None:
            return None
        _store(site, kind, spoil(deep_copy(found)))

        def undo() -> None:
            now = site.stored(kind, key)
            if now is not None:
                _store(site, kind, made_good(now, self._whole[name], *path))
                self.injector.configure()

        return undo

    def _in_use(self, what: str) -> tuple[Kind[Any], ObjectKey]:
        queue = self.world.layout.queues[0].name
        places: Mapping[str, tuple[Kind[Any], ObjectKey]] = {
            "ClusterQueue": (kinds.CLUSTER_QUEUES, ObjectKey("", queue)),
            "LocalQueue": (kinds.LOCAL_QUEUES, ObjectKey(NAMESPACE, queue)),
            "ResourceFlavor": (kinds.RESOURCE_FLAVORS, ObjectKey("", objects.FLAVOR)),
            "AdmissionCheck": (kinds.ADMISSION_CHECKS, ObjectKey("", objects.CHECK)),
            "MultiKueueConfig": (kinds.MULTIKUEUE_CONFIGS, ObjectKey("", objects.CONFIG)),
        }
        return places[what]

    def _decent(self, site: ClusterHandle, kind: Kind[Any], body: Object) -> Object:
        """The body as the API server would store it, ready to be spoiled."""
        path = kind.collection(body["metadata"].get("namespace", ""))
        return site.call("POST", path, body, query={"dryRun": "All"})

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        the_loop().call_later(seconds, what, context=self.world.network.context)


class _Odd:
    """An API server that answers managers with odd answers, and a worker's own programs truly. Watches expire at once,
    so that managers have to list."""

    def __init__(self, honest: Handler, what: str, broken: Broken) -> None:
        self._honest, self._answer, self._broken = honest, ODD_ANSWERS[what], broken
        self.is_over = False
        self._asked: dict[tuple[str, str], deque[float]] = {}

    async def handle(self, request: Request) -> Response | Watch:
        if self.is_over or request.user.name != "multikueue" or request.path in ("/api", "/apis"):
            return await self._honest.handle(request)
        page = request.path, request.query.get("continue", "")
        times, now = self._asked.setdefault(page, deque(maxlen=_MANY_PAGES)), the_loop().time()
        times.append(now)
        if len(times) == _MANY_PAGES and now < times[0] + _SOON and page[1]:
            self._broken("bounded", f"page {page[1]!r} of {request.path} is asked for {_MANY_PAGES} times")
        if "watch" in request.query:
            return _expired()
        return self._answer(request)


def _expired() -> Watch:
    watch = Watch()
    watch.feed(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n')
    watch.end()
    return watch


def _storage(kind: Kind[Any]) -> str:
    return f"{kind.plural}.{kind.group}"


def _store(site: ClusterHandle, kind: Kind[Any], body: Object) -> None:
    metadata = body["metadata"] | {"generation": body["metadata"].get("generation", 0) + 1}
    name = key_of(metadata.get("namespace", ""), metadata["name"])
    site.cluster.storage.put(_storage(kind), name, {**body, "metadata": metadata})


def _drop(site: ClusterHandle, kind: Kind[Any], key: ObjectKey) -> None:
    if site.stored(kind, key) is not None:
        site.cluster.storage.remove(_storage(kind), key_of(key.namespace, key.name))
