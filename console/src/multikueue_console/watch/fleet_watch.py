"""The one watch behind all pages: follows what the kubeconfig may see, and keeps rows, counts and lines up to date."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from multikueue.answers.seen import SeenJob, of_job
from multikueue.api import kinds
from multikueue.api.kueue.workload import Workload, any_owner_of, queue_of
from multikueue.api.meta import ObjectKey
from multikueue.errors import Forbidden, NotFound
from multikueue.jobs.integrations.frameworks import known_kind
from multikueue.kube.reflector import Reflector
from multikueue_console.model.attempts import Attempt, folded
from multikueue_console.model.fleet import FleetPicture, picture_of
from multikueue_console.model.lines import lines_of, places_in
from multikueue_console.model.objects import SeenObjects, slim_job, slim_workload
from multikueue_console.model.stories import Story, story_of
from multikueue_console.model.tallies import Tally, merged
from multikueue_console.model.worker_figures import WorkerFigures
from multikueue_console.model.workloads import Observer, WorkloadRow
from multikueue_console.watch.feed import Feed
from multikueue_console.watch.tables import KeptTable

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from multikueue.api.kind import Kind
    from multikueue.jobs.framework.adapter import Adapter
    from multikueue.kube.cluster_client import WatchingClient
    from multikueue.runtime.clock import Clock

__all__ = ["FleetWatch", "scope_of"]

COALESCED = 0.1
"""Seconds in which changes are gathered after rows were computed. A change that comes alone waits for nothing."""

FIRST = 1.0
"""Seconds that rows may take before the first page is served; of 50,000 workloads the rest follows there."""

SLICE = 100
"""Rows that are computed between two turns of other tasks."""


LINED = 1.0
"""Seconds for which lines may be old: each page asks for places all the time."""


async def scope_of(client: WatchingClient, namespaces: Sequence[str], own: str) -> tuple[str, ...]:
    """The namespaces to watch: those that were named, else all (an empty name), else the `own` of the context. Raises Forbidden
    if workloads may not be listed there either."""
    for where in namespaces or ("", own):
        path = kinds.WORKLOADS.collection(where) if where else kinds.WORKLOADS.path()
        try:
            await client.request("GET", path, params={"limit": "1"})
        except Forbidden:
            if where:
                raise
            continue
        return tuple(namespaces) or (where,)
    raise AssertionError("the last one is returned or raises")


class FleetWatch:
    """What is seen of one manager cluster. `scope`: the namespaces that are watched, an empty name for all.

    `feed` has the rows; `version` grows with each change of anything. `health`: by plural, why a kind cannot be followed now; a
    kind that may not be listed is missing in `seen` and is no problem.
    """

    def __init__(self, client: WatchingClient, scope: Sequence[str], clock: Clock) -> None:
        self.feed, self.tallies, self.version = Feed(), dict[str, Tally](), 0
        self.scope, self.health = tuple(scope), dict[str, str]()
        self.changed = anyio.Event()
        self._client, self._clock = client, clock
        self._workloads = KeptTable[Workload, Workload](slim_workload, self._workload_changed)
        self._jobs: dict[str, SeenJob] = {}
        self._attempts: dict[ObjectKey, tuple[Attempt, ...]] = {}
        self.seen = SeenObjects(workloads=self._workloads.values, jobs=self._jobs, attempts=self._attempts)
        self._by_owner: dict[str, ObjectKey] = {}
        self._dirty: dict[ObjectKey, None] = {}
        self._work = anyio.Event()
        self._followed: set[str] = set()
        self._tasks: TaskGroup | None = None
        self._lines: tuple[int, dict[str, tuple[ObjectKey, ...]]] = (-1, {})
        self._lined_until = 0.0
        self._places: dict[str, dict[ObjectKey, int]] = {}

    # --- following ---

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follows until it is cancelled; started once workloads are there."""
        async with anyio.create_task_group() as self._tasks:
            shared = (
                (kinds.LOCAL_QUEUES, "local_queues"),
                (kinds.CLUSTER_QUEUES, "cluster_queues"),
                (kinds.COHORTS, "cohorts"),
                (kinds.ADMISSION_CHECKS, "checks"),
                (kinds.MULTIKUEUE_CONFIGS, "configs"),
                (kinds.MULTIKUEUE_CLUSTERS, "clusters"),
            )
            for kind, field in shared:
                self._tasks.start_soon(self._follow_shared, kind, field)
            reflectors = self._follow(kinds.WORKLOADS, self._workloads)
            self._follow_jobs("batch/v1", "Job")
            for each in reflectors:
                await each.synced.wait()
            with anyio.move_on_after(FIRST):
                await self._compute()
            self._work.set()
            self._tasks.start_soon(self._compute_on)
            task_status.started()

    def _follow(self, kind: Kind[Any], table: KeptTable[Any, Any]) -> list[Reflector[Any]]:
        assert self._tasks is not None, "it runs"
        where = self.scope if kind.namespaced else ("",)
        found = [
            Reflector(self._client, kind, table, on_state=partial(self._told, kind.plural), namespace=each)
            for each in where
        ]
        for each in found:
            self._tasks.start_soon(each.run)
        return found

    async def _follow_shared(self, kind: Kind[Any], field: str) -> None:
        """Follows a kind whose objects all are kept, unless it may not be listed."""
        if not await self._may_list(kind):
            return
        table = KeptTable[Any, Any](lambda item: item, partial(self._shared_changed, field))
        for each in self._follow(kind, table):
            await each.synced.wait()
        setattr(self.seen, field, table.values)
        self._touch_all()

    async def _may_list(self, kind: Kind[Any]) -> bool:
        where = self.scope[0] if kind.namespaced else ""
        path = kind.collection(where) if where else kind.path()
        while True:
            try:
                await self._client.request("GET", path, params={"limit": "1"})
            except (Forbidden, NotFound):
                return False
            except Exception as error:  # noqa: BLE001  # whatever it is, the next look may tell
                self._told(kind.plural, False, str(error))
                await self._clock.sleep(2.0)
            else:
                return True

    def _follow_jobs(self, api_version: str, kind: str) -> None:
        """Follows a kind of jobs, the first time that one of them has a workload."""
        name = f"{api_version}/{kind}"
        if name in self._followed:
            return
        self._followed.add(name)
        adapter = known_kind(api_version, kind)
        if adapter is not None and adapter.kind.plural and adapter.kind.plural != "pods" and self._tasks is not None:
            self._tasks.start_soon(self._follow_kind, adapter)

    async def _follow_kind(self, adapter: Adapter) -> None:
        if not await self._may_list(adapter.kind):
            return
        table = KeptTable[Any, Any](lambda job: slim_job(of_job(job, adapter)), self._job_changed)
        self._follow(adapter.kind, table)

    def _told(self, plural: str, is_healthy: bool, why: str) -> None:
        if is_healthy:
            self.health.pop(plural, None)
        else:
            self.health[plural] = why
        self.touch()

    def tell_figures(self, figures: Mapping[str, WorkerFigures], why: str = "") -> None:
        """Takes what the manager's metrics tell of its workers. `why`: they cannot be read, and why not."""
        if (figures, why) != (self.seen.figures, self.health.get("metrics", "")):
            self.seen.figures = figures
            self._told("metrics", not why, why)

    # --- changes ---

    def _workload_changed(self, key: ObjectKey, before: Workload | None, now: Workload | None) -> None:
        if now is None:
            self._attempts.pop(key, None)
        else:
            self._attempts[key] = folded(self._attempts.get(key, ()), now)
            owner = any_owner_of(now)
            if owner is not None:
                self._by_owner[owner.uid] = key
                self._follow_jobs(owner.api_version, owner.kind)
        self._touch(key)
        if before is not None and (now is None or now.metadata.uid != before.metadata.uid):
            self._forget(before)

    def _forget(self, workload: Workload) -> None:
        gone = self.feed.drop(workload.metadata.uid)
        if gone is not None:
            self.tallies[gone.namespace].remove(gone)
        for owner in workload.metadata.owner_references:
            self._by_owner.pop(owner.uid, None)
        self.touch()

    def _job_changed(self, _key: ObjectKey, before: SeenJob | None, now: SeenJob | None) -> None:
        for job in (before, now):
            if job is not None:
                self._jobs.pop(job.meta.uid, None)
        if now is not None:
            self._jobs[now.meta.uid] = now
        about = now or before
        if about is not None and about.meta.uid in self._by_owner:
            self._touch(self._by_owner[about.meta.uid])

    def _shared_changed(self, field: str, key: ObjectKey, before: Any, now: Any) -> None:
        self.touch()
        if getattr(self.seen, field) is None:
            return  # all are looked at once it is whole
        if field == "local_queues" and (before is None or now is None or before.spec != now.spec):
            self._touch_where(lambda each: queue_of(each) == key)
        elif field == "clusters":
            self._touch_where(lambda each: each.status.cluster_name == key.name)
        elif field == "checks":
            self._touch_where(lambda each: any(check.name == key.name for check in each.status.admission_checks))

    def _touch_where(self, concerns: Any) -> None:
        for key, each in self._workloads.values.items():
            if concerns(each):
                self._touch(key)

    def _touch_all(self) -> None:
        for key in self._workloads.values:
            self._touch(key)
        self.touch()

    def _touch(self, key: ObjectKey) -> None:
        self._dirty[key] = None
        self._work.set()

    def touch(self) -> None:
        self.version += 1
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    # --- rows ---

    async def _compute_on(self) -> None:
        while True:
            await self._work.wait()
            await self._compute()
            await anyio.sleep(COALESCED)

    async def _compute(self) -> None:
        """The rows of what has changed. What is left when it is cancelled stays to be done."""
        self._work = anyio.Event()
        while self._dirty:
            keys = [*islice(self._dirty, SLICE)]
            for key in keys:
                del self._dirty[key]
            self._put(keys)
            self.touch()
            await anyio.lowlevel.checkpoint()
        self.touch()

    def _put(self, keys: Iterable[ObjectKey]) -> None:
        observer = Observer(self.seen, self.now())
        for key in keys:
            workload = self._workloads.values.get(key)
            if workload is None:
                continue
            row = observer.row(workload)
            before = self.feed.put(row)
            if before is row:
                continue
            tally = self.tallies.setdefault(row.namespace, Tally())
            if before is not None:
                tally.remove(before)
            tally.add(row)

    # --- questions ---

    def now(self) -> datetime:
        return self._clock.now()

    def line(self, cluster_queue: str) -> tuple[ObjectKey, ...]:
        """Who waits in a ClusterQueue, in order."""
        if self._lines[0] != self.feed.number and self._clock.monotonic() >= self._lined_until:
            self._lines, self._places = (self.feed.number, lines_of(self.seen)), {}
            self._lined_until = self._clock.monotonic() + LINED
        return self._lines[1].get(cluster_queue, ())

    def place(self, row: WorkloadRow) -> int:
        """The place of a workload in its line, from 1 on; 0 if it waits in none."""
        line = self.line(row.cluster_queue)
        if row.cluster_queue not in self._places:
            self._places[row.cluster_queue] = places_in(line)
        return self._places[row.cluster_queue].get(ObjectKey(row.namespace, row.workload), 0)

    def picture(self, namespaces: Collection[str] | None, shared: Collection[str]) -> FleetPicture:
        """The fleet of who may see these namespaces (None: all) and the objects of the whole cluster with these plurals."""
        tallies = {name: each for name, each in self.tallies.items() if namespaces is None or name in namespaces}
        tally, observer = merged(tallies.values()), Observer(self.seen, self.now())
        stuck = []
        for uids in tally.stuck.values():
            row = self.feed.get(next(iter(uids)))
            found = self._workloads.values.get(ObjectKey(row.namespace, row.workload)) if row is not None else None
            if row is not None and found is not None:
                stuck.append((row, observer.answer(found), len(uids)))
        return picture_of(self._seen_by(namespaces, shared), tally, stuck)

    def _seen_by(self, namespaces: Collection[str] | None, shared: Collection[str]) -> SeenObjects:
        seen, local = self.seen, self.seen.local_queues
        if local is not None and namespaces is not None:
            local = {key: each for key, each in local.items() if key.namespace in namespaces}
        return SeenObjects(
            local_queues=local,
            cluster_queues=seen.cluster_queues if kinds.CLUSTER_QUEUES.plural in shared else None,
            cohorts=seen.cohorts if kinds.COHORTS.plural in shared else None,
            checks=seen.checks if kinds.ADMISSION_CHECKS.plural in shared else None,
            configs=seen.configs if kinds.MULTIKUEUE_CONFIGS.plural in shared else None,
            clusters=seen.clusters if kinds.MULTIKUEUE_CLUSTERS.plural in shared else None,
            figures=seen.figures,
        )

    def story(self, key: ObjectKey, told: Any = None) -> Story | None:
        """The story of a workload, with the manager's answer if that is `told`; None if there is no such workload."""
        workload = self._workloads.values.get(key)
        if workload is None:
            return None
        observer = Observer(self.seen, self.now())
        answer = told or observer.answer(workload)
        row = observer.row(workload, answer)
        attempts = self._attempts.get(key, ())
        return story_of(workload, row, answer, attempts, place=self.place(row), line=len(self.line(row.cluster_queue)))
