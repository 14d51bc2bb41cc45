"""The upper limit of the testbed: the fewest writes that dispatch a job, sent without any decision. One of them is the event
that says which worker won, which ours and the peer send too.

`python -m benchmarks.ceiling FILE` stands for the manager of identical jobs: it assumes that there is quota, sends
prebuilt bytes, reads only the two events that it must wait for, and would be wrong about any other.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from benchmarks.events import completion, job_event, workload_event
from benchmarks.wire import Wire

__all__ = ["Access", "Plan", "bodies"]

CONCURRENCY = 64
ORIGIN = "ceiling"
API = "kueue.x-k8s.io/v1beta2"
READY = "the ceiling is ready"


class Access(msgspec.Struct, frozen=True):
    """The URL and credentials of one cluster."""

    name: str
    url: str
    ca: str
    token: str


class Plan(msgspec.Struct, frozen=True):
    """The queue and the clusters. ClusterQueue and check are called like the namespace, as in the testbed."""

    namespace: str
    queue: str
    manager: Access
    workers: list[Access]


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str


class _Template(msgspec.Struct, frozen=True):
    spec: msgspec.Raw


class _Spec(msgspec.Struct, frozen=True):
    template: _Template


class _Job(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec


class _Submission(msgspec.Struct, frozen=True):
    type: str
    object: _Job


_submission = msgspec.json.Decoder(_Submission).decode


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies of all requests about one job."""

    workload: bytes
    reserve: bytes
    copy: bytes
    remote_job: bytes
    finish: bytes
    win: dict[str, bytes]
    event: dict[str, bytes]


@dataclass(slots=True)
class Script:
    """Runs the same steps for each job."""

    plan: Plan
    manager: Wire
    workers: dict[str, Wire]
    tasks: anyio.abc.TaskGroup
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(CONCURRENCY))
    winners: dict[str, str] = field(default_factory=dict)
    admitted: defaultdict[str, anyio.Event] = field(default_factory=lambda: defaultdict(anyio.Event))
    ended: defaultdict[str, anyio.Event] = field(default_factory=lambda: defaultdict(anyio.Event))

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.plan.namespace}/jobs"

    @property
    def events(self) -> str:
        return f"/api/v1/namespaces/{self.plan.namespace}/events"

    @property
    def workloads(self) -> str:
        return f"/apis/{API}/namespaces/{self.plan.namespace}/workloads"

    async def watch(self) -> None:
        """Start the watches; jobs submitted from then on are dispatched."""
        for name, wire in self.workers.items():
            await self._follow(wire, self.workloads, partial(self._on_copy, name))
            await self._follow(wire, self.jobs, self._on_remote)
        await self._follow(self.manager, self.jobs, self._on_submission)

    async def _follow(self, wire: Wire, path: str, on_event: Any) -> None:
        await self.tasks.start(lambda task_status: wire.watch(path, on_event, task_status=task_status))

    def _on_submission(self, line: bytes) -> str:
        event = _submission(line)
        if event.type == "ADDED":
            self.tasks.start_soon(self._carry, event.object)
        return event.object.metadata.resource_version

    def _on_copy(self, worker: str, line: bytes) -> str:
        event = workload_event(line)
        if event.has("Admitted"):
            self.winners.setdefault(event.object.metadata.name, worker)
            self.admitted[event.object.metadata.name].set()
        return event.object.metadata.resource_version

    def _on_remote(self, line: bytes) -> str:
        event = job_event(line)
        if event.has("Complete"):
            self.ended[event.object.metadata.name].set()
        return event.object.metadata.resource_version

    async def _carry(self, job: _Job) -> None:
        name, workload = job.metadata.name, f"job-{job.metadata.name}"
        sent = bodies(self.plan, name, job.metadata.uid, job.spec.template.spec)
        async with self.limiter:
            await self.manager.post(self.workloads, sent.workload)
            await self.manager.patch(f"{self.workloads}/{workload}/status", sent.reserve)
            await _all([partial(wire.post, self.workloads, sent.copy) for wire in self.workers.values()])
        await self.admitted[workload].wait()
        winner = self.winners[workload]
        async with self.limiter:
            losers = [wire for each, wire in self.workers.items() if each != winner]
            await _all([partial(wire.delete, f"{self.workloads}/{workload}") for wire in losers])
            await self.workers[winner].post(self.jobs, sent.remote_job)
            await self.manager.patch(f"{self.workloads}/{workload}/status", sent.win[winner])
            await self.manager.post(self.events, sent.event[winner])
            await self.manager.patch(f"{self.jobs}/{name}", b'{"spec":{"suspend":false}}')
        await self.ended[name].wait()
        async with self.limiter:
            await self.manager.patch(f"{self.jobs}/{name}/status", completion(datetime.now(UTC)))
            await self.manager.patch(f"{self.workloads}/{workload}/status", sent.finish)
            await self.workers[winner].delete(f"{self.jobs}/{name}")
            await self.workers[winner].delete(f"{self.workloads}/{workload}")


