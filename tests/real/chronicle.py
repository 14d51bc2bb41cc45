"""The history of a team's jobs and workloads on all clusters, in the order in which it happened, and what must hold in it.

All control planes of a testbed write into one etcd, so the resource versions of all their objects are revisions of one
store: they tell what came before what, across kinds and clusters, to the last write. The history is watched, so
nothing is too short to be in it, and then replayed: after each change the rules are asked (contract 10: I1-I8).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskStatus

from fakekube.front_end.audit import Event
from testbed.audit import Mark
from testbed.client import Client, Kind, eventually
from testbed.contexts import Unsupported
from testbed.objects import JOB, WORKLOAD, Object, condition
from tests.real.harness import ORIGIN, ORIGIN_LABEL, Team

__all__ = ["AGENT", "HOME", "PREBUILT_LABEL", "Change", "Chronicle", "chronicle"]

AGENT = "multikueue"
"""The user agent of the manager in the audit logs."""

PREBUILT_LABEL = "kueue.x-k8s.io/prebuilt-workload-name"
HOME = "manager"
"""How the manager cluster is called among the workers' names."""

CHANGES = frozenset({"update", "patch", "delete"})
KINDS = {"jobs": JOB.kind, "workloads": WORKLOAD.kind}


@dataclass(frozen=True, slots=True)
class Change:
    """One object after one write; `body` is None when it is gone."""

    revision: int
    cluster: str
    kind: str
    name: str
    body: Object | None

    @property
    def key(self) -> Key:
        return self.cluster, self.kind, self.name


Key = tuple[str, str, str]


