"""Lets the nominal quotas of ClusterQueues follow those of their workers.

A worker is read once its queues have changed, which its connection watches (`QueueWatches`), and all are read at an interval:
time alone may change a quota, and a worker may refuse the watch. The decisions of `quota.capacity.following` are written. A
ClusterQueue follows only if configured to, and only the workers of such queues are watched and read. A worker that refuses
the read stays usable for everything else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import anyio
import msgspec

from multikueue.api.kinds import CLUSTER_QUEUES
from multikueue.api.kueue.queues import FOLLOW_ANNOTATION, ClusterQueue
from multikueue.api.meta import Condition, ObjectKey
from multikueue.api.multikueue.clusters import MultiKueueConfig, config_of, is_cordoned
from multikueue.controllers.quota.worker_queues import CORDONED, read_queues, rules_of, why_unread
from multikueue.controllers.reconcile.conditions import write_condition
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import (
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    MultiKueueError,
    NotLeading,
    Unauthorized,
)
from multikueue.kube.cluster_client import FIELD_MANAGER
from multikueue.quota.cache.budgets import INVALID_ANNOTATION
from multikueue.quota.capacity.following import (
    AUTOMATED,
    AUTOMATION,
    FollowedQuota,
    Rules,
    WorkerReserve,
    automation,
    follow,
    follow_problem,
    json_patch,
    reserve_of,
)
from multikueue.quota.capacity.offers import Feeders, Offer, Record, offer
from multikueue.runtime import DONE, Result, supervise
from multikueue.telemetry import get_logger

__all__ = ["SOONEST", "Capacity"]

log = get_logger()

FOLLOWED, UNKNOWN, UNWRITTEN = "CapacityFollowed", "CapacityUnknown", "CapacityNotFollowed"
"""Reasons of events."""

MOST_TRIES = 5
"""Decisions about one ClusterQueue in one look."""

SOONEST = timedelta(seconds=1)
"""Minimum time between two reads of one worker, however often its queues change."""

MANAGER = f"{FIELD_MANAGER}-capacity"
"""The field manager of nominal quotas, the only fields written here."""


@dataclass(slots=True)
class Capacity:
    """Owner of the records of the workers' quotas. `run` reads all workers forever, `reconcile` one of them, both on the
    leader only."""

    context: ReconcileContext
    _records: dict[str, Record] = field(default_factory=dict)
    _read_at: dict[str, datetime] = field(default_factory=dict)
    _told: dict[tuple[str, str], str] = field(default_factory=dict)
    _looking: anyio.Lock = field(default_factory=anyio.Lock)

    async def run(self) -> None:
        await supervise("capacity", self._follow)

    async def reconcile(self, worker: str) -> Result:
        """The worker of that name has other queues, or is reached or away now. Without a name: other ClusterQueues may follow,
        or other workers."""
        if worker and worker not in self.context.followed:
            return DONE
        last, now = self._read_at.get(worker), self.context.now()
        if last is not None and last <= now < last + SOONEST:
            return Result(again_after=last + SOONEST - now)
        await self.look(worker)
        return DONE

    async def _follow(self) -> None:
        while True:
            await self.look()
            with anyio.move_on_after(self.context.settings.capacity_follow.interval.total_seconds()):
                await self.context.settings.changed()

    async def look(self, worker: str | None = None) -> None:
        """Reads all workers of the ClusterQueues that follow, and adjusts the quotas of each such queue. If a `worker` is
        given, of those read before only that one is read again."""
        async with self._looking:
            await self._look(worker)

    async def _look(self, worker: str | None) -> None:
        rules = rules_of(self.context.settings.capacity_follow)
        following = {queue.metadata.name: reserve for queue, reserve in self._following(rules)}
        workers = {
            queue.metadata.name: self.context.store.clusters_for(self.context.store.queue_check(queue))
            for queue in self._queues(following)
        }
        followed = {name for each in workers.values() for name in each}
        self.context.followed.put(followed)
        await self._read(followed, again=worker)
        for queue in self._queues(workers):
            name = queue.metadata.name
            await self._until_written(
                queue, partial(self._adjust, workers=workers, rules=rules, reserve=following[name])
            )
        for queue in tuple(self.context.store.cluster_queues):
            if queue.metadata.name not in following:
                await self._until_written(queue, partial(self._tell_automation, offers=()))
        there = {queue.metadata.uid for queue in self.context.store.cluster_queues}
        self._told = {topic: said for topic, said in self._told.items() if topic[0] in there}

    async def _adjust(
        self, queue: ClusterQueue, *, workers: Mapping[str, tuple[str, ...]], rules: Rules, reserve: WorkerReserve
    ) -> None:
        """Decides about one queue, and writes that. Raises Conflict or Invalid if another client wrote the
        queue meanwhile."""
        offers = [self._offer(queue, worker, workers, rules) for worker in workers[queue.metadata.name]]
        told = self._automation(queue, offers)
        if told is None or told.status == "True" or not self._is_by_config(queue, rules):
            await self._carry_out(queue, follow(queue, offers, reserve=reserve))
        await self._tell_automation(queue, offers)

    async def _until_written(self, queue: ClusterQueue, write: Callable[[ClusterQueue], Awaitable[None]]) -> None:
        """Decides again, at once, about what others wrote meanwhile: a conflict is not worth a message. A client that writes
        all the time has the next look for it."""
        for _ in range(MOST_TRIES):
            try:
                await write(queue)
            except (Conflict, Invalid):
                seen = await self._present(queue)
                if seen is None or seen.metadata.uid != queue.metadata.uid:
                    return
                queue = seen
            else:
                return

    async def _present(self, queue: ClusterQueue) -> ClusterQueue | None:
        """The queue as it is now, read live; as it was seen last, if it cannot be read."""
        cache = self.context.store.cluster_queues
        with suppress(MultiKueueError):
            cache.upsert(await self.context.manager.get(CLUSTER_QUEUES, queue.key))
        return cache.get(queue.key)

    def _following(self, rules: Rules) -> Iterator[tuple[ClusterQueue, WorkerReserve]]:
        store = self.context.store
        for queue in store.cluster_queues:
            self._record(queue, INVALID_ANNOTATION, follow_problem(queue))
            reserve, check = reserve_of(queue, rules), store.queue_check(queue)
            if reserve is None and self._is_by_config(queue, rules):
                reserve = WorkerReserve()
            if reserve is not None and check is not None:
                yield queue, reserve
            elif reserve is not None and FOLLOW_ANNOTATION in queue.metadata.annotations:
                self._record(queue, UNKNOWN, "it has no MultiKueue check, so there are no workers to follow")

    def _config(self, queue: ClusterQueue) -> MultiKueueConfig | None:
        check = self.context.store.queue_check(queue)
        name = next(iter(config_of(check)), "") if check is not None else ""
        return self.context.store.configs.get(ObjectKey("", name))

    def _is_by_config(self, queue: ClusterQueue, rules: Rules) -> bool:
        """Whether the queue follows because its MultiKueueConfig says so, and for no other reason."""
        config = self._config(queue) if self.context.settings.capacity_follow.quota_management else None
        wanted = config is not None and config.spec.quota_management == AUTOMATED
        own = FOLLOW_ANNOTATION in queue.metadata.annotations and not follow_problem(queue)
        return wanted and not own and reserve_of(queue, rules) is None

    def _automation(self, queue: ClusterQueue, offers: Iterable[Offer]) -> Condition | None:
        """The condition to report; None if the feature is off, or nothing is dispatched."""
        is_on = self.context.settings.capacity_follow.quota_management
        has_check = self.context.store.queue_check(queue) is not None
        return automation(queue, self._config(queue), offers) if is_on and has_check else None

    async def _tell_automation(self, queue: ClusterQueue, offers: Iterable[Offer]) -> None:
        condition = self._automation(queue, offers)
        cache = self.context.store.cluster_queues
        queue = cache.get(queue.key) or queue
        if condition is None or not self.context.mandate.is_valid():
            return
        condition = msgspec.structs.replace(condition, observed_generation=queue.metadata.generation)
        try:
            await write_condition(self.context, CLUSTER_QUEUES, cache, queue, condition, self.context.now())
        except Conflict:
            raise
        except MultiKueueError as error:
            self._record(queue, UNWRITTEN, f"the condition {AUTOMATION} is not written: {error}")

    def _queues(self, names: Iterable[str]) -> Iterator[ClusterQueue]:
        """The present versions of the named queues, without those that are gone or being deleted."""
        found = (self.context.store.cluster_queues.get(ObjectKey("", name)) for name in sorted(names))
        return (queue for queue in found if queue is not None and queue.metadata.deletion_timestamp is None)

    def _offer(self, queue: ClusterQueue, worker: str, workers: Mapping[str, tuple[str, ...]], rules: Rules) -> Offer:
        return offer(
            queue,
            self._feeders(name for name, theirs in workers.items() if worker in theirs),
            self._records[worker],
            cluster=worker,
            flavors=rules.flavors,
            hold=rules.shrink_after,
            now=self.context.now(),
        )

    def _feeders(self, names: Iterable[str]) -> Feeders:
        local_queues = self.context.store.local_queues
        return {name: [queue.key for queue in local_queues.by("cluster_queue", name)] for name in names}

    # Workers.

    async def _read(self, workers: Iterable[str], *, again: str | None) -> None:
        now, rules, known = self.context.now(), self.context.settings.capacity_follow, self._records
        self._records = {name: known.get(name) or Record(now) for name in workers}
        due = {name for name in self._records if again in (None, name) or name not in known}
        kept = {name: at for name, at in self._read_at.items() if name in self._records}
        self._read_at = kept | dict.fromkeys(due, now)
        async with anyio.create_task_group() as tasks:
            for name, record in self._records.items():
                record.forget(rules.shrink_after, now)
                if name in due:
                    tasks.start_soon(self._read_one, name, record)

    async def _read_one(self, name: str, record: Record) -> None:
        """Reads one worker, in its own task: a slow or failed read does not hold up those of the others."""
        client, cluster = self.context.clients.get(name), self.context.store.clusters.get(ObjectKey("", name))
        if cluster is not None and is_cordoned(cluster):
            record.missed(self.context.now(), CORDONED)
            return
        worker = self.context.store.worker(name)
        if client is None or not worker.link.is_connected:
            record.missed(self.context.now())
            return
        try:
            queues = await read_queues(client, worker.watch_scope.namespaces)
        except (ClusterUnreachable, Unauthorized):
            record.missed(self.context.now())
        except MultiKueueError as error:
            record.refused(why_unread(error))
        else:
            record.saw(queues, self.context.now())

    # ClusterQueues.

    async def _carry_out(self, queue: ClusterQueue, decision: FollowedQuota) -> None:
        problem = decision.problem and f"nominal quotas stay as they are: {decision.problem}"
        self._record(queue, UNKNOWN, "; ".join(filter(None, (problem, *decision.notes))))
        self._record(queue, UNWRITTEN, await self._write(queue, decision) if decision.changes else "")

    async def _write(self, queue: ClusterQueue, decision: FollowedQuota) -> str:
        """Writes the changes. Returns why they could not be written; empty if they were. Raises Conflict or
        Invalid if another client wrote the queue meanwhile."""
        name, changes = queue.metadata.name, "; ".join(map(str, decision.changes))
        if self.context.settings.capacity_follow.dry_run:
            if self._is_news(queue, "dry run", changes):
                log.info("capacity.would_follow", cluster_queue=name, changes=changes)
            return ""
        operations = json_patch(queue, decision.changes)
        try:
            written = await self.context.manager.json_patch(CLUSTER_QUEUES, queue.key, operations, manager=MANAGER)
        except NotLeading:
            return ""  # the new leader reads the workers itself
        except Conflict:
            raise
        except Invalid as error:  # also a test of the patch that does not hold
            seen = await self._present(queue)
            if seen is not None and seen.spec != queue.spec:
                raise
            return f"{changes}: not written: {error}"
        except Forbidden as error:
            return f"{changes}: not written: {error.message}: grant deploy/components/capacity-follow"
        except MultiKueueError as error:
            return f"{changes}: not written: {error}"
        self.context.store.cluster_queues.upsert(written)
        log.info("capacity.followed", cluster_queue=name, changes=changes)
        self.context.recorder.emit(CLUSTER_QUEUES, queue, type_="Normal", reason=FOLLOWED, message=changes)
        return ""

    def _record(self, queue: ClusterQueue, reason: str, message: str) -> None:
        """Warns, if the message is news."""
        if self._is_news(queue, reason, message):
            log.warning("capacity.unclear", cluster_queue=queue.metadata.name, why=message)
            self.context.recorder.emit(CLUSTER_QUEUES, queue, type_="Warning", reason=reason, message=message)

    def _is_news(self, queue: ClusterQueue, topic: str, message: str) -> bool:
        """Whether the message differs from the last one of its topic; an empty one is no news."""
        said, self._told[queue.metadata.uid, topic] = self._told.get((queue.metadata.uid, topic), ""), message
        return message not in ("", said)
