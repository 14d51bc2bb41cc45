"""What each worker is to a workload, as the workers themselves show it to the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import anyio

from multikueue.api.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    WORKLOADS,
)
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME, AdmissionCheck
from multikueue.api.kueue.workload import (
    ADMITTED,
    FITS_NO_WORKER,
    QUOTA_RESERVED,
    Workload,
    queue_of,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import MultiKueueCluster, clusters_of, config_of, is_cordoned
from multikueue.cli.terminal.output import Column, heading, print_table
from multikueue.cli.terminal.progress import each
from multikueue.cli.workload.explanation import demand_by, lines
from multikueue.cli.workload.pod_policies import read_policies
from multikueue.cli.workload.related_objects import RelatedObjects
from multikueue.errors import ApiError, Forbidden, MultiKueueError, NotFound
from multikueue.quota.capacity.offers import WorkerQueues
from multikueue.store.caches.ceilings import Ceilings
from multikueue.store.workers.watch_scope import namespaces_of
from multikueue.workload.fit import named_in
from multikueue.workload.nomination.foresight import QueuesThere, foresee, requested
from multikueue.workload.nomination.prospects import Prospect, State, away, waiting, with_cell

if TYPE_CHECKING:
    from multikueue.cli.access.worker_access import ReachableWorker, WorkerAccess
    from multikueue.cli.terminal.formats import Form
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.quota.visibility.differences import PodPolicies
    from multikueue.settings import Settings
    from multikueue.workload.nomination.foresight import Requests

__all__ = ["Inquiry", "ask_workers", "on_each", "print_workers"]

T = TypeVar("T")

CLUSTER_TIMEOUT = timedelta(seconds=10)
"""The time for one cluster: a user at a screen would rather see the others."""

ASKING = "asking clusters"

WORKERS = (Column("CLUSTER"), Column("ANSWER"), Column("PLACE"), Column("MESSAGE"))
REPAIR = Column("REPAIR")

_MEETS_ITS_POLICIES = tuple(
    state.value for state in (State.HAS_IT, State.WAITS, State.NOT_ASKED, State.NEVER, State.LACKS_QUEUE)
)
"""The states of workers whose rules for pods concern the workload."""


def print_workers(workers: Iterable[Prospect], output: Form) -> None:
    """With a column of repairs if a worker is left out."""
    shown = [*workers]
    columns = (*WORKERS, REPAIR) if any(each.repair for each in shown) else WORKERS
    rows = [(each.cluster, each.state, str(each.place or ""), each.message, each.repair) for each in shown]
    heading("Workers")
    print_table(columns, [row[: len(columns)] for row in rows], output)


# --- looking ---------------------------------------------------------------------------------------------------------


async def ask_workers(
    manager: ClusterClient,
    reach: WorkerAccess,
    local: Workload,
    settings: Settings | None = None,
    told: Iterable[Prospect] | None = None,
) -> Inquiry:
    """Asks each worker that the workload may go to, or the one that has it, in the order of its MultiKueueConfig.

    `told`, the manager's answer if there is one, counts for workers that the user has no access to.
    """
    inquiry = Inquiry(
        manager, reach, local, {each.cluster: each for each in told or ()}, settings, is_told=told is not None
    )
    names = await inquiry.names()
    found, failures = await each(ASKING, names, inquiry.ask)
    inquiry.found = [with_cell(one, local) for one in found]
    if failures:  # the manager cluster's own
        raise failures[0]
    return inquiry


async def on_each(
    manager: ClusterClient,
    reach: WorkerAccess,
    names: Sequence[str],
    look: Callable[[ClusterClient], Awaitable[T]],
    *,
    within: timedelta = CLUSTER_TIMEOUT,
) -> tuple[dict[str, T], dict[str, str]]:
    """What is found on each worker; and the workers that could not be read, with the reasons."""
    found, unseen = dict[str, T](), dict[str, str]()

    async def ask(name: str) -> None:
        try:
            with anyio.fail_after(within.total_seconds()):
                async with reach.connect(manager, name) as worker:
                    found[name] = await look(worker.client)
        except TimeoutError:
            unseen[name] = f"no answer within {within.total_seconds():g} s"
        except MultiKueueError as error:
            unseen[name] = str(error)

    await each(ASKING, names, ask)
    return {name: found[name] for name in names if name in found}, dict(sorted(unseen.items()))


@dataclass(slots=True)
class Inquiry:
    """`found`: the workers' answers. `policies`: what pods are made by on those that could be read. `own_check`: the admission
    check that is MultiKueue's, empty if there is none, None if that may not be read. `unseen`: what could not be read."""

    manager: ClusterClient
    reach: WorkerAccess
    local: Workload
    told: Mapping[str, Prospect]
    settings: Settings | None = None
    is_told: bool = False
    found: list[Prospect] = field(default_factory=list)
    policies: dict[str, PodPolicies] = field(default_factory=dict)
    own_check: str | None = ""
    unseen: list[str] = field(default_factory=list)
    _pod_sets: list[Requests] | None = None

    def is_away(self, name: str) -> bool:
        return any(each.cluster == name and each.state == State.UNREACHABLE.value for each in self.found)

    def has_lost(self, name: str, why: str) -> None:
        """This worker does not answer here, whatever the manager says of it."""
        gone = with_cell(_prospect(name, State.UNREACHABLE, why), self.local)
        self.found = [gone if each.cluster == name else each for each in self.found]

    @property
    def nominated(self) -> tuple[str, ...]:
        return self.local.status.nominated_cluster_names

    @property
    def winner(self) -> str:
        return (self.local.status.cluster_name or "") if self.local.has(ADMITTED) else ""

    def known(self) -> Mapping[str, str]:
        """Reasons by worker, from the manager's condition FitsNoWorker: reading it needs no right on a worker."""
        told = self.local.condition(FITS_NO_WORKER)
        return named_in(told.message) if told is not None else {}

    async def names(self) -> tuple[str, ...]:
        """The workers of the configuration, if it may be read; else those that the workload names."""
        if self.local.has(ADMITTED):
            return (self.winner,) if self.winner else ()
        named = tuple(dict.fromkeys((*self.nominated, *self.known())))
        try:
            return (await self._configured()) or named
        except (Forbidden, NotFound) as error:  # who takes away a check or its configuration may do so at any time
            self.own_check = self.own_check or None
            if not self.is_told and not self.known():
                which = "workers that the workload does not name" if named else "its workers"
                may_not = isinstance(error, Forbidden)
                why = ", since you may not see where its queue leads" if may_not else f": {error.message}"
                self.unseen.append(f"{which}{why}")
            return tuple(self.told) or named

    async def _configured(self) -> tuple[str, ...]:
        """Raises Forbidden, and NotFound without the check or what it names."""
        if not self.local.status.admission_checks:
            return await self._behind_its_queue()
        for state in self.local.status.admission_checks:
            check = await _found(self.manager, state.name)
            name = next(iter(config_of(check)), "") if check is not None else ""
            if name:
                self.own_check = state.name
                return clusters_of(await self.manager.get(MULTIKUEUE_CONFIGS, ObjectKey("", name)))
        return ()

    async def _behind_its_queue(self) -> tuple[str, ...]:
        """The workers that its LocalQueue leads to."""
        from multikueue.registration.preflight import routes

        try:
            local = await self.manager.get(LOCAL_QUEUES, queue_of(self.local))
        except NotFound:
            return ()
        way = await routes(self.manager)
        queue = way.cluster_queue(local.spec.cluster_queue)
        return (way.clusters_of(queue) or ()) if queue is not None else ()

    async def ask(self, name: str) -> Prospect:
        everybody = await self._manager_says(name)
        if everybody is not None:
            return everybody
        known = self.known().get(name)
        if known is not None and name not in self.nominated:
            return _prospect(name, State.NEVER, known)
        try:
            with anyio.fail_after(CLUSTER_TIMEOUT.total_seconds()):
                async with self.reach.connect(self.manager, name) as worker:
                    found = await self._worker_says(name, worker)
                    if found.state in _MEETS_ITS_POLICIES:
                        self.policies[name] = await read_policies(worker.client, (self.local.metadata.namespace,))
                    return found
        except TimeoutError:
            return _prospect(name, State.UNREACHABLE, f"no answer within {CLUSTER_TIMEOUT.total_seconds():g} s")
        except MultiKueueError as error:
            return self._without_a_look(name, str(error))

    async def _manager_says(self, name: str) -> Prospect | None:
        """Why its MultiKueueCluster takes no work; None if nothing there keeps it from work."""
        try:
            cluster: MultiKueueCluster = await self.manager.get(MULTIKUEUE_CLUSTERS, ObjectKey("", name))
        except ApiError as error:
            if name in self.told:
                return self.told[name]
            if isinstance(error, NotFound):
                return _prospect(name, State.UNREACHABLE, "there is no MultiKueueCluster of its name")
            if name not in self.known():
                self.unseen.append(f"state of {name}: {error.message}")
            return None
        gone = away(cluster)
        if gone is not None or name == self.winner:
            return gone
        if is_cordoned(cluster) and name not in self.nominated:
            return _prospect(name, State.CORDONED)
        offered = namespaces_of(cluster)
        namespace = self.local.metadata.namespace
        if "" not in offered and namespace not in offered:
            return _prospect(name, State.CLOSED, f"it offers {', '.join(offered) or 'no namespace'}")
        return None

    def _without_a_look(self, name: str, why: str) -> Prospect:
        """The prospect on a worker without access."""
        if name in self.told:
            return self.told[name]
        if name == self.winner:
            return _prospect(name, State.HAS_IT)
        self.unseen.append(f"{name}: {why}")
        if name in self.known():
            return _prospect(name, State.NEVER, self.known()[name])
        return _prospect(name, State.WAITS if name in self.nominated else State.FORBIDDEN, "you cannot look there")

    async def _worker_says(self, name: str, worker: ReachableWorker) -> Prospect:
        if name == self.winner:
            return _prospect(name, State.HAS_IT)
        related = RelatedObjects(worker.client, self.local)
        kind = await related.unserved()
        if kind:
            return _prospect(name, State.LACKS_KIND, f"{kind} is not served there")
        copy = await related.copy()
        if copy is None:
            return await self._foresee(name, worker)
        lack = await self._lack(name, worker, copy)
        if lack:
            return _prospect(name, State.NEVER, lack)
        state, message = waiting(copy.condition(QUOTA_RESERVED))
        place = await self._place(name, worker, copy) if state is State.WAITS else 0
        return _prospect(name, state, message, place=place)

    async def _foresee(self, name: str, worker: ReachableWorker) -> Prospect:
        """What a worker without a copy could make of one."""
        namespace = queue_of(self.local).namespace
        try:
            local = (await worker.client.list(LOCAL_QUEUES, namespace=namespace)).items
            there = QueuesThere.of(local, (await worker.client.list(CLUSTER_QUEUES)).items)
        except Forbidden as error:
            self.unseen.append(f"queues of {name}: {error.message}")
            return _prospect(name, State.NOT_ASKED)
        return foresee(name, self.local, await self._needed(), there)

    async def _needed(self) -> list[Requests]:
        if self._pod_sets is None:
            ours = await read_policies(self.manager, (self.local.metadata.namespace,))
            self._pod_sets = requested(demand_by(ours, self.local, self.settings), self.local)
        return self._pod_sets

    async def _lack(self, name: str, worker: ReachableWorker, copy: Workload) -> str:
        """Why the worker can never take the copy, by the manager's own rules; empty if it may."""
        ceilings = Ceilings()
        try:
            local = (await worker.client.list(LOCAL_QUEUES, namespace=copy.metadata.namespace)).items
            ceilings.put(name, WorkerQueues.of(local, (await worker.client.list(CLUSTER_QUEUES)).items))
        except Forbidden as error:
            self.unseen.append(f"queues of {name}: {error.message}")
        return ceilings.lack(name, copy)

    async def _place(self, name: str, worker: ReachableWorker, copy: Workload) -> int:
        try:
            queues, workloads = (await worker.client.list(LOCAL_QUEUES)).items, await worker.client.list(WORKLOADS)
        except Forbidden as error:
            self.unseen.append(f"place on {name}: {error.message}")
            return 0
        found = lines(queues, workloads.items)
        return next((place for line in found.values() for place, each in enumerate(line, 1) if each.key == copy.key), 0)


async def _found(manager: ClusterClient, name: str) -> AdmissionCheck | None:
    """The check, if it is ours."""
    check: AdmissionCheck = await manager.get(ADMISSION_CHECKS, ObjectKey("", name))
    return check if check.spec.controller_name == CONTROLLER_NAME else None


def _prospect(
    cluster: str, state: State, message: str = "", *, place: int = 0, since: datetime | None = None
) -> Prospect:
    return Prospect(cluster=cluster, state=state.value, place=place, message=message, since=since)
