"""The stage of a hostile case, one file for all that a case may call: clusters, tenants, and a manager to watch.

The manager has two honest workers and one that lies, a queue for the hostile tenant and a queue for the innocent one.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Self

import aiohttp
import anyio

from testbed import objects, queues
from testbed.bed import Testbed
from testbed.client import ApiError, Client, Kind, eventually
from testbed.hostile.liar import Liar
from testbed.hostile.vitals import Vitals
from testbed.jobs import complete_job
from testbed.kubeconfig import dump
from testbed.objects import JOB, MULTIKUEUE_CLUSTER, WORKLOAD, Object
from testbed.plane import ControlPlane
from testbed.ports import free_port
from testbed.process import Process, ProgramError
from testbed.timed_manager import TIMED, variables

__all__ = ["GROUP_LABEL", "HOSTILE", "INNOCENT", "LIAR", "POD", "QUEUE", "SILENCE", "Stage"]

INNOCENT = "innocent"
HOSTILE = "hostile"
LIAR = "liar"
"""The MultiKueueCluster of the worker behind the liar."""

QUEUE = "main"
BYSTANDER = "bystander"
PATIENCE_SECONDS = 20.0
SAY_SECONDS = 8.0
"""The manager says after five seconds on which workers a copy is inadmissible."""

SILENCE = "nothing was said of it, and nothing done"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
POD = Kind("v1", "Pod")
EVENT = Kind("v1", "Event")
WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
WEBHOOK = "multikueue-manager"

ERROR = re.compile(r"[ |]*[\w.]*(Error|Exception|Overflow)\b.*")

COLLECTIONS: Mapping[str, str] = {
    JOB.kind: "/apis/batch/v1/namespaces/{namespace}/jobs",
    POD.kind: "/api/v1/namespaces/{namespace}/pods",
    WORKLOAD.kind: f"/apis/{objects.KUEUE_VERSION}/namespaces/{{namespace}}/workloads",
    EVENT.kind: "/api/v1/namespaces/{namespace}/events",
}
"""Paths of the kinds that a turn leaves behind."""

SETTINGS: Mapping[str, str] = {
    "LOG__FORMAT": "json",
    "QUOTA__REQUEUE_FIRST": "1s",
    "DISPATCH__GC_INTERVAL": "5s",
    "RETENTION__COPIES": "0s",
    "TIMINGS__RECONNECT_CAP": "1s",
    "DISPATCH__HEARTBEAT_INTERVAL": "500ms",
    "TIMINGS__SUSPECT_AFTER": "1s",
    "TIMINGS__ISOLATE_AFTER": "2s",
    "TIMINGS__LOOP_PATIENCE": "5s",
    "CAPACITY_FOLLOW__INTERVAL": "1s",
    "DISPATCH__WORKLOAD_STRATEGIES": '{"incremental": {"step": 1}}',
    "INTEGRATIONS__FRAMEWORKS": "batch/job,pod",
    "WEBHOOK__ENABLED": "true",
    "WEBHOOK__HOST": "127.0.0.1",
    "METRICS__HOST": "127.0.0.1",
    "PROBES__HOST": "127.0.0.1",
}
"""All ports are open; retries come soon, and so does the verdict on a lost worker."""


class Stage:
    """`undo` reverts acts beyond the hostile namespace; `clear` calls it at the end of a turn."""

    def __init__(self, bed: Testbed, liar: Liar) -> None:
        self.bed = bed
        self.liar = liar
        self.undo = AsyncExitStack()
        self.clients: dict[str, Client] = {}
        self.probes_port, self.webhook_port = free_port(), free_port()
        self._lying, *honest = reversed(bed.workers)
        self._honest = {plane.name: plane for plane in honest}
        self._stack = AsyncExitStack()
        self._jobs = 0
        self._bystander: tuple[str, str] = ("", "")
        kubeconfig = bed.folder / "hostile.kubeconfig"
        kubeconfig.write_bytes(dump(bed.manager.kubeconfig()))
        ports = {
            "PROBES__PORT": str(self.probes_port),
            "METRICS__PORT": str(self.probes_port),
            "WEBHOOK__PORT": str(self.webhook_port),
            "WEBHOOK__URL": f"https://127.0.0.1:{self.webhook_port}",
        }
        self.process = Process(
            "multikueue run",
            [sys.executable, *TIMED, "run", "--kubeconfig", str(kubeconfig)],
            log=bed.folder / "multikueue.log",
            env=variables({**SETTINGS, **ports}),
        )
        self.vitals = Vitals(self.process, f"http://127.0.0.1:{self.probes_port}/metrics")

    @classmethod
    @asynccontextmanager
    async def set(cls, bed: Testbed) -> AsyncIterator[Self]:
        """The stage with its clusters, queues and manager set up, and the bystander's job running."""
        plane = bed.workers[-1]
        async with AsyncExitStack() as stack:
            stage = cls(bed, await stack.enter_async_context(Liar.before(plane, bed.folder)))
            await stack.enter_async_context(stage._stack)
            for name, each in bed.planes.items():
                stage.clients[name] = await stage._stack.enter_async_context(each.client())
            stack.push_async_callback(stage.process.kill)
            await stage._furnish()
            stage.process.start()
            await stage.ready()
            await stage._seat_bystander()
            yield stage

    @property
    def manager(self) -> Client:
        return self.clients["manager"]

    @property
    def lying(self) -> Client:
        """An administrator's client of the lying worker, past the liar."""
        return self.clients[self._lying.name]

    @property
    def honest(self) -> Mapping[str, Client]:
        return {name: self.clients[name] for name in self._honest}

    def plane(self, worker: str) -> ControlPlane:
        return self.bed.planes[worker]

    async def _furnish(self) -> None:
        """Set up queues and workers. The liar's queue of the innocent is on hold: it gets copies, never jobs."""
        for namespace in (INNOCENT, HOSTILE):
            await queues.workers_setup(self.bed.workers, namespace=namespace, queue=QUEUE)
        await self.lying.patch(objects.CLUSTER_QUEUE, INNOCENT, {"spec": {"stopPolicy": "Hold"}})
        await self.manager.apply(objects.namespace(objects.KUEUE_NAMESPACE))
        for name, plane in self._honest.items():
            await self.introduce(name, dump(plane.kubeconfig()))
        await self.introduce(LIAR, self._liars_kubeconfig())
        clusters = [LIAR, *self._honest]
        for namespace in (INNOCENT, HOSTILE):
            await self.manager.apply(objects.multikueue_config(namespace, clusters=clusters))
            await self.manager.apply(objects.admission_check(namespace, config=namespace))
            queue = objects.cluster_queue(namespace, checks=[namespace])
            await queues.setup_queue(self.manager, namespace=namespace, queue=QUEUE, cluster_queue=queue)

    def _liars_kubeconfig(self) -> bytes:
        return dump(self._lying.kubeconfig(server=self.liar.url))

    async def introduce(self, name: str, config: bytes) -> None:
        await self.manager.apply(objects.kubeconfig_secret(name, config))
        await self.manager.apply(objects.multikueue_cluster(name, secret=name))

    async def welcome(self, name: str, plane: ControlPlane) -> None:
        """One more honest worker, of that name."""
        self._honest[name] = plane
        self.clients[name] = await self._stack.enter_async_context(plane.client())

    async def introduce_liar(self) -> None:
        """Register the liar as a new cluster of the same name, so that the manager forgets its state."""
        await self.manager.delete(MULTIKUEUE_CLUSTER, LIAR)
        await self.introduce(LIAR, self._liars_kubeconfig())
        with suppress(AssertionError):  # the innocent job will show the cost
            await eventually(lambda: self.is_active(LIAR), timeout=PATIENCE_SECONDS)

    async def is_active(self, cluster: str) -> bool:
        """Whether a MultiKueueCluster is Active."""
        return _is_true(await self.manager.get(MULTIKUEUE_CLUSTER, cluster), "Active")

    async def ready(self) -> None:
        """Waits until the manager is connected to all workers and the API server calls its webhook."""

        async def answers() -> bool:
            try:
                clusters = await self.manager.list(MULTIKUEUE_CLUSTER)
                probe = objects.job("probe", INNOCENT, suspend=False)
                made = await self.manager.create(probe, dry_run=True)
            except ApiError:
                return False
            return bool(made["spec"]["suspend"]) and all(_is_true(body, "Active") for body in clusters)

        await self.process.wait_until(answers)

    async def revive(self) -> str:
        """How the manager failed, empty if it did not. It runs again afterwards."""
        said = await self._ended()
        if said:
            await self.process.kill()
            self.process.start()
            with suppress(ProgramError):
                await self.ready()
        return said

    async def _ended(self) -> str:
        if not self.process.running:
            return f"the manager ended: {self._last_words()}"
        if not await self.vitals.answers(timeout=PATIENCE_SECONDS):
            return f"the manager stood still for {PATIENCE_SECONDS:g} s"
        return ""

    def _last_words(self) -> str:
        """The last error in the manager's log."""
        errors = [line for line in self.process.tail(200).splitlines() if ERROR.match(line)]
        return errors[-1].strip(" |") if errors else "without a word"

    # The innocent

    async def _seat_bystander(self) -> None:
        worker, _ = await self._started(BYSTANDER)
        self._bystander = (worker, (await self.clients[worker].get(JOB, BYSTANDER, INNOCENT))["metadata"]["uid"])

    async def bystander_runs(self) -> bool:
        """Whether the bystander's job still runs, with the same UID on its worker."""
        worker, uid = self._bystander
        body = await self.clients[worker].find(JOB, BYSTANDER, INNOCENT)
        mine = body is not None and body["metadata"]["uid"] == uid and not body["spec"].get("suspend")
        return mine and _is_true(await self.workload_of(BYSTANDER, INNOCENT) or {}, "Admitted")

    async def reseat_bystander(self) -> None:
        """Replace a bystander's job that was ended."""
        await self.manager.delete(JOB, BYSTANDER, INNOCENT)
        with suppress(AssertionError, ApiError):
            await eventually(lambda: self._is_gone(BYSTANDER), timeout=PATIENCE_SECONDS)
            await self._seat_bystander()

    @property
    def bystander(self) -> tuple[str, str]:
        """The worker of the bystander's job, and the job's UID there."""
        return self._bystander

    async def innocent(self) -> float | None:
        """Seconds from the submission of an innocent job until it runs on a worker; None if it did not start or not end
        within PATIENCE_SECONDS."""
        self._jobs += 1
        name = f"innocent-{self._jobs}"
        try:
            worker, seconds = await self._started(name)
            await complete_job(self.clients[worker], INNOCENT, name)
            await eventually(lambda: self._is_complete(name), timeout=PATIENCE_SECONDS)
        except (AssertionError, ApiError, TimeoutError, ProgramError):
            return None
        finally:
            with suppress(ApiError, TimeoutError):
                await self.manager.delete(JOB, name, INNOCENT)
        return seconds

    async def _started(self, name: str) -> tuple[str, float]:
        began = time.monotonic()
        await self.manager.create(objects.job(name, INNOCENT, suspend=False))

        async def runs() -> str | None:
            if not self.process.running:
                raise ProgramError("the manager has ended")
            worker = ((await self.workload_of(name, INNOCENT)) or {}).get("status", {}).get("clusterName", "")
            body = await self.clients[worker].find(JOB, name, INNOCENT) if worker in self._honest else None
            return worker if body is not None and not body["spec"].get("suspend") else None

        return await eventually(runs, timeout=PATIENCE_SECONDS, interval=0.02), time.monotonic() - began

    async def _is_complete(self, name: str) -> bool:
        return _is_true(await self.manager.get(JOB, name, INNOCENT), "Complete")

    async def _is_gone(self, name: str) -> bool:
        return not any([await client.find(JOB, name, INNOCENT) for client in self.clients.values()])

    # Results of a case

    async def workload_of(self, job: str, namespace: str = HOSTILE) -> Object | None:
        """The Workload of a job, or the one of that name."""
        for body in await self.manager.list(WORKLOAD, namespace):
            owners = body["metadata"].get("ownerReferences") or []
            if job in (body["metadata"]["name"], *(owner["name"] for owner in owners)):
                return body
        return None

    async def became(self, name: str) -> str:
        """The most telling statement of clusters, events and log about a hostile job or Workload, once there is one."""
        with suppress(RecursionError, AssertionError):  # nested too deeply for us to read; no statement in time
            return await eventually(lambda: self._said_of(name), timeout=SAY_SECONDS)
        return self.logged(name) or SILENCE

    async def _runs_on(self, name: str) -> str:
        for worker, client in self.clients.items():
            body = await client.find(JOB, name, HOSTILE) if worker != "manager" else None
            if body is not None:
                return f"dispatched to {worker}" + (", held there" if body["spec"].get("suspend") else "")
            pods = await client.list(POD, HOSTILE) if worker != "manager" else []
            if members := sum(pod["metadata"].get("labels", {}).get(GROUP_LABEL) == name for pod in pods):
                return f"dispatched to {worker}, {members} Pods by now"
        return ""

    async def _said_of(self, name: str) -> str:
        if runs := await self._runs_on(name):
            return runs
        workload = await self.workload_of(name) or {}
        about = {name, workload.get("metadata", {}).get("name", name)}
        said = [f"condition {c['reason']}: {c['message']}" for c in _troubles(workload)]
        events = [e for e in await self.manager.list(EVENT, HOSTILE) if e.get("type") == "Warning"]
        said += [f"event {e['reason']}: {e['message']}" for e in events if e["involvedObject"]["name"] in about]
        said += [f"check {c['state']}: {c['message']}" for c in _checks(workload) if c.get("message")]
        return said[0] if said else ""

    def logged(self, name: str) -> str:
        """The last warning or error in this turn's log that names the object."""
        lines = [line for line in self.vitals.log() if f'"{name}' in line or f"/{name}" in line or f'{name}"' in line]
        for entry in reversed([*_entries(lines)]):
            if entry.get("level") in ("warning", "error", "critical"):
                facts = " ".join(f"{key}={value}" for key, value in entry.items() if key not in ("level", "timestamp"))
                return f"log {facts}"
        return ""

    async def cluster_says(self, name: str = LIAR) -> str:
        """The condition Active of a MultiKueueCluster, in words."""
        active = objects.condition(await self.manager.get(MULTIKUEUE_CLUSTER, name), "Active")
        return f"{name} is Active={active['status']}, {active['reason']}: {active['message']}" if active else "nothing"

    # Means of a case

    async def post(self, kind: str, content: bytes) -> None:
        """Create an object in the hostile namespace from its JSON."""
        path = COLLECTIONS[kind].format(namespace=HOSTILE)
        await self.manager.request("POST", path, body=content)

    async def at_once(self, calls: Iterable[Coroutine[Any, Any, Any]], *, lanes: int = 12) -> None:
        """Make calls, `lanes` at a time."""
        waiting = iter(calls)

        async def lane() -> None:
            for call in waiting:
                await call

        async with anyio.create_task_group() as tasks:
            for _ in range(lanes):
                tasks.start_soon(lane)

    async def meanwhile(self, *works: Callable[[], Awaitable[None]]) -> None:
        """Repeat these works in the background until the end of the turn."""
        tasks = await self.undo.enter_async_context(anyio.create_task_group())
        self.undo.callback(tasks.cancel_scope.cancel)
        for work in works:
            tasks.start_soon(_persistently, work)

    async def runs(self, name: str) -> str:
        """The worker of a hostile job, once the job runs there."""

        async def where() -> str | None:
            for worker, client in self.clients.items():
                body = await client.find(JOB, name, HOSTILE) if worker != "manager" else None
                if body is not None and not body["spec"].get("suspend"):
                    return worker
            return None

        return await eventually(where, timeout=PATIENCE_SECONDS)

    async def copied(self, name: str) -> str:
        """The name of a hostile job's Workload, once the lying worker has a copy of it."""

        async def there() -> str | None:
            local = await self.workload_of(name)
            found = local and await self.lying.find(WORKLOAD, local["metadata"]["name"], HOSTILE)
            return found["metadata"]["name"] if found else None

        return await eventually(there, timeout=PATIENCE_SECONDS)

    async def runs_still(self, name: str, worker: str) -> bool:
        body = await self.clients[worker].find(JOB, name, HOSTILE)
        return body is not None and not body["spec"].get("suspend")

    async def clear(self) -> None:
        """Undo the case, and empty the hostile namespace on all clusters."""
        stack, self.undo = self.undo, AsyncExitStack()
        await stack.aclose()
        for client in self.clients.values():
            for path in COLLECTIONS.values():
                with suppress(ApiError, aiohttp.ClientError, TimeoutError):
                    options = {"propagationPolicy": "Background"}
                    await client.request("DELETE", path.format(namespace=HOSTILE), body=options)
        if self.process.running:
            with suppress(AssertionError, RecursionError):
                await eventually(self._is_clear, timeout=PATIENCE_SECONDS)

    async def _is_clear(self) -> bool:
        return not await self.manager.list(WORKLOAD, HOSTILE)

    async def release(self, kind: Kind, name: str) -> None:
        """Remove the finalizers of a hostile object, so that it goes even if no manager can release it."""
        with suppress(ApiError, RecursionError):
            await self.manager.patch(kind, name, {"metadata": {"finalizers": None}}, HOSTILE)


async def _persistently(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat the work for ever, also after a refusal of the API server."""
    while True:
        with suppress(ApiError, aiohttp.ClientError, TimeoutError):
            await work()
        await anyio.sleep(0.05)


def _is_true(body: Object, name: str) -> bool:
    found = objects.condition(body, name)
    return found is not None and found["status"] == "True"


def _troubles(body: Object) -> Sequence[Object]:
    """The conditions that report a problem."""
    conditions = body.get("status", {}).get("conditions") or []
    return [c for c in conditions if (c["type"], c["status"]) in TROUBLES and c.get("message")]


def _checks(body: Object) -> Sequence[Object]:
    return body.get("status", {}).get("admissionChecks") or []


TROUBLES = {("QuotaReserved", "False"), ("Evicted", "True"), ("DeactivationTarget", "True"), ("Finished", "True")}


def _entries(lines: Sequence[str]) -> Iterator[Object]:
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)