def bodies(plan: Plan, job: str, uid: str, pod: msgspec.Raw) -> Bodies:
    """The requests for one job, from the pod of its template."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = f"job-{job}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    spec = {"queueName": plan.queue, "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]}
    assignment = {
        "name": "main",
        "flavors": {"cpu": "default", "memory": "default"},
        "resourceUsage": {"cpu": "100m", "memory": "100Mi"},
        "count": 1,
    }
    reserved = _condition("QuotaReserved", now)
    admitted = [reserved, _condition("Admitted", now)]
    names = [worker.name for worker in plan.workers]
    labels = {"kueue.x-k8s.io/multikueue-origin": ORIGIN}
    remote = {
        "suspend": True,
        "parallelism": 1,
        "completions": 1,
        "template": {"spec": pod},
    }
    bound = {"kueue.x-k8s.io/queue-name": plan.queue, "kueue.x-k8s.io/prebuilt-workload-name": name}
    encode = msgspec.json.encode
    return Bodies(
        workload=encode(_object(API, "Workload", name, plan.namespace, spec=spec, ownerReferences=[owner])),
        reserve=_status(
            conditions=[reserved],
            admission={"clusterQueue": plan.namespace, "podSetAssignments": [assignment]},
            admissionChecks=[_check(plan.namespace, "Pending", now)],
            nominatedClusterNames=names,
        ),
        copy=encode(_object(API, "Workload", name, plan.namespace, spec=spec, labels=labels)),
        remote_job=encode(_object("batch/v1", "Job", job, plan.namespace, spec=remote, labels=labels | bound)),
        finish=_status(conditions=[*admitted, _condition("Finished", now, reason="Succeeded")]),
        win={
            each: _status(
                conditions=admitted,
                admissionChecks=[_check(plan.namespace, "Ready", now)],
                clusterName=each,
                nominatedClusterNames=None,
            )
            for each in names
        },
        event={each: encode(_event(name, plan.namespace, each, now)) for each in names},
    )


def _object(api_version: str, kind: str, name: str, namespace: str, *, spec: Any, **metadata: Any) -> dict[str, Any]:
    about = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec}


def _event(workload: str, namespace: str, winner: str, now: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{workload}-", "namespace": namespace},
        "involvedObject": {"apiVersion": API, "kind": "Workload", "namespace": namespace, "name": workload},
        "type": "Normal",
        "reason": "MultiKueue",
        "message": f'The workload got reservation on "{winner}"',
        "source": {"component": ORIGIN},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _status(**fields: Any) -> bytes:
    return msgspec.json.encode({"status": fields})


def _condition(name: str, now: str, *, reason: str = "Ceiling") -> dict[str, str]:
    return {"type": name, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}


def _check(name: str, state: str, now: str) -> dict[str, str]:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": now}


async def _all(calls: Sequence[Any]) -> None:
    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(call)


async def run(plan: Plan) -> None:
    """Run the script until the process is ended."""
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        accesses = (plan.manager, *plan.workers)
        wires = {each.name: await stack.enter_async_context(_connect(each)) for each in accesses}
        manager = wires.pop(plan.manager.name)
        await Script(plan, manager, wires, tasks).watch()
        print(READY, flush=True)
        await anyio.sleep_forever()


def _connect(access: Access) -> Any:
    return Wire.connect(access.url, ca=access.ca.encode(), token=access.token, agent=ORIGIN)


if __name__ == "__main__":
    chosen = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    anyio.run(run, chosen, backend_options={"use_uvloop": True})
