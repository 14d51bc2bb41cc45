"""The demo: a manager and Kueue workers on this machine, some jobs, and the story of each.

Everything happens as a user would do it: workers are registered with the CLI, the manager is `multikueue run` with its
webhook, the jobs carry nothing but the name of their queue. Only what needs nodes is played: a job that runs is
complete after a moment.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.abc

from testbed import objects, queues
from testbed.bed import Testbed
from testbed.client import Client, Kind, eventually
from testbed.jobs import complete_job
from testbed.kubeconfig import dump
from testbed.objects import JOB, WORKLOAD, Object
from testbed.ports import free_port
from testbed.process import Process, ProgramError

__all__ = ["Line", "Story", "run"]

NAMESPACE = "demo"
QUEUE = "main"
CLUSTER_QUEUE = "batch"
EVERYWHERE = "everywhere"
MANAGER = "manager"
RUN_SECONDS = 2.0
PATIENCE_SECONDS = 60
WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
WEBHOOK = "multikueue-manager"


# What happened, from the objects. Pure.


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened to one job; `at` is in seconds since the first submission."""

    at: float
    job: str
    text: str


@dataclass(slots=True)
class Chapter:
    """What is known of one job."""

    copies: list[str] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    winner: str = ""


@dataclass(slots=True)
class Story:
    """Turns changes of objects into lines: feed it with `see`; `rows` is the summary."""

    chapters: dict[str, Chapter] = field(default_factory=dict)
    _jobs: dict[str, str] = field(default_factory=dict)  # by the name of the workload, which the copies share

    def submitted(self, job: str, at: float) -> Line:
        self.chapters[job] = Chapter(times={"submitted": at})
        return Line(at, job, "submitted")

    def see(self, cluster: str, change: str, body: Object, *, at: float) -> list[Line]:
        """What a change of a Job or Workload in a cluster tells that was not told yet."""
        name = body["metadata"]["name"]
        if body["kind"] == JOB.kind:
            job, teller = name, self._local_job if cluster == MANAGER else self._remote_job
        else:
            job, teller = self._job_of(cluster, body), self._local if cluster == MANAGER else self._copy
        chapter = self.chapters.get(job)
        if chapter is None:
            return []
        texts = [text for text in teller(chapter, cluster, change, body) if text not in chapter.said]
        chapter.said.update(texts)
        for text in texts:
            _stamp(chapter, text, at)
        return [Line(at, job, text) for text in texts]

    def rows(self) -> list[list[str]]:
        """One row per job: where it ran, and seconds from submission to each step."""
        return [[job, chapter.winner or "-", *_times(chapter)] for job, chapter in self.chapters.items()]

    def _job_of(self, cluster: str, body: Object) -> str:
        name = body["metadata"]["name"]
        owners = body["metadata"].get("ownerReferences")
        if cluster == MANAGER and owners:
            self._jobs[name] = owners[0]["name"]
        return self._jobs.get(name, "")

    def _local(self, chapter: Chapter, _cluster: str, _change: str, body: Object) -> list[str]:
        status = body.get("status", {})
        texts = [QUEUED.format(body["metadata"]["name"])]
        reserved = objects.condition(body, "QuotaReserved")
        if reserved is not None:
            texts.append(RESERVED if reserved["status"] == "True" else f"waits in the queue: {reserved['message']}")
        if nominated := status.get("nominatedClusterNames"):
            texts.append(f"nominated: {', '.join(nominated)}")
        if won := status.get("clusterName"):
            chapter.winner = won
            texts.append(f"{won} is recorded as the winner: its copy was admitted first")
        if finished := _true(body, "Finished"):
            texts.append(f"{FINISHED}: {finished['message']}")
        return texts

    def _copy(self, chapter: Chapter, cluster: str, change: str, body: Object) -> list[str]:
        if change == "DELETED":
            return [f"{cluster}: {_why_removed(chapter, cluster)}"]
        texts = [f"{cluster}: a copy queues there"]
        if _true(body, "Admitted"):
            texts.append(_admission(chapter, cluster))
        elif (reserved := objects.condition(body, "QuotaReserved")) and reserved["status"] == "False":
            texts.append(f"{cluster}: no room yet: {reserved['message']}")
        return texts

    def _local_job(self, chapter: Chapter, _cluster: str, _change: str, body: Object) -> list[str]:  # noqa: ARG002
        texts = [MARKED] if body["spec"].get("managedBy") == objects.MULTIKUEUE_CONTROLLER else []
        return [*texts, COMPLETE] if _true(body, "Complete") else texts

    def _remote_job(self, chapter: Chapter, cluster: str, change: str, body: Object) -> list[str]:  # noqa: ARG002
        if change == "DELETED":
            return [f"{cluster}: the job is removed"]
        return [] if body["spec"].get("suspend") else [f"{cluster}: {RUNS}"]


