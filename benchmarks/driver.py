"""The user who submits jobs, and the kubelets that run them: one and the same for every side.

The driver learns everything from raw watches, opened before the first job, and polls nothing during a measurement. Each
remote job is completed, by one status patch, as soon as it and the local job are unsuspended. A real job takes longer;
when one ends earlier, the peer leaves the local job unfinished for ever.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle

import anyio
import anyio.abc
import msgspec

from benchmarks.events import JobEvent, WorkloadEvent, completion, job_event, workload_event
from benchmarks.timeline import Stage, Timelines
from benchmarks.wire import Wire
from testbed import objects

__all__ = ["QUEUE", "Ask", "Driver"]

QUEUE = "main"
NAME = b"NAME-OF-THE-JOB"
POLL_SECONDS = 0.2


class _Every:
    """All names."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY: Container[str] = _Every()


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job asks for: CPU, and its WorkloadPriorityClass; None: as usual."""

    cpu: str | None = None
    priority_class: str | None = None


class Driver:
    """Drives one side: its namespace on the manager cluster and on the workers."""

    def __init__(self, manager: Wire, workers: Sequence[Wire], *, namespace: str) -> None:
        self.namespace = namespace
        self.times = Timelines()
        self._manager = manager
        self._workers = workers
        self._bodies = cycle([_job_body(namespace)])
        self._jobs: dict[str, str] = {}  # by the name of their workload, which the copies share
        self._runs_on: dict[str, Wire] = {}
        self._holding: Container[str] = ()
        self._tidying = False
        self._held: list[str] = []
        self._news = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def watching(self, *, closely: bool = False, tidy: bool = False) -> AsyncIterator[Timelines]:
        """New timelines, noted while the block runs; `closely` also watches the copies, at a cost of CPU for all. `tidy`
        deletes each job that is over everywhere, as a time to live does, so that nothing piles up."""
        self.times = Timelines()
        self._tidying = tidy
        self._jobs.clear()
        self._runs_on.clear()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await self._watch(self._manager, self._workload_path(), self._on_workload)
            await self._watch(self._manager, self._job_path(), self._on_local)
            for worker in self._workers:
                await self._watch(worker, self._job_path(), self._remote_listener(worker))
                if closely:
                    await self._watch(worker, self._workload_path(), self._on_copy)
            try:
                yield self.times
            finally:
                tasks.cancel_scope.cancel()

    def ask(self, *, cpu: str | None = None, priority_class: str | None = None) -> None:
        """From now on jobs are submitted with this WorkloadPriorityClass, and ask for so much CPU; None: as usual."""
        self.ask_in_turn([Ask(cpu, priority_class)])

    def ask_in_turn(self, asks: Iterable[Ask]) -> None:
        """From now on one job asks for the first of these, the next for the next, and so on from the first again."""
        self._bodies = cycle([_job_body(self.namespace, each.priority_class, each.cpu) for each in asks])

    async def submit(self, names: Sequence[str]) -> None:
        """Submit these jobs at once: as many calls are under way as there are connections."""
        await self._manager.post_all(self._job_path(), map(self._submission, names))

    async def stream(self, names: Sequence[str], *, rate: float) -> None:
        """Submit so many jobs a second, whatever became of those before. A job is submitted when it is due, though the call
        may have to wait for a connection."""
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for number, name in enumerate(names):
                await anyio.sleep_until(began + number / rate)
                tasks.start_soon(self._manager.post, self._job_path(), self._submission(name))

    def _submission(self, name: str) -> bytes:
        """The body of a job; notes its submission now."""
        self.times.note(Stage.SUBMITTED, name, time.monotonic())
        return next(self._bodies).replace(NAME, name.encode())

    def hold(self, names: Container[str] = EVERY) -> None:
        """From now on jobs, or those of these names, run until `let_go`."""
        self._holding = names

    def let_go(self) -> None:
        """Complete the jobs that were held, and from now on each as soon as it runs."""
        assert self._tasks is not None
        self._holding = ()
        for name in self._held:
            self._tasks.start_soon(self._complete, self._runs_on[name], name)
        self._held.clear()

    async def end_one(self) -> None:
        """Complete the job that was held first."""
        name = self._held.pop(0)
        await self._complete(self._runs_on[name], name)

    async def list_all(self) -> None:
        """Read all jobs and workloads of this side on all clusters, as many lists at once as there are."""
        async with anyio.create_task_group() as tasks:
            for wire in (self._manager, *self._workers):
                for path in (self._job_path(), self._workload_path()):
                    tasks.start_soon(wire.get, path)

    async def reached(self, stage: Stage, number: int, *, patience: float) -> bool:
        """Wait until `number` jobs reached a stage; False when nothing at all has happened for `patience` seconds."""
        while self.times.count(stage) < number:
            self._news = anyio.Event()
            with anyio.move_on_after(patience) as scope:
                await self._news.wait()
            if scope.cancelled_caught:
                return False
        return True

    async def clean(self, *, patience: float) -> bool:
        """Wait until the workers hold no workload of this side; False when they still do after `patience` seconds."""
        with anyio.move_on_after(patience):
            for worker in self._workers:
                while await _is_something(worker, self._workload_path()):  # noqa: ASYNC110
                    await anyio.sleep(POLL_SECONDS)
            return True
        return False

    async def forget(self) -> None:
        """Delete all jobs and workloads of this side on the manager cluster."""
        await self._manager.delete(self._job_path())
        await self._manager.delete(self._workload_path())

    async def _watch(self, wire: Wire, path: str, on_event: Callable[[bytes], str]) -> None:
        assert self._tasks is not None
        await self._tasks.start(lambda task_status: wire.watch(path, on_event, task_status=task_status))

    def _remote_listener(self, worker: Wire) -> Callable[[bytes], str]:
        return lambda line: self._on_remote(worker, line)

    def _on_local(self, line: bytes) -> str:
        event = job_event(line)
        name = event.object.metadata.name
        if not event.object.spec.suspend and self._note(Stage.RELEASED, name):
            self._complete_soon(name)
        if event.has("Complete"):
            self._note(Stage.COMPLETE, name)
        return event.object.metadata.resource_version

    def _on_workload(self, line: bytes) -> str:
        event = workload_event(line)
        if event.type != "DELETED":
            if event.job in self.times.noted[Stage.SUBMITTED]:
                self._jobs[event.object.metadata.name] = event.job
            self._note_workload(event)
        return event.object.metadata.resource_version

    def _note_workload(self, event: WorkloadEvent) -> None:
        job, status = event.job, event.object.status
        self._note(Stage.QUEUED, job)
        if status.nominated_cluster_names:
            self._note(Stage.NOMINATED, job)
        if status.cluster_name:
            self._note(Stage.WON, job)
        if event.has("Finished") and self._note(Stage.FINISHED, job):
            self._tidy_soon(job)

    def _on_copy(self, line: bytes) -> str:
        event = workload_event(line)
        # A copy is made long after the original was seen, so its job is known.
        job = self._jobs.get(event.object.metadata.name, "")
        if event.type == "ADDED" and job:
            self._note(Stage.COPIED, job)
            self.times.note_last(Stage.COPIED_ALL, job, time.monotonic())
        if event.has("Admitted"):
            self._note(Stage.ADMITTED, job)
        return event.object.metadata.resource_version

    def _on_remote(self, worker: Wire, line: bytes) -> str:
        event = job_event(line)
        name = event.object.metadata.name
        if event.type == "DELETED":
            if self._note(Stage.REMOVED, name):
                self._tidy_soon(name)
        else:
            self._note_remote(worker, event)
        return event.object.metadata.resource_version

    def _note_remote(self, worker: Wire, event: JobEvent) -> None:
        name = event.object.metadata.name
        self._note(Stage.CREATED, name)
        if not event.object.spec.suspend and self._note(Stage.STARTED, name):
            self._runs_on[name] = worker
            self._complete_soon(name)

    def _complete_soon(self, name: str) -> None:
        """Complete a job once both are true: it runs, and the local job says so."""
        assert self._tasks is not None
        if name not in self.times.noted[Stage.STARTED] or name not in self.times.noted[Stage.RELEASED]:
            return
        if name in self._holding:
            self._held.append(name)
        else:
            self._tasks.start_soon(self._complete, self._runs_on[name], name)

    async def _complete(self, worker: Wire, name: str) -> None:
        self._note(Stage.ENDED, name)
        await worker.patch(f"{self._job_path()}/{name}/status", completion(datetime.now(UTC)))

    def _tidy_soon(self, name: str) -> None:
        """Delete a job once both are true: its workload is finished, and the remote job is gone."""
        assert self._tasks is not None
        over = (self.times.noted[Stage.FINISHED], self.times.noted[Stage.REMOVED])
        if self._tidying and all(name in times for times in over):
            self._tasks.start_soon(self._tidy, name)

    async def _tidy(self, name: str) -> None:
        """No garbage collector runs on the testbed, so the workload is deleted, too."""
        await self._manager.delete(f"{self._job_path()}/{name}")
        for workload in [each for each, job in self._jobs.items() if job == name]:
            del self._jobs[workload]
            await self._manager.delete(f"{self._workload_path()}/{workload}")

    def _note(self, stage: Stage, job: str) -> bool:
        if job not in self.times.noted[Stage.SUBMITTED]:
            return False  # left from an earlier block
        news = self.times.note(stage, job, time.monotonic())
        if news:
            self._news.set()
        return news

    def _job_path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def _workload_path(self) -> str:
        return f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self.namespace}/workloads"


async def _is_something(wire: Wire, path: str) -> bool:
    return bool(msgspec.json.decode(await wire.get(f"{path}?limit=1"))["items"])


def _job_body(namespace: str, priority_class: str | None = None, cpu: str | None = None) -> bytes:
    """A user's job as it is after the webhooks of either side: suspended and marked as MultiKueue's."""
    body = objects.job(
        NAME.decode(),
        namespace,
        queue=QUEUE,
        managed_by=objects.MULTIKUEUE_CONTROLLER,
        priority_class=priority_class,
        requests=None if cpu is None else {"cpu": cpu},
    )
    return msgspec.json.encode(body)
