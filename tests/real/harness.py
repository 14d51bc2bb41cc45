"""The manager as the process users run, and a team's queue over three workers: one file, what the real tests share.

The manager is a subprocess (`multikueue run`), so it can be killed, frozen and limited like the real one; everything is
judged from the API servers, never from inside the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskStatus

from testbed import objects, queues
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind, eventually
from testbed.jobs import complete_job
from testbed.kubeconfig import dump
from testbed.objects import JOB, LOCAL_QUEUE, MULTIKUEUE_CLUSTER, WORKLOAD, Object
from testbed.proxy import Link
from testbed.timed_manager import command_for, variables

__all__ = [
    "QUICK",
    "Manager",
    "Starts",
    "Team",
    "Wins",
    "complaints",
    "logged",
    "played",
    "starts",
    "team",
    "wins",
    "writers",
]

QUICK: Mapping[str, str] = {
    "MULTIKUEUE_LOG__FORMAT": "json",
    "MULTIKUEUE_LOG__LEVEL": "debug",
    "MULTIKUEUE_QUOTA__REQUEUE_FIRST": "1s",
    "MULTIKUEUE_DISPATCH__GC_INTERVAL": "5s",
    "MULTIKUEUE_RETENTION__COPIES": "0s",
}
"""Settings of the tests: nobody waits a minute to see a retry, nor an hour until the copy of a finished job is gone."""

PATIENCE = 40.0
"""Seconds after which what did not happen never will: none of these is a measure, and a busy machine takes its time."""

End = Callable[[Client, str, str], Awaitable[object]]
"""What brings a job to its end: `complete_job` and the like."""


class Manager:
    """The manager process of a testbed. `settings` are environment variables on top of `QUICK`."""

    def __init__(
        self,
        bed: Testbed,
        *,
        command: tuple[str, ...] = (),
        access: Mapping[str, Any] | None = None,
        is_alone: bool = True,
        **settings: str,
    ) -> None:
        """`access` is the kubeconfig of another user than the administrator, or through a link. `command`: of another program
        that runs a manager. One that `is_alone` by the test's word does not ask whether another one acts, which takes 3 s after
        one that was killed."""
        self.bed = bed
        self.settings = dict(QUICK) | variables(settings)
        self.log = bed.folder / f"{unique('manager')}.log"
        self._command = command
        self._force = ("--force",) if is_alone else ()
        self._access = access
        self._kubeconfig = self.log.with_suffix(".kubeconfig")
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, **more: str) -> None:
        """Start it; `more` are environment variables of this start only."""
        self._began = self.log.stat().st_size if self.log.exists() else 0
        self._kubeconfig.write_bytes(dump(dict(self._access or self.bed.manager.kubeconfig())))
        settings = self.settings | more
        command = self._command or (*command_for(settings), "run")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *command, *self._force, "--kubeconfig", str(self._kubeconfig)],
                stdout=log,
                stderr=log,
                env={**os.environ, **settings},
                start_new_session=True,
            )

    async def ready(self, *, timeout: float = 60) -> None:
        """Waits until the process that was started last acts."""
        with anyio.fail_after(timeout):
            while not any(entry["event"] == "manager.ready" for entry in logged(self, offset=self._began)):
                assert self.alive, "it ended"
                await anyio.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL: nothing is tidied up."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; answers the exit code."""
        return self._end(signal.SIGTERM)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @asynccontextmanager
    async def reborn(self, **settings: str) -> AsyncIterator[Manager]:
        """Run with other settings for as long as the block lasts, however often it is started in there."""
        before = self.settings
        self.kill()
        self.settings = before | variables(settings)
        self.start()
        try:
            yield self
        finally:
            self.kill()
            self.settings = before
            self.start()

    async def ended(self) -> None:
        """Waits until it has died by itself."""
        while self.alive:  # noqa: ASYNC110
            await anyio.sleep(0.02)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Manager]:
        self.start()
        try:
            yield self
        except BaseException as error:
            error.add_note(f"the manager's log ends with:\n{self.tail()}")
            raise
        finally:
            self.kill()


