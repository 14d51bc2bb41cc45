"""The demo: a manager and Kueue workers on this machine, some jobs, and the story of each.

All steps are those of a user: workers are registered with the CLI, the manager is `multikueue run` with its webhook,
and jobs have only the name of their queue. Only nodes are simulated: a running job is complete after a moment.
"""

from __future__ import annotations

import shlex
import subprocess
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
from testbed.story import COLUMNS, MANAGER, Line, Story

__all__ = ["run", "teller"]

NAMESPACE = "demo"
QUEUE = "main"
CLUSTER_QUEUE = "batch"
EVERYWHERE = "everywhere"
RUN_SECONDS = 2.0
PATIENCE_SECONDS = 60
WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
WEBHOOK = "multikueue-manager"


class Teller(Protocol):
    """The output of the demo."""

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
    """The story for a terminal: each job has a colour of its own."""

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


async def run(jobs: int, tell: Teller) -> None:
    """Run the whole demo. Raises ProgramError when one of its programs fails; no process and no file is left."""
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
        """Create on each worker a queue with room for one job, and on the manager one queue over all of them."""
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
        """Register the workers one after another with the CLI, as a user does."""
        self._tell.heading("Registering the workers")
        for plane in self._bed.workers:
            said = await self._cli(
                *("clusters", "register", plane.name, "--kubeconfig", str(self._files[plane.name])),
                *("--manager-kubeconfig", str(self._files[MANAGER]), "--config-name", EVERYWHERE),
            )
            self._tell.note(f"  {next(line for line in said if 'is registered' in line)}")

    @asynccontextmanager
    async def manager_running(self) -> AsyncIterator[None]:
        """Run `multikueue run` with its webhook; the block begins once all workers are connected."""
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
        except Exception as error:
            error.add_note(f"the log of the manager ends with:\n{process.tail(10)}")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await process.stop()

    async def tell_story(self, jobs: int) -> None:
        """Submit the jobs and print their story until no worker has a copy of them."""
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
        words = ("workloads", "show", names[0], "-n", NAMESPACE, "--kubeconfig", str(self._files[MANAGER]))
        for line in await self._cli(*words):
            self._tell.note(f"  {line}")

    async def _cli(self, *words: str) -> list[str]:
        """Show a `multikueue` command, run it, and return its output. Raises ProgramError with the output if it fails."""
        self._tell.note(self._shown(words))
        answer = await anyio.run_process(
            [sys.executable, "-m", "multikueue", *words], check=False, stderr=subprocess.STDOUT
        )
        text = answer.stdout.decode().rstrip()
        if answer.returncode:
            raise ProgramError(f"multikueue {shlex.join(words)} ended with {answer.returncode}:\n{text}")
        return text.splitlines()

    def _shown(self, words: Sequence[str]) -> str:
        """The command as a user would type it in the folder with the kubeconfigs."""
        return f"$ multikueue {shlex.join(words)}".replace(f"{self._bed.folder}/", "")


@dataclass(slots=True)
class _Stage:
    """The clusters of the demo: passes changes of their objects to the story, and plays the nodes."""

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
        async with self.clients[cluster].changes(kind, NAMESPACE) as changes:
            task_status.started()
            async for change, body in changes:
                for line in self.story.see(cluster, change, body, at=self._now()):
                    self.tell.line(line)
                self._play(cluster, body)
        raise ProgramError(f"{cluster} ended a watch")

    def _play(self, cluster: str, body: Object) -> None:
        """Complete a job a moment after it was started on a worker."""
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
    return all(_is_true(body, "Active") for body in found)


async def _is_over(clients: dict[str, Client], jobs: int) -> bool:
    """Whether all jobs are complete and the workers hold nothing of them."""
    local = await clients[MANAGER].list(JOB, NAMESPACE)
    assert sum(_is_true(body, "Complete") for body in local) == jobs, "not all jobs are complete"
    for cluster, client in clients.items():
        left: list[Any] = [] if cluster == MANAGER else await client.list(WORKLOAD, NAMESPACE)
        assert not left, f"copies are left on {cluster}"
    return True


def _is_true(body: Object, name: str) -> bool:
    found = objects.condition(body, name)
    return found is not None and found["status"] == "True"
