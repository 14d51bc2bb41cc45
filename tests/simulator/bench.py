"""A worker cluster in memory with a simulated Kueue and what runs its jobs, on virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from fakekube.cluster import Cluster
from fakekube.model.wire import Object, Request, Response, Watch
from fakekube.network.transport import Network
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from multikueue_simulator.definitions import kueue as kueue_definitions
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.workers.jobs.jobs import JobRunner, Lives
from multikueue_simulator.workers.kueue.behaviour import PROMPT, Behaviour
from multikueue_simulator.workers.kueue.kueue import SimulatedKueue
from multikueue_simulator.world import objects
from multikueue_simulator.world.transport import over
from multikueue_simulator.world.world import ClusterHandle

P = TypeVar("P", SimulatedKueue, JobRunner)

NAMESPACE = "default"
Tree = dict[str, Any]


class Bench:
    """One worker. `writes` lists what its own programs wrote, as `verb plural[/subresource]`."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.tasks, self.clock = tasks, VirtualClock()
        self.site = ClusterHandle(
            Cluster("worker", now=self.clock.now, rng=random.Random(1), definitions=kueue_definitions()), "worker"
        )
        self.network = Network(random.Random(2))
        self.network.add("worker", self)
        self.writes: list[str] = []
        self._programs: dict[str, anyio.CancelScope] = {}

    async def handle(self, request: Request) -> Response | Watch:
        """The API server as the programs see it."""
        if request.method != "GET":
            parts = request.path.split("/")
            self.writes.append(f"{request.method} {'/'.join(part for part in parts if part in _WORDS)}")
        return await self.site.cluster.api.handle(request)

    # What an administrator does.

    def apply_fixtures(
        self, *, cpu: int = 4, checks: tuple[str, ...] = (), queue: str = "main", flavor: Tree | None = None
    ) -> None:
        """A ClusterQueue `cq` with so many CPUs, and a LocalQueue before it."""
        body = objects.flavor()
        body["spec"] = flavor or {}
        self.site.create(kinds.RESOURCE_FLAVORS, body)
        self.site.create(kinds.CLUSTER_QUEUES, objects.cluster_queue("cq", cpu=cpu, checks=checks))
        self.site.create(kinds.LOCAL_QUEUES, objects.local_queue(queue, NAMESPACE, cluster_queue="cq"))

    def check(self, name: str, controller: str) -> None:
        body = objects.admission_check(name)
        body["spec"] = {"controllerName": controller}
        self.site.create(kinds.ADMISSION_CHECKS, body)

    def stop_queue(self, policy: str) -> None:
        self.site.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": {"stopPolicy": policy}})

    # What a user does.

    def submit(self, name: str = "job", *, cpu: int = 1, **more: Any) -> Object:
        """A suspended job; `seconds` and `fail` script its run, `spec`, `labels` and `annotations` go in as they are."""
        body = job_body(name, cpu=cpu, **more)
        return self.site.create(kinds.JOBS, body)

    # What is seen.

    def find(self, kind: Kind[Any], name: str, namespace: str = NAMESPACE) -> Object | None:
        return self.site.find(kind, ObjectKey(namespace if kind.namespaced else "", name))

    def job(self, name: str = "job") -> Object:
        found = self.find(kinds.JOBS, name)
        assert found is not None, f"no job {name}"
        return found

    def workload(self, job: str = "job") -> Object:
        """The workload that a job controls, or that is called so."""
        for body in self.site.all(kinds.WORKLOADS):
            owners = body["metadata"].get("ownerReferences", [])
            if body["metadata"]["name"] == job or any(owner["name"] == job for owner in owners):
                return body
        raise AssertionError(f"no workload of {job}")

    def conditions(self, job: str = "job") -> dict[str, str]:
        """The conditions of a job's workload, each as `Status/Reason`."""
        found = self.workload(job).get("status", {}).get("conditions", [])
        return {c["type"]: f"{c['status']}/{c['reason']}" for c in found}

    def message(self, type_: str, job: str = "job") -> str:
        found = self.workload(job).get("status", {}).get("conditions", [])
        return next(str(c["message"]) for c in found if c["type"] == type_)

    def ended(self, job: str = "job") -> str:
        """Complete, Failed, or nothing yet."""
        found = self.job(job).get("status", {}).get("conditions", [])
        return next((str(c["type"]) for c in found if c["type"] in ("Complete", "Failed")), "")

    def key(self, job: str = "job") -> ObjectKey:
        return ObjectKey(NAMESPACE, self.workload(job)["metadata"]["name"])

    # The programs.

    async def start_kueue(self, behaviour: Behaviour = PROMPT, **options: Any) -> SimulatedKueue:
        def made(client: Client) -> SimulatedKueue:
            options.setdefault("figures", None)
            return SimulatedKueue(client, now=self.clock.now, rng=random.Random(3), behaviour=behaviour, **options)

        return await self._begin("kueue", made)

    async def start_jobs(self, lives: Lives | None = None, **options: Any) -> JobRunner:
        def made(client: Client) -> JobRunner:
            return JobRunner(client, now=self.clock.now, rng=random.Random(4), lives=lives, **options)

        return await self._begin("jobs", made)

    def kill(self, name: str) -> None:
        """`kueue` or `jobs` is gone this instant."""
        self._programs.pop(name).cancel()

    async def _begin(self, name: str, made: Callable[[Client], P]) -> P:
        line, scope, running = self.network.line(name), anyio.CancelScope(), anyio.Event()
        connecting = Client.connect(Credentials(server="http://worker"), cluster="worker", transport=over(line))
        self._programs[name] = scope
        program: list[P] = []

        async def run_it() -> None:
            with scope:
                async with connecting as client, anyio.create_task_group() as tasks:
                    program.append(made(client))
                    await tasks.start(program[0].run)
                    running.set()

        self.tasks.start_soon(run_it)
        await running.wait()
        return program[0]


_WORDS = {"jobs", "workloads", "status", "clusterqueues", "localqueues", "pods", "admissionchecks"}


def job_body(name: str = "job", *, cpu: int = 1, queue: str | None = "main", **more: Any) -> Object:
    """A suspended job as a user writes it."""
    annotations = dict(more.get("annotations", {}))
    for key in ("run-seconds", "fail"):
        value = more.get("seconds" if key == "run-seconds" else key)
        if value is not None:
            annotations[f"sandbox.multikueue.dev/{key}"] = str(value)
    labels = ({"kueue.x-k8s.io/queue-name": queue} if queue else {}) | more.get("labels", {})
    container = {"name": "main", "image": "registry.example/main", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations},
        "spec": {"suspend": True, "template": template} | more.get("spec", {}),
    }


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with anyio.create_task_group() as tasks:
        yield Bench(tasks)
        tasks.cancel_scope.cancel()


def on_bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test runs on virtual time, with a worker of its own that has a queue, and no programs yet."""

    @wraps(test)
    def wrapped() -> None:
        async def main() -> None:
            async with bench() as worker:
                await test(worker)

        run(main)

    del wrapped.__wrapped__  # pytest would look for a fixture called `bench`
    return wrapped


SECOND = timedelta(seconds=1)


def seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()
