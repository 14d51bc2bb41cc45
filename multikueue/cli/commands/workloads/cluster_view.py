"""The state of one workload on each of its clusters: copy, job, pods, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from multikueue.api.kubernetes.printed import PrintedPod
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.cli.access.worker_access import ReachableWorker
from multikueue.cli.commands.workloads import events
from multikueue.cli.commands.workloads.pods import status as pod_status
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.progress import spinner
from multikueue.cli.workload import description
from multikueue.cli.workload.related_objects import RelatedObjects
from multikueue.cli.workload.session import WorkloadSession
from multikueue.errors import ApiError, Forbidden, MultiKueueError

__all__ = ["ClusterView", "look_around"]

T = TypeVar("T")

CLUSTER_TIMEOUT = timedelta(seconds=10)
"""The time for one cluster: a user at a screen would rather see the others."""


@dataclass(slots=True, kw_only=True)
class ClusterView:
    """The state on one cluster. `problems`: why it may be incomplete. `seen`: whether the cluster answered at all."""

    cluster: str
    role: str
    is_seen: bool = False
    copy: Workload | None = None
    job: dict[str, Any] | None = None
    pods: list[PrintedPod] = field(default_factory=list)
    told: list[events.LocatedEvent] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        """Cluster, role, state of the copy, job, pods, message."""
        if not self.is_seen:
            return self.cluster, self.role, "?", "?", self._counted() or "?", "; ".join(self.problems)
        said = [description.reason(self.copy)] if self.copy else []
        job = f"{self.job['kind'].lower()}/{self.job['metadata']['name']}" if self.job else ""
        state = description.status(self.copy) if self.copy else "none"
        return self.cluster, self.role, state, job, self._counted(), "; ".join(filter(None, [*said, *self.problems]))

    def _counted(self) -> str:
        counts = Counter(pod_status(pod) for pod in self.pods)
        return ", ".join(f"{number} {name}" for name, number in counts.items())


async def look_around(scene: WorkloadSession) -> list[ClusterView]:
    """Views of the cluster where the workload is, else of those where its copies wait; read concurrently."""
    state = scene.workload.status
    roles = dict.fromkeys(state.nominated_cluster_names, "nominated")
    roles |= {state.cluster_name: "winner"} if state.cluster_name else {}
    sights = [ClusterView(cluster=name, role=role) for name, role in roles.items()]
    # A context option belongs to one cluster: among several it is not clear to which.
    if len(sights) > 1:
        scene = replace(scene, reach=replace(scene.reach, context=None, kubeconfig=None))
    async with spinner(f"asking {len(sights)} clusters"), anyio.create_task_group() as tasks:
        for sight in sights:
            tasks.start_soon(_look, scene, sight)
    return sights


async def _look(scene: WorkloadSession, sight: ClusterView) -> None:
    await _condition(scene, sight)
    try:
        with anyio.fail_after(CLUSTER_TIMEOUT.total_seconds()):
            async with scene.reach.connect(scene.manager, sight.cluster) as worker:
                await _look_there(scene.workload, worker, sight)
    except TimeoutError:
        sight.problems.append(f"no answer within {CLUSTER_TIMEOUT.total_seconds():g} s")
    except CommandFailed as error:
        if not await _look_by_the_manager(scene, sight):
            sight.problems.append(str(error))
    except MultiKueueError as error:
        sight.problems.append(str(error))


async def _look_by_the_manager(scene: WorkloadSession, sight: ClusterView) -> bool:
    """Whether the manager shows pods and events of the winner, to a user without access to it."""
    if sight.role != "winner":
        return False
    try:
        async with scene.winner() as view:
            sight.pods = [pod for _, pod in await view.pods()]
            unseen = view.unseen
            found = await view.events()
    except MultiKueueError:
        return False
    sight.told = [events.LocatedEvent(view.cluster, event, item) for item, event in found]
    sight.problems += ["by the manager, which shows neither copy nor job", *dict.fromkeys([*unseen, *view.unseen])]
    return True


async def _condition(scene: WorkloadSession, sight: ClusterView) -> None:
    """Notes as a problem that the manager has no connection, if the user may read that."""
    try:
        cluster = await scene.manager.get(MULTIKUEUE_CLUSTERS, ObjectKey("", sight.cluster))
    except ApiError:
        return
    active = find_condition(cluster.status.conditions, ACTIVE)
    if active is not None and active.status != "True":
        sight.problems.append(f"the manager has no connection: {active.message or active.reason}")


async def _look_there(workload: Workload, worker: ReachableWorker, sight: ClusterView) -> None:
    kin = RelatedObjects(worker.client, workload)
    sight.copy = await _allowed(kin.copy(), sight, None)
    sight.is_seen = True
    sight.job = await kin.job()
    if kin.hidden:
        sight.problems.append(f"you may not read {', '.join(sorted(kin.hidden))} there")
    if sight.role != "winner":
        return
    sight.pods = [pod for _, pod in await _allowed(kin.pods(), sight, [])]
    sight.told = await _allowed(events.at_worker(worker, kin, workload.metadata.namespace), sight, [])


async def _allowed(question: Awaitable[T], sight: ClusterView, otherwise: T) -> T:
    try:
        return await question
    except Forbidden as error:
        sight.problems.append(error.message)
        return otherwise
