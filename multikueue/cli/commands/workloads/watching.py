"""`multikueue workloads list -w`: a row for each change of a job that is meant."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from multikueue.cli.access.connection import ContextChoice, now, with_kind
from multikueue.cli.access.following import follow
from multikueue.cli.commands.workloads.rows import (
    AGE,
    RUN_TIME,
    Selection,
    columns,
    refuse_unknown_filters,
    row,
)
from multikueue.cli.terminal.formats import Form, Format
from multikueue.cli.terminal.output import Ticker
from multikueue.cli.workload.overview import adapters_of, look_over, read_answers, read_places, read_warnings
from multikueue.cli.workload.seen import seen_job
from multikueue.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyio.abc import TaskGroup

    from multikueue.api.kind import Kind
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import Object
    from multikueue.api.multikueue.clusters import MultiKueueCluster
    from multikueue.cli.workload.overview import ListedJob, Overview
    from multikueue.kube.cluster_client import WatchingClient

__all__ = ["watch_jobs"]


async def watch_jobs(
    target: ContextChoice,
    namespace: str | None,
    choice: Selection,
    output: Form,
    *,
    has_headers: bool = True,
) -> None:
    """Prints the jobs, then each change; a job that leaves the selection is shown once more."""
    async with target.connect_in(namespace) as (client, meant), anyio.create_task_group() as tasks:
        where = "" if namespace == "" else meant
        await refuse_unknown_filters(client, choice, where)
        found = await look_over(client, where)
        watch = _Watch(client, found, choice, output, tasks, has_headers=has_headers)
        watch.tell(found.listed())
        watch.follow()
        await watch.run()


class _Watch:
    """Keeps an overview up to date, and yields what is new in the rows. Changes that come together are yielded together,
    with one read of places for each queue."""

    def __init__(
        self,
        client: WatchingClient,
        found: Overview,
        choice: Selection,
        output: Form,
        tasks: TaskGroup,
        *,
        has_headers: bool,
    ) -> None:
        self._client, self._found, self._choice, self._output = client, found, choice, output
        self._tasks = tasks
        self._ticker = Ticker(columns(found.where), output, headers=has_headers)
        self._shown: dict[tuple[str, str], tuple[ListedJob, tuple[str, ...]]] = {}
        self._changed, self._followed = set[str](), set[str]()
        self._gone: dict[str, tuple[str, str]] = {}
        self._news = anyio.Event()

    def follow(self) -> None:
        """Starts the watches."""
        from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, WORKLOADS

        self._follow_jobs(workload for _, workload in self._found.workloads.values())
        self._start(MULTIKUEUE_CLUSTERS, self._take_cluster, where="")
        workloads = partial(follow, self._client, WORKLOADS, self._found.where, self._take_workload)
        self._tasks.start_soon(partial(workloads, rest=self._rest))

    def _follow_jobs(self, workloads: Iterable[Workload]) -> None:
        for adapter in adapters_of(workloads):
            if adapter.kind.name not in self._followed:
                self._followed.add(adapter.kind.name)
                take = partial(self._take_job, adapter.kind)
                self._start(adapter.kind, take, where=self._found.where)

    def _start(self, kind: Kind[Any], take: Any, *, where: str) -> None:
        """Follows what the user may see, and lets the rest be."""

        async def run() -> None:
            try:
                await follow(self._client, kind, where, take, rest=self._rest)
            except ApiError:
                return

        self._tasks.start_soon(run)

    def _rest(self) -> None:
        self._news.set()

    async def _take_workload(self, workload: Workload, is_gone: bool) -> None:
        uid = workload.metadata.uid
        if is_gone:
            self._found.workloads.pop(uid, None)
            self._gone[uid] = (workload.metadata.namespace, self._found.of_workload(({}, workload)).name)
        else:
            self._found.workloads[uid] = ({}, workload)
            self._follow_jobs([workload])
        self._changed.add(uid)

    async def _take_job(self, kind: Kind[Any], job: Object, is_gone: bool) -> None:
        uid = job.metadata.uid
        if is_gone:
            self._found.jobs.pop(uid, None)
            self._gone[uid] = (job.metadata.namespace, f"{kind.kind.lower()}/{job.metadata.name}")
        else:
            tree = with_kind(kind, json.loads(msgspec.json.encode(job)))
            self._found.jobs[uid] = (tree, seen_job(tree))
        self._changed.add(uid)

    async def _take_cluster(self, cluster: MultiKueueCluster, is_gone: bool) -> None:
        self._found.take_cluster(cluster, is_gone=is_gone)
        on = cluster.metadata.name
        self._changed |= {uid for uid, (_, each) in self._found.workloads.items() if each.status.cluster_name == on}

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            changed, self._changed = self._changed, set[str]()
            self.tell(await self._look_at(changed))

    async def _look_at(self, changed: set[str]) -> list[ListedJob]:
        found = self._found
        owned = {
            owner.uid: uid for uid, (_, each) in found.workloads.items() for owner in each.metadata.owner_references
        }
        uids = dict.fromkeys(owned.get(uid, uid) for uid in sorted(changed))
        alone = set(found.without_workload()) & uids.keys()
        if alone:
            await read_warnings(self._client, found)
        pairs = [found.workloads[uid] for uid in uids if uid in found.workloads]
        await read_places(self._client, found, (workload for _, workload in pairs))
        await read_answers(self._client, found, (workload for _, workload in pairs))
        return [*map(found.of_workload, pairs), *map(found.of_job, alone)]

    def tell(self, jobs: Iterable[ListedJob]) -> None:
        """Prints what is new of these, and what is gone."""
        told = set[tuple[str, str]]()
        for job in jobs:
            key = (job.namespace, job.name)
            told.add(key)
            mine = self._choice.is_named(job) and self._choice.is_selected(job)
            if mine or key in self._shown:
                self._tell(key, job)
            if not mine:
                self._shown.pop(key, None)
        for key in dict.fromkeys(self._gone.values()):
            if key in self._shown and key not in told:
                self._tell(key, self._shown[key][0], is_gone=True)
                del self._shown[key]
        self._gone.clear()
        self._ticker.flush()

    def _tell(self, key: tuple[str, str], job: ListedJob, *, is_gone: bool = False) -> None:
        cells = row(job, self._found.where, now(), is_gone=is_gone)
        lasting = tuple(
            cell
            for cell, column in zip(cells, columns(self._found.where), strict=True)
            if column not in (RUN_TIME, AGE) and (self._output is Format.WIDE or not column.is_wide)
        )
        if key in self._shown and self._shown[key][1] == lasting:
            return
        self._shown[key] = (job, lasting)
        if self._output is Format.NAME:
            print(f"workload.kueue.x-k8s.io/{job.workload.metadata.name}" if job.workload else job.name, flush=True)
        else:
            self._ticker.add(cells)