@dataclass(slots=True)
class Team:
    """One namespace with a queue that is dispatched to all workers, each through a link of its own.

    `clients` are administrators of the clusters that see them directly, whatever the links do. Workers are called by the
    names of their planes; the MultiKueueCluster of one is `NAMESPACE-worker1`.
    """

    bed: Testbed
    namespace: str
    manager: Client
    clients: dict[str, Client]
    links: dict[str, Link]
    names: list[str] = field(default_factory=list)

    def cluster(self, worker: str) -> str:
        return f"{self.namespace}-{worker}"

    def worker_of(self, cluster: str) -> str:
        return cluster.removeprefix(f"{self.namespace}-")

    async def submit(self, name: str = "job", **more: Any) -> Object:
        """A job as the webhook would leave it: suspended and managed by us."""
        body = objects.job(name, self.namespace, **({"managed_by": objects.MULTIKUEUE_CONTROLLER} | more))
        return await self.manager.create(body)

    async def job(self, name: str = "job") -> Object:
        return await self.manager.get(JOB, name, self.namespace)

    async def workload(self, name: str = "job") -> Object:
        """The local workload of a job; not that of an earlier job of the same name, which may be about to go. Its status is
        empty before anybody has looked at it."""
        found = {
            owner["uid"]: body
            for body in await self.manager.list(WORKLOAD, self.namespace)
            for owner in body["metadata"].get("ownerReferences") or []
            if owner["name"] == name
        }
        uid = next(iter(found), "") if len(found) < 2 else (await self.job(name))["metadata"]["uid"]
        assert uid in found, f"no workload of job {name}"
        return {"status": {}, **found[uid]}

    async def condition(self, type_: str, name: str = "job") -> Object | None:
        return objects.condition(await self.workload(name), type_)

    async def is_true(self, type_: str, name: str = "job") -> bool:
        condition = await self.condition(type_, name)
        return condition is not None and condition["status"] == "True"

    async def check(self, name: str = "job") -> Object:
        """Our admission check's state on a workload."""
        checks = (await self.workload(name)).get("status", {}).get("admissionChecks") or []
        ours = [c for c in checks if c["name"] == self.namespace]
        assert ours, f"our check is not among {checks}"
        return ours[0]  # type: ignore[no-any-return]

    async def winner(self, name: str = "job", *, timeout: float = PATIENCE) -> str:
        """The worker that won, once one has: its plane's name."""

        async def decided() -> str | None:
            found: str | None = (await self.workload(name)).get("status", {}).get("clusterName")
            return found

        return self.worker_of(await eventually(decided, timeout=timeout))

    async def copies(self, name: str = "job") -> dict[str, Object]:
        """The copies of a workload, by worker."""
        local = (await self.workload(name))["metadata"]["name"]
        found = {w: await c.find(WORKLOAD, local, self.namespace) for w, c in self.clients.items()}
        return {worker: body for worker, body in found.items() if body is not None}

    async def remote_jobs(self, name: str = "job") -> dict[str, Object]:
        """The jobs of that name on the workers, by worker."""
        found = {w: await c.find(JOB, name, self.namespace) for w, c in self.clients.items()}
        return {worker: body for worker, body in found.items() if body is not None}

    async def runs_on(self, name: str = "job", *, timeout: float = PATIENCE) -> str:
        """The one worker whose job runs, once it does."""

        async def running() -> str | None:
            jobs = await self.remote_jobs(name)
            started = [worker for worker, body in jobs.items() if not body["spec"].get("suspend")]
            assert len(started) <= 1, f"runs on {started}"
            return started[0] if started else None

        return await eventually(running, timeout=timeout)

    async def complete(self, worker: str, name: str = "job") -> None:
        await complete_job(self.clients[worker], self.namespace, name)

    async def finished(self, name: str = "job", *, timeout: float = PATIENCE) -> Object:
        """The local job, once it and its workload are finished and nothing of it is left on any worker."""

        async def over() -> Object | None:
            assert await self.is_true("Finished", name), "the workload is not finished"
            body = await self.job(name)
            ended = [c["type"] for c in body["status"].get("conditions") or [] if c["status"] == "True"]
            assert {"Complete", "Failed"} & set(ended), "the job is not finished"
            return body

        body = await eventually(over, timeout=timeout)
        await self.clean(name, timeout=timeout)
        return body

    async def submit_all(self, names: Sequence[str], *, at_once: int = 12) -> None:
        """Submit jobs, so many calls at a time."""
        waiting = iter(names)

        async def submitter() -> None:
            for name in waiting:
                await self.submit(name)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(at_once, len(names))):
                tasks.start_soon(submitter)

    async def counts(self, kind: Kind, name: str, **expected: int) -> bool:
        """Fails unless the status of that queue has these counts."""
        body = await self.manager.get(kind, name, self.namespace if kind == LOCAL_QUEUE else None)
        found = {field: body.get("status", {}).get(field, 0) for field in expected}
        assert found == expected
        return True

    async def all_over(self, *, timeout: float = 60) -> dict[str, str]:
        """How each job of the namespace ended (Complete or Failed), once all have, with their workloads, and nothing is
        left on any worker."""

        async def over() -> dict[str, str]:
            jobs = await self.manager.list(JOB, self.namespace)
            ends = {body["metadata"]["name"]: _end(body) for body in jobs}
            running = sorted(name for name, end in ends.items() if not end)
            assert not running, f"{len(running)} jobs are not finished: {running[:5]}"
            workloads = await self.manager.list(WORKLOAD, self.namespace)
            unfinished = [body["metadata"]["name"] for body in workloads if not _is_finished(body)]
            assert not unfinished, f"{len(unfinished)} workloads are not finished: {unfinished[:5]}"
            for worker, client in self.clients.items():
                for kind in (JOB, WORKLOAD):
                    left = await client.list(kind, self.namespace, labels=f"{ORIGIN_LABEL}={ORIGIN}")
                    assert not left, f"{len(left)} of {kind.kind} are left on {worker}"
            return ends

        return await eventually(over, timeout=timeout, interval=0.3)

    async def clean(self, name: str = "job", *, timeout: float = PATIENCE) -> None:
        """Waits until no worker holds anything of ours in this namespace with that job's name."""

        async def nothing() -> bool:
            for worker, client in self.clients.items():
                ours = f"{ORIGIN_LABEL}={ORIGIN}"
                left = await client.list(JOB, self.namespace, labels=ours)
                assert name not in [body["metadata"]["name"] for body in left], f"a job is left on {worker}"
                copies = await client.list(WORKLOAD, self.namespace, labels=ours)
                assert not [c for c in copies if f"job-{name}-" in c["metadata"]["name"]], f"a copy is left on {worker}"
            return True

        await eventually(nothing, timeout=timeout)

    async def gone(self, name: str = "job", *, timeout: float = PATIENCE) -> None:
        """Waits until nothing of a deleted job is left on any cluster."""

        async def nothing() -> bool:
            assert await self.manager.find(JOB, name, self.namespace) is None, "the job is still there"
            left = [body["metadata"]["name"] for body in await self.manager.list(WORKLOAD, self.namespace)]
            assert not [w for w in left if w.startswith(f"job-{name}-")], f"{left} are left"
            return True

        await eventually(nothing, timeout=timeout)
        await self.clean(name, timeout=timeout)

    async def stop(self, *workers: str, policy: str = "Hold") -> None:
        """Give the ClusterQueues of these workers, or of all, a stop policy: copies come, and nothing is admitted.

        It is in force when this returns: a Kueue that has yet to hear of it could admit what comes next.
        """
        await self._give(policy, *workers)
        for worker in workers or tuple(self.clients):
            await eventually(lambda w=worker: self.is_stopped(self.clients[w]))  # type: ignore[misc]

    async def go(self, *workers: str) -> None:
        """Undo `stop`."""
        await self._give("None", *workers)

    async def _give(self, policy: str, *workers: str) -> None:
        patch = {"spec": {"stopPolicy": policy}}
        for worker in workers or tuple(self.clients):
            await self.clients[worker].patch(objects.CLUSTER_QUEUE, self.namespace, patch)

    async def is_stopped(self, client: Client) -> bool:
        """Fails unless whoever gives the quota of this cluster's queue knows that it must give none."""
        body = await client.get(objects.CLUSTER_QUEUE, self.namespace)
        active = objects.condition(body, "Active")
        assert active is not None, "nobody looked at the queue yet"
        seen = active.get("observedGeneration"), active["status"], active["reason"]
        assert seen == (body["metadata"]["generation"], "False", "Stopped"), active
        return True

    async def waiting(
        self, count: int | None = None, name: str = "job", *, timeout: float = PATIENCE
    ) -> dict[str, Object]:
        """The copies of a workload by worker, once so many (or all) workers have one."""

        async def there() -> tuple[dict[str, Object]]:
            copies = await self.copies(name)
            assert len(copies) == (len(self.clients) if count is None else count), f"copies on {sorted(copies)}"
            return (copies,)

        return (await eventually(there, timeout=timeout))[0]

    async def told(self, kind: Kind, name: str) -> list[Object]:
        """The events about an object of the manager cluster."""
        found = await self.manager.list(EVENT, self.namespace)
        about = (kind.kind, name)
        return [e for e in found if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == about]

    async def active(
        self, worker: str, *, status: str = "True", message: str = "", timeout: float = PATIENCE
    ) -> Object:
        """The Active condition of a worker's MultiKueueCluster, once it has that status and that in its message."""

        async def has() -> Object | None:
            body = await self.manager.get(MULTIKUEUE_CLUSTER, self.cluster(worker))
            condition = objects.condition(body, "Active")
            found = condition is not None and condition["status"] == status and message in condition["message"]
            return condition if found else None

        return await eventually(has, timeout=timeout)

    async def all_active(self, manager: Manager | None = None) -> None:
        """Waits until all workers are connected; a `manager` that ends meanwhile is an error at once."""

        async def connected(worker: str) -> Object:
            if manager is not None and not manager.alive:
                raise RuntimeError("the manager has ended")
            return await self.active(worker, timeout=0)

        for worker in self.links:
            await eventually(lambda w=worker: connected(w), timeout=40)  # type: ignore[misc]