QUEUED = "queued as Workload {}"
MARKED = "suspended, and marked as MultiKueue's, by the webhook"
RESERVED = "quota reserved"
RUNS = "the job runs"
COMPLETE = "the job you submitted is Complete"
FINISHED = "its Workload is Finished"

COLUMNS = ("job", "ran on", "nominated", "runs", "complete", "clean")
STEPS = {"nominated": "nominated:", "runs": RUNS, "complete": COMPLETE, "clean": "removed"}
"""Columns of the summary, each with what its line says; the last such line counts for `clean`."""


def _admission(chapter: Chapter, cluster: str) -> str:
    if cluster not in chapter.admitted:
        chapter.admitted.append(cluster)
    first = chapter.admitted[0]
    return f"{cluster}: admitted, the first" if cluster == first else f"{cluster}: admitted too, after {first}"


def _why_removed(chapter: Chapter, cluster: str) -> str:
    if COMPLETE in chapter.said:
        return "its copy is removed, all is done"
    winner = chapter.admitted[0] if chapter.admitted else chapter.winner
    return f"its copy is removed, {winner} won" if winner else f"its copy is removed from {cluster}"


def _true(body: Object, name: str) -> Object | None:
    found = objects.condition(body, name)
    return found if found is not None and found["status"] == "True" else None


def _stamp(chapter: Chapter, text: str, at: float) -> None:
    for step, words in STEPS.items():
        if words in text and (step == "clean" or step not in chapter.times):
            chapter.times[step] = at


def _times(chapter: Chapter) -> list[str]:
    began = chapter.times["submitted"]
    return [f"{chapter.times[step] - began:.2f} s" if step in chapter.times else "-" for step in STEPS]


# How it is told.


