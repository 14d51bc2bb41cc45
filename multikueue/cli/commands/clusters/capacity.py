"""Capacity of the workers for the manager's ClusterQueues: read concurrently, shown as rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any

import anyio
import msgspec

from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.multikueue.clusters import is_cordoned
from multikueue.api.values import quantity
from multikueue.cli.access.worker_clusters import WorkerCluster
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.nearest import there_are
from multikueue.cli.terminal.output import Column, PrintedList
from multikueue.controllers.quota.worker_queues import CORDONED, read_queues, why_unread
from multikueue.errors import ClusterUnreachable, MultiKueueError
from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.capacity.following import Figure, FollowedQuota, Rules, follow, follow_problem, reserve_of
from multikueue.quota.capacity.offers import Feeders, Record, offer
from multikueue.registration.preflight import Routes, routes
from multikueue.store.workers.watch_scope import namespaces_of

__all__ = ["Outlook", "Survey", "listing", "survey"]

AT_ONCE = timedelta(0)
"""No hold time: the command sees one moment only, so capacity that is away now counts as zero."""

COLUMNS = (
    Column("CLUSTERQUEUE"),
    Column("FLAVOR"),
    Column("RESOURCE"),
    Column("FOLLOWS"),
    Column("NOW"),
    Column("WORKERS"),
    Column("RESERVE"),
    Column("WOULD BE"),
    Column("WHY", is_wide=True),
    Column("BY WORKER", is_wide=True),
)

Connect = Callable[[str, bytes], AbstractAsyncContextManager[ClusterClient]]


class Outlook(msgspec.Struct, frozen=True):
    """A ClusterQueue with a MultiKueue check: whether it follows its workers, and the quotas it gets, or would get."""

    queue: str
    is_followed: bool
    decision: FollowedQuota


class Survey(msgspec.Struct, frozen=True):
    """All outlooks. `unread`: workers that could not be read. `problems`: invalid annotations."""

    outlooks: tuple[Outlook, ...]
    unread: tuple[str, ...]
    problems: tuple[str, ...] = ()

    def of(self, queue: str | None) -> Survey:
        """The survey of one ClusterQueue, or of all. Raises CommandFailed for an unknown name."""
        found = tuple(each for each in self.outlooks if queue in (None, each.queue))
        if queue is not None and not found:
            known = there_are(queue, (each.queue for each in self.outlooks))
            raise CommandFailed(f"there is no ClusterQueue {queue!r} with a MultiKueue check; {known}")
        return Survey(found, self.unread, self.problems)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Capacity that does not count, and why, by ClusterQueue."""
        said = (f"{each.queue}: {text}" for each in self.outlooks for text in _reasons(each.decision))
        return (*self.problems, *said)


def _reasons(decision: FollowedQuota) -> tuple[str, ...]:
    return (decision.problem, *decision.notes) if decision.problem else decision.notes


async def survey(
    manager: ClusterClient, members: Sequence[WorkerCluster], *, connect: Connect, rules: Rules, moment: datetime
) -> Survey:
    """Read the workers of all ClusterQueues with a MultiKueue check, including queues that do not follow."""
    way = await routes(manager)
    fleet = _Fleet(way, rules, moment)
    await fleet.read(members, connect)
    queues = sorted(way.cluster_queues, key=lambda queue: queue.metadata.name)
    return Survey(
        tuple(fleet.outlook(queue) for queue in queues if queue.metadata.name in fleet.workers),
        tuple(sorted(fleet.unread)),
        tuple(filter(None, map(follow_problem, queues))),
    )