def _end(job: Object) -> str:
    ends = [c["type"] for c in job.get("status", {}).get("conditions") or [] if c["status"] == "True"]
    return next((end for end in ("Complete", "Failed") if end in ends), "")


def _is_finished(workload: Object) -> bool:
    finished = objects.condition(workload, "Finished")
    return finished is not None and finished["status"] == "True"


EVENT = Kind("v1", "Event")
ORIGIN = "multikueue"
ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"


@asynccontextmanager
async def team(
    bed: Testbed,
    *,
    workers: int | None = None,
    quota: Mapping[str, str] | None = None,
    tokens: Mapping[str, str] | None = None,
) -> AsyncIterator[Team]:
    """A namespace of its own with everything it needs; afterwards its clusters are taken from the manager again.

    `tokens` are the manager's credentials by worker; it is an administrator of the others.
    """
    namespace, planes = unique("team"), bed.workers[:workers]
    links = {plane.name: bed.link(plane) for plane in planes}
    amounts = quota or objects.DEFAULT_QUOTA
    await queues.workers_setup(planes, namespace=namespace, quota=amounts)
    configs = {
        plane.name: plane.kubeconfig(server=links[plane.name].url, token=(tokens or {}).get(plane.name))
        for plane in planes
    }
    await queues.manager_setup(bed.manager, configs, namespace=namespace, quota=amounts)
    async with bed.manager.client() as manager, anyio.create_task_group():
        clients: dict[str, Client] = {}
        try:
            for plane in planes:
                clients[plane.name] = await plane.client().__aenter__()
            yield Team(bed, namespace, manager, clients, links)
        finally:
            with anyio.CancelScope(shield=True):
                for link in links.values():
                    link.ok()
                async with anyio.create_task_group() as tasks:
                    # On the workers too: their pods would keep others from small nodes.
                    for client in (manager, *clients.values()):
                        for body in await client.list(JOB, namespace):
                            tasks.start_soon(client.delete, JOB, body["metadata"]["name"], namespace)
                for worker in links:
                    await manager.delete(MULTIKUEUE_CLUSTER, f"{namespace}-{worker}")
                for client in clients.values():
                    await client.__aexit__(None, None, None)


