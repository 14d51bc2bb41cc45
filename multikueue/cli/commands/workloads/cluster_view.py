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
from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED, Workload
from multikueue.api.meta import ObjectKey
from multikueue.cli.access.worker_access import ReachableWorker
from multikueue.cli.commands.workloads import events
from multikueue.cli.commands.workloads.pods import status as pod_status
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.progress import spinner
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
        """Cluster, role, newest condition of the copy, job, pods, message."""
        if not self.is_seen:
            return self.cluster, self.role, "?", "?", self._counted() or "?", "; ".join(self.problems)
        state, said = _newest(self.copy) if self.copy else ("none", "")
        job = f"{self.job['kind'].lower()}/{self.job['metadata']['name']}" if self.job else ""
        return self.cluster, self.role, state, job, self._counted(), "; ".join(filter(None, [said, *self.problems]))

    def _counted(self) -> str:
        counts = Counter(pod_status(pod) for pod in self.pods)
        return ", ".join(f"{number} {name}" for name, number in counts.items())


def _newest(copy: Workload) -> tuple[str, str]:
    """How far Kueue there has come with the copy: a condition, and its message."""
    found = next((each for each in (FINISHED, EVICTED, ADMITTED, QUOTA_RESERVED) if copy.has(each)), None)
    told = copy.condition(found or QUOTA_RESERVED)
    return found or "waits", told.message if told else ""


async def look_around(session: WorkloadSession) -> list[ClusterView]:
    """Views of the cluster where the workload is, else of those where its copies wait; read concurrently."""
    state = session.workload.status
    roles = dict.fromkeys(state.nominated_cluster_names, "nominated")
    roles |= {state.cluster_name: "winner"} if state.cluster_name else {}
    views = [ClusterView(cluster=name, role=role) for name, role in roles.items()]
    # A context option belongs to one cluster: among several it is not clear to which.
    if len(views) > 1:
        session = replace(session, reach=replace(session.reach, context=None, kubeconfig=None))
    async with spinner(f"asking {len(views)} clusters"), anyio.create_task_group() as tasks:
        for view in views:
            tasks.start_soon(_look, session, view)
    return views


async def _look(session: WorkloadSession, view: ClusterView) -> None:
    await _condition(session, view)
    try:
        with anyio.fail_after(CLUSTER_TIMEOUT.total_seconds()):
            async with session.reach.connect(session.manager, view.cluster) as worker:
                await _look_there(session.workload, worker, view)
    except TimeoutError:
        view.problems.append(f"no answer within {CLUSTER_TIMEOUT.total_seconds():g} s")
    except CommandFailed as error:
        if not await _look_by_the_manager(session, view):
            view.problems.append(str(error))
    except MultiKueueError as error:
        view.problems.append(str(error))


async def _look_by_the_manager(session: WorkloadSession, view: ClusterView) -> bool:
    """Whether the manager shows pods and events of the winner, to a user without access to it."""
    if view.role != "winner":
        return False
    try:
        async with session.winner() as shown:
            view.pods = [pod for _, pod in await shown.pods()]
            unseen = shown.unseen
            found = await shown.events()
    except MultiKueueError:
        return False
    view.told = [events.LocatedEvent(shown.cluster, event, item) for item, event in found]
    view.problems += ["by the manager, which shows neither copy nor job", *dict.fromkeys([*unseen, *shown.unseen])]
    return True


async def _condition(session: WorkloadSession, view: ClusterView) -> None:
    """Notes as a problem that the manager has no connection, if the user may read that."""
    from multikueue.workload.nomination.prospects import away

    try:
        cluster = await session.manager.get(MULTIKUEUE_CLUSTERS, ObjectKey("", view.cluster))
    except ApiError:
        return
    gone = away(cluster)
    if gone is not None:
        view.problems.append(f"the manager has no connection: {gone.message}")


async def _look_there(workload: Workload, worker: ReachableWorker, view: ClusterView) -> None:
    related = RelatedObjects(worker.client, workload)
    view.copy = await _allowed(related.copy(), view, None)
    view.is_seen = True
    view.job = await related.job()
    if related.forbidden:
        view.problems.append(f"you may not read {', '.join(sorted(related.forbidden))} there")
    if view.role != "winner":
        return
    view.pods = [pod for _, pod in await _allowed(related.pods(), view, [])]
    view.told = await _allowed(events.at_worker(worker, related, workload.metadata.namespace), view, [])


async def _allowed(question: Awaitable[T], view: ClusterView, otherwise: T) -> T:
    try:
        return await question
    except Forbidden as error:
        view.problems.append(error.message)
        return otherwise