class _Fleet:
    """The workers of all ClusterQueues, as they are at one moment."""

    def __init__(self, way: Routes, rules: Rules, moment: datetime) -> None:
        self._way, self._rules, self._moment = way, rules, moment
        found = ((queue.metadata.name, way.clusters_of(queue)) for queue in way.cluster_queues)
        self.workers = {name: clusters for name, clusters in found if clusters is not None}
        self.records = {name: Record(moment) for clusters in self.workers.values() for name in clusters}
        self.unread: set[str] = set()
        self._following = {queue.metadata.name for queue in way.cluster_queues if reserve_of(queue, rules) is not None}

    async def read(self, members: Sequence[WorkerCluster], connect: Connect) -> None:
        """Reads the workers concurrently: one that hangs delays only the end."""
        known = {member.name: member for member in members}
        async with anyio.create_task_group() as tasks:
            for name, record in self.records.items():
                tasks.start_soon(self._read_one, known.get(name), record, connect)

    async def _read_one(self, member: WorkerCluster | None, record: Record, connect: Connect) -> None:
        if member is None:
            record.missed(self._moment, "has no MultiKueueCluster")
            return
        if is_cordoned(member.cluster):
            record.missed(self._moment, CORDONED)
            return
        if not member.kubeconfig:
            self._refused(member, record, member.problem)
            return
        try:
            check_worker_kubeconfig(member.kubeconfig)
            async with connect(member.name, member.kubeconfig) as worker:
                record.saw(await read_queues(worker, namespaces_of(member.cluster)), self._moment)
        except ClusterUnreachable as error:
            record.missed(self._moment, f"is away: {error.why}")
            self.unread.add(member.name)
        except MultiKueueError as error:
            self._refused(member, record, why_unread(error))

    def _refused(self, member: WorkerCluster, record: Record, why: str) -> None:
        record.refused(why)
        self.unread.add(member.name)

    def outlook(self, queue: ClusterQueue) -> Outlook:
        """A ClusterQueue that does not follow yet is shown as if it did."""
        name, rules = queue.metadata.name, self._rules
        offers = [
            offer(
                queue,
                self._feeders(worker, self._following | {name}),
                self.records[worker],
                cluster=worker,
                flavors=rules.flavors,
                hold=AT_ONCE,
                now=self._moment,
            )
            for worker in self.workers[name]
        ]
        reserve = reserve_of(queue, rules)
        decision = follow(queue, offers, reserve=reserve or rules.reserve)
        return Outlook(name, reserve is not None, decision)

    def _feeders(self, worker: str, queues: Collection[str]) -> Feeders:
        theirs = {name: clusters for name, clusters in self.workers.items() if name in queues and worker in clusters}
        return {
            name: [local.key for local in self._way.local_queues if local.spec.cluster_queue == name] for name in theirs
        }


def listing(found: Survey) -> PrintedList:
    """A row for each figure; `-o json` has one item for each ClusterQueue."""
    return PrintedList(
        columns=COLUMNS,
        rows=[_row(each, figure) for each in found.outlooks for figure in each.decision.figures],
        items=[_item(each) for each in found.outlooks],
        resource="clusterqueue.kueue.x-k8s.io",
        nothing="No ClusterQueue has a MultiKueue check.",
    )


def _row(outlook: Outlook, figure: Figure) -> tuple[str, ...]:
    by_worker = ", ".join(f"{name} {_shown(figure, amount)}" for name, amount in figure.workers.items())
    return (
        outlook.queue,
        figure.flavor,
        figure.resource,
        "yes" if outlook.is_followed else "no",
        _shown(figure, figure.nominal),
        _shown(figure, figure.total),
        _shown(figure, figure.reserve),
        _shown(figure, figure.wanted),
        figure.why,
        by_worker,
    )


def _item(outlook: Outlook) -> dict[str, Any]:
    decision = outlook.decision
    return {
        "metadata": {"name": outlook.queue},
        "follows": outlook.is_followed,
        "problem": decision.problem,
        "notes": list(decision.notes),
        "quotas": [_quota(figure) for figure in decision.figures],
    }


def _quota(figure: Figure) -> dict[str, Any]:
    return {
        "flavor": figure.flavor,
        "resource": figure.resource,
        "nominalQuota": _shown(figure, figure.nominal),
        "total": _shown(figure, figure.total),
        "reserve": _shown(figure, figure.reserve),
        "wanted": _shown(figure, figure.wanted),
        "workers": {name: _shown(figure, amount) for name, amount in figure.workers.items()},
        "why": figure.why,
    }


def _shown(figure: Figure, amount: int) -> str:
    return quantity.render(figure.resource, amount)