def writers(body: Object) -> set[str]:
    """Who changed an object, by the names of their programs: a cluster's own Job controller may, too."""
    return {entry["manager"] for entry in body["metadata"]["managedFields"]}


def logs_of(manager: Manager) -> str:
    return Path(manager.log).read_text(errors="replace")


def logged(manager: Manager, *, offset: int = 0) -> list[Object]:
    """What the manager logged from that size of its log on. A line that is being written is left out, and one cut off by
    its death, with what the next process wrote behind that."""
    text = manager.log.read_bytes()[offset:].decode(errors="replace")
    return [*_entries(line for line in text.split("\n")[:-1] if line.startswith("{"))]


def _entries(lines: Iterable[str]) -> Iterator[Object]:
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def complaints(manager: Manager, *levels: str, offset: int = 0) -> list[Object]:
    """What it logged as an error (or at those levels). It must never log one because of what happens outside."""
    return [
        entry for entry in logged(manager, offset=offset) if entry.get("level") in (levels or ("error", "critical"))
    ]


@dataclass(slots=True)
class Starts:
    """Every job of a team that was ever allowed to run on a worker: job name to UID to worker, in the order of events.

    `made` tells where a job of a name was seen last, started or not. All of it is watched, not polled: what ran for a
    moment only is seen too.
    """

    team: Team
    runs: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    made: dict[str, str] = field(default_factory=dict)
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def follow(
        self,
        worker: str,
        on_start: Callable[[str, str], object] | None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        client = self.team.clients[worker]
        async for _, body in client.watch(JOB, self.team.namespace, on_list=task_status.started):
            meta = body["metadata"]
            self.made[meta["name"]] = worker
            if not body["spec"].get("suspend") and meta["uid"] not in self.runs[meta["name"]]:
                self.runs[meta["name"]][meta["uid"]] = worker
                if on_start is not None:
                    on_start(worker, meta["name"])
            self._news.set()
            self._news = anyio.Event()

    async def first(self, name: str = "job", *, timeout: float = PATIENCE) -> str:
        """The worker where a job started first, once it has."""
        return (await self.times(1, name, timeout=timeout))[0]

    async def times(self, count: int, name: str = "job", *, timeout: float = PATIENCE) -> list[str]:
        """Where a job started, once it has as often as that."""
        with anyio.fail_after(timeout):
            while len(self.runs[name]) < count:
                await self._news.wait()
        return list(self.runs[name].values())

    async def reach(self, count: int, *, timeout: float = 60) -> None:
        """Waits until so many jobs have started."""
        with anyio.move_on_after(timeout):
            while sum(map(bool, self.runs.values())) < count:
                await self._news.wait()
        assert sum(map(bool, self.runs.values())) >= count, f"fewer than {count} have started after {timeout:g} s"

    async def seen(self, name: str = "job", *, timeout: float = PATIENCE) -> str:
        """The worker that has a job of that name, as soon as one has it."""
        with anyio.fail_after(timeout):
            while name not in self.made:
                await self._news.wait()
        return self.made[name]

    async def settled(self) -> Starts:
        """Itself, once it has seen what had happened until now: it waits for the news of a job made for that purpose."""
        for client in self.team.clients.values():
            probe = unique("probe")
            await client.create(objects.job(probe, self.team.namespace, queue=None))
            await self.seen(probe)
            await client.delete(JOB, probe, self.team.namespace)
        return self

    def twice(self) -> dict[str, list[str]]:
        """The jobs that started more than once, and where."""
        return {name: list(runs.values()) for name, runs in self.runs.items() if len(runs) > 1}


@asynccontextmanager
async def starts(members: Team, on_start: Callable[[str, str], object] | None = None) -> AsyncIterator[Starts]:
    """Record a team's starts as long as the block lasts; `on_start(worker, job)` is told each at once."""
    record = Starts(members)
    async with anyio.create_task_group() as tasks:
        for worker in members.clients:
            await tasks.start(record.follow, worker, on_start)
        yield record
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def played(members: Team, *, after: float = 0.0, end: End = complete_job) -> AsyncIterator[Starts]:
    """Record starts, and bring each job that starts to its `end` so many seconds later: nodes and pods in one."""

    async def play(worker: str, name: str) -> None:
        await anyio.sleep(after)
        with contextlib.suppress(ApiError):  # removed meanwhile
            await end(members.clients[worker], members.namespace, name)

    async with anyio.create_task_group() as tasks:
        async with starts(members, lambda worker, name: tasks.start_soon(play, worker, name)) as record:
            yield record
        tasks.cancel_scope.cancel()


@dataclass(slots=True)
class Wins:
    """When each workload of a team got its winner: workload name to (seconds on our clock, worker), by a watch.

    Only jobs whose name begins with `prefix` count.
    """

    team: Team
    prefix: str = ""
    found: dict[str, tuple[float, str]] = field(default_factory=dict)
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def follow(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async for _, body in self.team.manager.watch(WORKLOAD, self.team.namespace, on_list=task_status.started):
            name, winner = body["metadata"]["name"], body.get("status", {}).get("clusterName")
            if winner and name not in self.found and name.startswith(f"job-{self.prefix}"):
                self.found[name] = (time.monotonic(), self.team.worker_of(winner))
                self._news.set()
                self._news = anyio.Event()

    async def reach(self, count: int, *, timeout: float = 60) -> None:
        """Waits until so many have a winner."""
        with anyio.move_on_after(timeout):
            while len(self.found) < count:
                await self._news.wait()
        assert len(self.found) >= count, f"only {len(self.found)} of {count} have a winner after {timeout:g} s"

    def pauses(self, since: float) -> list[float]:
        """The seconds without any admission, from `since` to the first, and from each to the next."""
        moments = sorted(moment for moment, _ in self.found.values())
        return [later - sooner for sooner, later in zip([since, *moments], moments, strict=False)]


@asynccontextmanager
async def wins(members: Team, prefix: str = "") -> AsyncIterator[Wins]:
    """Record a team's wins as long as the block lasts."""
    record = Wins(members, prefix)
    async with anyio.create_task_group() as tasks:
        await tasks.start(record.follow)
        yield record
        tasks.cancel_scope.cancel()