class Teller(Protocol):
    """Where the demo speaks to."""

    def heading(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def line(self, line: Line) -> None: ...
    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None: ...


class Plain:
    """Text for files and pipes."""

    def heading(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def note(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def line(self, line: Line) -> None:
        print(f"  {line.at:6.2f} s  {line.job:6}  {line.text}", flush=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
        for row in (columns, *rows):
            print("  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class Coloured:
    """The same for people at a terminal: each job has a colour of its own."""

    COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, soft_wrap=True)
        self._colours: dict[str, str] = {}

    def heading(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold", markup=False)

    def note(self, text: str) -> None:
        self._console.print(f"  {text}", style="dim", markup=False)

    def line(self, line: Line) -> None:
        from rich.text import Text

        colour = self._colours.setdefault(line.job, self.COLOURS[len(self._colours) % len(self.COLOURS)])
        self._console.print(
            Text.assemble((f"  {line.at:6.2f} s  ", "dim"), (f"{line.job:6}  ", f"bold {colour}"), line.text)
        )

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich.table import Table

        table = Table(*columns)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)


def teller() -> Teller:
    return Coloured() if sys.stdout.isatty() else Plain()


# What is done.


async def run(jobs: int, tell: Teller) -> None:
    """The whole demo. Raises ProgramError when a program of it fails; nothing is left running or lying about."""
    tell.heading("Starting a manager cluster and three workers with Kueue: real etcd, kube-apiserver and Kueue")
    began = time.monotonic()
    async with Testbed.start(workers=3) as bed:
        tell.note(f"up after {time.monotonic() - began:.0f} s; everything is on loopback and goes away at the end")
        demo = Demo(bed, tell)
        await demo.make_queues()
        await demo.register()
        async with demo.manager_running():
            await demo.tell_story(jobs)
        tell.heading("Stopping everything")
    tell.note(f"nothing is left; it took {time.monotonic() - began:.0f} s in all")


class Demo:
    """The steps of the demo on a testbed."""

    def __init__(self, bed: Testbed, tell: Teller) -> None:
        self._bed = bed
        self._tell = tell
        self._story = Story()
        self._files = {name: bed.folder / f"{name}.yaml" for name in bed.planes}
        for name, plane in bed.planes.items():
            self._files[name].write_bytes(dump(plane.kubeconfig()))

    async def make_queues(self) -> None:
        """On each worker a queue with room for one job; on the manager one queue over all of them."""
        count = len(self._bed.workers)
        self._tell.heading("Making the queues: each worker has room for one job, the manager for all of them together")
        await queues.workers_setup(
            self._bed.workers, namespace=NAMESPACE, queue=QUEUE, cluster_queue=CLUSTER_QUEUE, quota={"cpu": "1"}
        )
        body = objects.cluster_queue(CLUSTER_QUEUE, quota={"cpu": str(count)}, checks=[EVERYWHERE])
        async with self._bed.manager.client() as client:
            await client.apply(objects.namespace(objects.KUEUE_NAMESPACE))
            await client.apply(objects.admission_check(EVERYWHERE, config=EVERYWHERE))
            await queues.setup_queue(client, namespace=NAMESPACE, queue=QUEUE, cluster_queue=body)

    async def register(self) -> None:
        """With the CLI, one after another, as a user does."""
        self._tell.heading("Registering the workers")
        for plane in self._bed.workers:
            await self._cli(
                *("clusters", "register", plane.name, "--kubeconfig", str(self._files[plane.name])),
                *("--manager-kubeconfig", str(self._files[MANAGER]), "--config-name", EVERYWHERE),
            )

    @asynccontextmanager
    async def manager_running(self) -> AsyncIterator[None]:
        """`multikueue run` with its webhook, once it is connected to all workers."""
        self._tell.heading("Starting the manager, with its webhook")
        port = free_port()
        env = {
            "MULTIKUEUE_WEBHOOK__ENABLED": "true",
            "MULTIKUEUE_WEBHOOK__HOST": "127.0.0.1",
            "MULTIKUEUE_WEBHOOK__PORT": str(port),
            "MULTIKUEUE_WEBHOOK__URL": f"https://127.0.0.1:{port}",
        }
        words = ["run", "--kubeconfig", str(self._files[MANAGER])]
        self._tell.note(self._shown(words))
        log = self._bed.folder / "multikueue.log"
        process = Process("multikueue run", [sys.executable, "-m", "multikueue", *words], log=log, env=env)
        process.start()
        try:
            async with self._bed.manager.client() as client:
                await process.wait_until(lambda: _is_ready(client))
            self._tell.note("ready, and connected to all workers")
            yield
        except AssertionError as error:
            raise process.failure(str(error)) from error
        finally:
            with anyio.CancelScope(shield=True):
                await process.stop()

    async def tell_story(self, jobs: int) -> None:
        """Submit the jobs and tell what happens until nothing of them is left on any worker."""
        names = [f"job-{number}" for number in range(1, jobs + 1)]
        self._tell.heading(f"Submitting {jobs} jobs with nothing but the label {objects.QUEUE_LABEL}={QUEUE}")
        async with AsyncExitStack() as stack:
            clients = {n: await stack.enter_async_context(p.client()) for n, p in self._bed.planes.items()}
            async with anyio.create_task_group() as tasks:
                stage = _Stage(self._story, self._tell, clients, tasks)
                await stage.watch()
                await stage.submit(names)
                await eventually(lambda: _is_over(clients, jobs), timeout=PATIENCE_SECONDS + 5 * jobs, interval=0.2)
                tasks.cancel_scope.cancel()
        self._tell.heading("In short, in seconds since each was submitted")
        self._tell.table(COLUMNS, self._story.rows())
        self._tell.heading("What `multikueue workloads show` says about the first one")
        await self._cli("workloads", "show", names[0], "-n", NAMESPACE, "--kubeconfig", str(self._files[MANAGER]))

    async def _cli(self, *words: str) -> None:
        """Run a command of ours and show it with what it says. Raises ProgramError with that if it fails."""
        self._tell.note(self._shown(words))
        answer = await anyio.run_process([sys.executable, "-m", "multikueue", *words], check=False, stderr=None)
        text = answer.stdout.decode().rstrip()
        if answer.returncode:
            raise ProgramError(f"multikueue {shlex.join(words)} ended with {answer.returncode}:\n{text}")
        for line in text.splitlines():
            self._tell.note(f"  {line}")

    def _shown(self, words: Sequence[str]) -> str:
        """The command as one would type it, in the folder with the kubeconfigs."""
        return f"$ multikueue {shlex.join(words)}".replace(f"{self._bed.folder}/", "")


@dataclass(slots=True)
class _Stage:
    """Where the jobs play: feeds the story with what the clusters show, and plays the nodes."""

    story: Story
    tell: Teller
    clients: dict[str, Client]
    tasks: anyio.abc.TaskGroup
    began: float = 0.0
    ran: set[str] = field(default_factory=set)

    async def watch(self) -> None:
        for cluster in self.clients:
            for kind in (JOB, WORKLOAD):
                await self.tasks.start(self._follow, cluster, kind)

    async def submit(self, names: Sequence[str]) -> None:
        self.began = time.monotonic()
        for name in names:
            self.tell.line(self.story.submitted(name, self._now()))
            await self.clients[MANAGER].create(plain_job(name))

    async def _follow(self, cluster: str, kind: Kind, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with self.clients[cluster].watch(kind, NAMESPACE) as changes:
            task_status.started()
            async for change, body in changes:
                for line in self.story.see(cluster, change, body, at=self._now()):
                    self.tell.line(line)
                self._play(cluster, body)

    def _play(self, cluster: str, body: Object) -> None:
        """A job that was started on a worker has run after a moment."""
        name = body["metadata"]["name"]
        if cluster == MANAGER or body["kind"] != JOB.kind or body["spec"].get("suspend") or name in self.ran:
            return
        self.ran.add(name)
        self.tasks.start_soon(self._finish, cluster, name)

    async def _finish(self, cluster: str, name: str) -> None:
        await anyio.sleep(RUN_SECONDS)
        await complete_job(self.clients[cluster], NAMESPACE, name)

    def _now(self) -> float:
        return time.monotonic() - self.began


def plain_job(name: str) -> Object:
    """A Job as a user writes it; the label is all that is added."""
    body = objects.job(name, NAMESPACE, queue=QUEUE, requests={"cpu": "1"})
    del body["spec"]["suspend"]
    return body


async def _is_ready(client: Client) -> bool:
    """Whether the webhook is registered, all workers are connected and the check is active."""
    if await client.find(WEBHOOKS, WEBHOOK) is None:
        return False
    found = [*await client.list(objects.MULTIKUEUE_CLUSTER), *await client.list(objects.ADMISSION_CHECK)]
    return all(_true(body, "Active") for body in found)


async def _is_over(clients: dict[str, Client], jobs: int) -> bool:
    """Whether all jobs are complete and the workers hold nothing of them."""
    local = await clients[MANAGER].list(JOB, NAMESPACE)
    assert sum(_true(body, "Complete") is not None for body in local) == jobs, "not all jobs are complete"
    for cluster, client in clients.items():
        left: list[Any] = [] if cluster == MANAGER else await client.list(WORKLOAD, NAMESPACE)
        assert not left, f"copies are left on {cluster}"
    return True