@dataclass(slots=True)
class Chronicle:
    """All changes seen so far."""

    team: Team
    changes: dict[tuple[Key, int], Change] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.team.bed.foreign:
            self.marks = {worker: self.team.bed.planes[worker].audit.mark() for worker in self.team.clients}

    @property
    def clusters(self) -> dict[str, Client]:
        return {HOME: self.team.manager, **self.team.clients}

    async def follow(
        self, cluster: str, client: Client, kind: Kind, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async for type_, body in client.watch(kind, self.team.namespace, on_list=task_status.started):
            meta = body["metadata"]
            gone = type_ == "DELETED"
            change = Change(int(meta["resourceVersion"]), cluster, kind.kind, meta["name"], None if gone else body)
            self.changes[change.key, change.revision] = change

    def story(self, *, cluster: str | None = None, kind: Kind | None = None, name: str | None = None) -> list[Change]:
        """The changes in order, perhaps only those of a cluster, of a kind, of a name."""
        wanted = (cluster, kind.kind if kind else None, name)
        found = (
            c for c in self.changes.values() if all(w is None or w == k for w, k in zip(wanted, c.key, strict=True))
        )
        return sorted(found, key=lambda change: change.revision)

    def first(self, holds: Callable[[Object], object], **where: object) -> int:
        """The revision of the first change that shows an object of which that holds; `where` as for `story`.

        Revisions of several clusters can be compared, since the testbed has one etcd for all.
        """
        self._needs_one_etcd()
        for change in self.story(**where):  # type: ignore[arg-type]
            if change.body is not None and holds(change.body):
                return change.revision
        raise AssertionError(f"never seen in {len(self.changes)} changes: {where}")

    def gone(self, **where: object) -> int:
        """The revision at which an object went."""
        self._needs_one_etcd()
        for change in self.story(**where):  # type: ignore[arg-type]
            if change.body is None:
                return change.revision
        raise AssertionError(f"never gone in {len(self.changes)} changes: {where}")

    def _needs_one_etcd(self) -> None:
        if self.team.bed.foreign:
            raise Unsupported("the testbed's etcd: it orders what happens on all clusters")

    async def complete(self) -> None:
        """Waits until the chronicle has all that had happened when this was called."""
        for cluster, client in self.clusters.items():
            for kind in (JOB, WORKLOAD):

                async def caught_up(cluster: str = cluster, client: Client = client, kind: Kind = kind) -> bool:
                    there = {_version(body) for body in await client.list(kind, self.team.namespace)}
                    latest = {c.name: c for c in self.story(cluster=cluster, kind=kind)}
                    known = {_version(c.body) for c in latest.values() if c.body is not None}
                    assert there == known, f"{cluster} has {there}, and known is {known}"
                    return True

                await eventually(caught_up)

    async def judge(self) -> None:
        """Raises AssertionError if a rule was broken at any time, or is not kept in the end."""
        await self.at_rest()
        await self.complete()
        self.replay()
        await self.nothing_foreign_was_touched()

    def replay(self) -> None:
        world = World(self.team)
        for change in self.story():
            before = world.now.get(change.key)
            world.apply(change)
            for rule in RULES_OF_ONE_CLUSTER if self.team.bed.foreign else RULES:
                problem = next(rule(world, change, before), None)
                assert problem is None, f"{rule.__name__.replace('_', ' ')}: {problem} (revision {change.revision})"

    async def at_rest(self) -> None:
        """I5 and I7: a workload that is finished, without quota or gone has nothing on any worker."""

        async def holds() -> bool:
            local = {b["metadata"]["name"]: b for b in await self.team.manager.list(WORKLOAD, self.team.namespace)}
            entitled = {n for n, b in local.items() if _is(b, "QuotaReserved") and not _is(b, "Finished")}
            for worker, client in self.team.clients.items():
                copies = await client.list(WORKLOAD, self.team.namespace, labels=f"{ORIGIN_LABEL}={ORIGIN}")
                names = {b["metadata"]["name"] for b in copies}
                jobs = await client.list(JOB, self.team.namespace, labels=f"{ORIGIN_LABEL}={ORIGIN}")
                names |= {_workload_of(b) for b in jobs}
                assert names <= entitled, f"{worker} still has something of {sorted(names - entitled)}"
            return True

        await eventually(holds, timeout=30)

    async def nothing_foreign_was_touched(self) -> None:
        """I6: whatever the manager changed or deleted on a worker bore our label there. What came and went just now may be
        in the audit log before it is in the story."""

        async def holds() -> bool:
            ours = {c.key for c in self.story() if c.body is not None and _is_ours(c.body)}
            for worker, mark in self.marks.items():
                audit = self.team.bed.planes[worker].audit
                for event in audit.events(mark, await audit.settled()):
                    touched = worker, KINDS.get(event.resource.partition("/")[0]), event.name
                    assert not self._is_a_change(event) or touched in ours, (
                        f"{event.verb} of {event.resource} {event.name}"
                    )
            return True

        await eventually(holds)

    def _is_a_change(self, event: Event) -> bool:
        """Whether the manager changed something of this team."""
        by_us = event.call.agent == AGENT and event.namespace == self.team.namespace
        return by_us and event.call.verb in CHANGES and event.code < 400


@dataclass(slots=True)
class World:
    """All objects at one moment of the replay."""

    team: Team
    now: dict[Key, Object] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        if change.body is None:
            self.now.pop(change.key, None)
        else:
            self.now[change.key] = change.body

    def find(self, cluster: str, kind: Kind, name: str) -> Object | None:
        return self.now.get((cluster, kind.kind, name))

    def check(self, workload: Object | None) -> str:
        checks = (workload or {}).get("status", {}).get("admissionChecks") or []
        return next((c["state"] for c in checks if c["name"] == self.team.namespace), "")


Rule = Callable[[World, Change, Object | None], Iterator[str]]


def one_worker_at_most_holds_the_job(world: World, change: Change, _: Object | None) -> Iterator[str]:
    """I1. A job that was recreated under its name has a workload of its own."""
    if change.kind == JOB.kind and change.cluster != HOME:
        jobs = {worker: world.find(worker, JOB, change.name) for worker in world.team.clients}
        workloads = {worker: _workload_of(body) for worker, body in jobs.items() if body is not None and _is_ours(body)}
        if len(set(workloads.values())) < len(workloads):
            yield f"{change.name} is on {workloads}"


def a_winner_was_nominated_and_ends_the_nomination(
    world: World, change: Change, before: Object | None
) -> Iterator[str]:
    """I2."""
    if change.kind != WORKLOAD.kind or change.cluster != HOME or change.body is None:
        return
    winner, nominated = _winner(change.body), _nominated(change.body)
    if winner and nominated:
        yield f"{winner} has won, and {nominated} are nominated"
    if winner and winner != _winner(before) and winner not in _nominated(before):
        yield f"{winner} has won and was not among the nominated {_nominated(before)}"


def ready_means_admitted_on_the_winner_and_its_job_made(
    world: World, change: Change, before: Object | None
) -> Iterator[str]:
    """I3 and I4. The worker may have evicted it since, and the news of that be on its way."""
    if change.kind != WORKLOAD.kind or change.cluster != HOME or change.body is None:
        return
    if world.check(change.body) != "Ready" or world.check(before) == "Ready":
        return
    winner = _winner(change.body)
    if not winner:
        yield "no winner is recorded"
        return
    worker = world.team.worker_of(winner)
    copy = world.find(worker, WORKLOAD, change.name)
    if copy is None or not (_is(copy, "Admitted") or _is(copy, "Evicted")):
        yield f"{worker} has not admitted its copy"
    owner = change.body["metadata"]["ownerReferences"][0]["name"]
    if world.find(worker, JOB, owner) is None:
        yield f"{worker} has no job yet"


def the_status_of_a_job_is_final_before_its_workload_is_finished(
    world: World, change: Change, before: Object | None
) -> Iterator[str]:
    """I8."""
    if change.kind != WORKLOAD.kind or change.cluster != HOME or change.body is None:
        return
    if _is(change.body, "Finished") and not (before and _is(before, "Finished")):
        owner = change.body["metadata"]["ownerReferences"][0]["name"]
        job = world.find(HOME, JOB, owner)
        if job is not None and not (_is(job, "Complete") or _is(job, "Failed")):
            yield f"the status of {owner} is not final"


RULES_OF_ONE_CLUSTER: tuple[Rule, ...] = (
    a_winner_was_nominated_and_ends_the_nomination,
    the_status_of_a_job_is_final_before_its_workload_is_finished,
)
RULES: tuple[Rule, ...] = (
    *RULES_OF_ONE_CLUSTER,
    one_worker_at_most_holds_the_job,
    ready_means_admitted_on_the_winner_and_its_job_made,
)


def _version(body: Object) -> tuple[str, str]:
    return body["metadata"]["name"], body["metadata"]["resourceVersion"]


def _is_ours(body: Object) -> bool:
    return bool((body["metadata"].get("labels") or {}).get(ORIGIN_LABEL) == ORIGIN)


def _workload_of(job: Object) -> str:
    return str(job["metadata"]["labels"][PREBUILT_LABEL])


def _is(body: Object, type_: str) -> bool:
    found = condition(body, type_)
    return found is not None and found["status"] == "True"


def _winner(workload: Object | None) -> str:
    return str((workload or {}).get("status", {}).get("clusterName") or "")


def _nominated(workload: Object | None) -> list[str]:
    return list((workload or {}).get("status", {}).get("nominatedClusterNames") or [])


@asynccontextmanager
async def chronicle(team: Team) -> AsyncIterator[Chronicle]:
    """Record the history of a team as long as the block lasts."""
    record = Chronicle(team)
    async with anyio.create_task_group() as tasks:
        for cluster, client in record.clusters.items():
            for kind in (JOB, WORKLOAD):
                await tasks.start(record.follow, cluster, client, kind)
        yield record
        tasks.cancel_scope.cancel()
