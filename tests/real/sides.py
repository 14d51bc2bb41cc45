"""Two workers side by side, one real and one simulated: one file, one builder of both.

A scenario speaks to both through the same small interface, `Side`; what happened is recorded from the API alone and made
comparable: names and times that no two clusters share are masked.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from anyio.abc import TaskStatus

from multikueue.api.kubernetes.printed import CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client as KubeClient
from multikueue_simulator.workers.jobs.jobs import FAIL_ANNOTATION, RUN_SECONDS_ANNOTATION, JobRunner
from multikueue_simulator.workers.kueue.behaviour import PROMPT, Behaviour
from multikueue_simulator.workers.kueue.kueue import SimulatedKueue
from testbed import objects
from testbed.client import ApiError, Client, Kind, eventually
from testbed.kubeconfig import dump
from testbed.objects import CLUSTER_QUEUE, JOB, LOCAL_QUEUE, WORKLOAD, Object
from testbed.plane import ControlPlane
from tests.real.dialect import spoken

__all__ = ["Side", "Story", "agree", "kubelet", "simulated"]

POD = Kind("v1", "Pod")
CHECK = Kind("kueue.x-k8s.io/v1beta2", "AdmissionCheck")
CHECK_CONTROLLER = "example.com/check"


@dataclass
class Story:
    """What happened to the workloads and jobs of a namespace, from their first to their last event."""

    events: list[tuple[str, Object]] = field(default_factory=list)

    def see(self, type_: str, body: Object) -> None:
        self.events.append((type_, body))

    def told(self) -> Object:
        """Per object: how each condition went, the admissions, whether it was held, and how it looks in the end."""
        found: dict[str, Any] = {}
        for type_, body in self.events:
            name = f"{body['kind']} {body['metadata']['name']}"
            chapter = found.setdefault(name, {"conditions": {}, "admissions": [], "suspended": [], "active": []})
            for condition in body.get("status", {}).get("conditions") or []:
                said = {k: v for k, v in condition.items() if k in ("status", "reason", "message")}
                _append(chapter["conditions"].setdefault(condition["type"], []), said)
            _append(chapter["admissions"], body.get("status", {}).get("admission"))
            _append(chapter["suspended"], body["spec"].get("suspend"))
            _append(chapter["active"], body["spec"].get("active"))
            chapter["last"] = None if type_ == "DELETED" else _shape(body)
        told: Object = _masked(found)
        return told


def _append(values: list[Any], value: Any) -> None:
    if not values or values[-1] != value:
        values.append(value)


_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp")
_TIMES = ("lastTransitionTime", "lastProbeTime", "startTime", "completionTime", "requeueAt")


def _shape(body: Object) -> Object:
    meta = {k: v for k, v in body["metadata"].items() if k not in _VOLATILE}
    conditions = {
        c["type"]: {k: v for k, v in c.items() if k not in (*_TIMES, "type")}
        for c in body.get("status", {}).get("conditions") or []
    }
    status = {k: v for k, v in body.get("status", {}).items() if k != "conditions"}
    shape: Object = _without_times({**body, "metadata": meta, "status": {**status, "conditions": conditions}})
    return shape


def _without_times(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: ("TIME" if k in _TIMES else _without_times(v)) for k, v in tree.items()}
    return [_without_times(v) for v in tree] if isinstance(tree, list) else tree


_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"(job-[a-z0-9-]+)-[0-9a-f]{5}\b"), r"\1-HASH"),
    (re.compile(r'"kubectl.kubernetes.io/last-applied-configuration": ?"(?:[^"\\]|\\.)*",?'), ""),
)


def _masked(tree: Any) -> Any:
    text = json.dumps(tree, sort_keys=True)
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return json.loads(text)


OUR_WORDS = ("Reactivated", "BackoffFinished", "ClusterQueueRestarted", "LocalQueueRestarted")
"""Reasons of Requeued whose messages the quota room words in its own way."""

ACCIDENTS = ("accumulatedPastExecutionTimeSeconds",)
"""Fields of a status that depend on how quick the two machines are."""


async def agree(real: Story, simulated: Story, *, races: Collection[str] = ()) -> None:
    """Waits until they tell the same: what still comes when all is said must come on both, sooner or later."""

    async def alike() -> bool:
        compare(real, simulated, races=races)
        return True

    await anyio.sleep(1.5)
    await eventually(alike, timeout=15)


def compare(real: Story, simulated: Story, *, races: Collection[str] = ()) -> None:
    """They must tell the same, but for what `races` names: paths whose end the real side leaves to chance."""
    found = [*_differences("", _comparable(real.told()), _comparable(simulated.told()))]
    found = [text for text in found if not text.startswith(tuple(races))]
    assert not found, "real and simulated differ:\n" + "\n".join(found)


def _comparable(tree: Any) -> Any:
    if isinstance(tree, dict):
        dropped = {"message"} if tree.get("reason") in OUR_WORDS else set()
        return {
            k: _comparable(v)
            for k, v in tree.items()
            if k not in dropped and k not in ACCIDENTS and not _is_of_one_side(k, v)
        }
    if isinstance(tree, str) and spoken("failed checks are quoted"):
        return _FAILED_CHECKS.sub("FAILED CHECKS", tree)
    return [_comparable(v) for v in tree] if isinstance(tree, list) else tree


def _is_of_one_side(key: str, value: Any) -> bool:
    """Whether the real side's release writes this and the one that is played does not, or the other way about."""
    match key:
        case "PodsReady":
            return spoken("pods are watched")
        case "Finished":
            return spoken("orphans finish") and "OwnerNotFound" in str(value)
        case "kueue.x-k8s.io/multikueue-worker-workload-pod":
            return spoken("pods of copies are labelled")
    return key in (LOCAL_QUEUE_LABEL, CLUSTER_QUEUE_LABEL) and not spoken("queue labels on pods")


_FAILED_CHECKS = re.compile(
    r"At least one admission check is false|Admission check\(s\): .*, were rejected"
    r"|(?:Evicted due to )?AdmissionChecks? in \w+ state: .*"
)
"""How a message tells of them, of old and of late."""


def _differences(path: str, real: Any, ours: Any) -> Iterator[str]:
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            yield from _differences(f"{path}.{key}", real.get(key), ours.get(key))
    elif ".conditions." in path and (_is_shortened(real, ours) or _is_of_a_quick_start(path, real, ours)):
        return
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for number, pair in enumerate(zip(real, ours, strict=True)):
            yield from _differences(f"{path}[{number}]", *pair)
    elif real != ours:
        yield f"{path}:\n    real      {json.dumps(real)}\n    simulated {json.dumps(ours)}"


def _is_of_a_quick_start(path: str, real: Any, ours: Any) -> bool:
    """Whether all is alike but that the real job controller did not see that a new job was held: Kueue may be quicker."""
    if not path.endswith(".conditions.Suspended") or ours is None:
        return False
    if isinstance(ours, dict):
        return real is None and ours["reason"] == "JobResumed"
    return [each["reason"] for each in ours[:2]] == ["JobSuspended", "JobResumed"] and (real or []) == ours[2:]


def _is_shortened(real: Any, ours: Any) -> bool:
    """Whether a condition went the same way, but for moments in which it was False on the way to something else: what
    Kueue writes in two steps ours may write in one."""
    if not (isinstance(real, list) and isinstance(ours, list)):
        return False
    rest = iter(real)
    if real[-1:] != ours[-1:] or not all(state in rest for state in ours):
        return False
    return [s for s in real if s["status"] == "True"] == [s for s in ours if s["status"] == "True"]


@dataclass
class Side:
    """One worker as a scenario sees it; `namespace` is also the name of the ClusterQueue and of its flavor."""

    client: Client
    namespace: str
    story: Story = field(default_factory=Story)

    async def queue(self, *, quota: Mapping[str, str] | None = None, checks: tuple[str, ...] = ()) -> None:
        body = objects.cluster_queue(
            self.namespace, flavor=self.namespace, quota=quota or {"cpu": "2", "memory": "2Gi"}, checks=checks
        )
        await self.client.apply(objects.namespace(self.namespace))
        flavor = objects.resource_flavor(self.namespace, node_labels={"example.com/pool": "blue"})
        flavor["spec"]["tolerations"] = [{"key": "example.com/blue", "operator": "Exists", "effect": "NoSchedule"}]
        await self.client.apply(flavor)
        await self.client.apply(body)
        await self.client.apply(objects.local_queue("main", self.namespace, cluster_queue=self.namespace))
        await self.eventually(lambda: self._is_active(CLUSTER_QUEUE, self.namespace, None))
        await self.eventually(lambda: self._is_active(LOCAL_QUEUE, "main", self.namespace))

    async def _is_active(self, kind: Kind, name: str, namespace: str | None) -> bool:
        active = objects.condition(await self.client.get(kind, name, namespace), "Active")
        return active is not None and active["status"] == "True"

    async def check(self, name: str) -> None:
        """An admission check of a controller that is the test itself."""
        body = {"apiVersion": CHECK.api_version, "kind": CHECK.kind, "metadata": {"name": name}}
        await self.client.apply({**body, "spec": {"controllerName": CHECK_CONTROLLER}})
        condition = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now()}
        await self.client.patch_status(CHECK, name, {"conditions": [condition]})

    async def submit(self, name: str = "job", *, seconds: float | None = 1, fail: str = "", **more: Any) -> Object:
        """A job; `seconds` None is for ever."""
        spec = more.pop("spec", {})
        body = objects.job(name, self.namespace, **{"requests": {"cpu": "1", "memory": "1Gi"}} | more)
        annotations = {RUN_SECONDS_ANNOTATION: str(100_000 if seconds is None else seconds)}
        body["metadata"]["annotations"] = annotations | ({FAIL_ANNOTATION: fail} if fail else {})
        body["spec"] |= spec
        return await self.client.create(body)

    async def workload(self, job: str = "job") -> Object:
        """The workload of a job, own or prebuilt; its status is empty before anybody has looked at it."""
        for body in await self.client.list(WORKLOAD, self.namespace):
            owners = body["metadata"].get("ownerReferences") or []
            if body["metadata"]["name"] == f"copy-{job}" or any(o["name"] == job for o in owners):
                return {"status": {}, **body}
        raise AssertionError(f"no workload of {job}")

    async def copy(self, job: str = "job", **more: Any) -> Object:
        """A Workload as a manager makes it on a worker, for a job to come: its pods are those of a stored job."""
        body = objects.job(f"like-{job}", self.namespace, **{"requests": {"cpu": "1", "memory": "1Gi"}} | more)
        stored = await self.client.create(body, dry_run=True)
        template = {"metadata": {}, "spec": stored["spec"]["template"]["spec"]}
        pod_set = {"name": "main", "count": body["spec"]["parallelism"], "template": template}
        return await self.client.create(
            {
                "apiVersion": WORKLOAD.api_version,
                "kind": WORKLOAD.kind,
                "metadata": {
                    "name": f"copy-{job}",
                    "namespace": self.namespace,
                    "labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"},
                },
                "spec": {"podSets": [pod_set], "queueName": "main", "priority": 0},
            }
        )

    async def patch_workload(self, body: Object, job: str = "job") -> None:
        name = (await self.workload(job))["metadata"]["name"]
        await self.client.patch(WORKLOAD, name, body, self.namespace)

    async def patch_status(self, change: Callable[[Object], None], job: str = "job") -> None:
        """Change the status of a workload as another controller would."""
        while True:
            body = await self.workload(job)
            status = body.setdefault("status", {})
            change(status)
            meta = {"resourceVersion": body["metadata"]["resourceVersion"]}
            try:
                name = body["metadata"]["name"]
                patch = {"metadata": meta, "status": status}
                await self.client.patch(WORKLOAD, name, patch, self.namespace, subresource="status")
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
            else:
                return

    async def answer(self, check: str, state: str, job: str = "job", **more: Any) -> None:
        """What the controller of an admission check says, once it is asked."""

        async def is_asked() -> bool:
            return any(c["name"] == check for c in (await self.workload(job))["status"].get("admissionChecks") or [])

        await self.eventually(is_asked)

        def change(status: Object) -> None:
            for entry in status["admissionChecks"]:
                if entry["name"] == check:
                    entry |= {"state": state, "message": "as the test says", "lastTransitionTime": now(), **more}

        await self.patch_status(change, job)

    async def policy(self, policy: str) -> None:
        await self.client.patch(CLUSTER_QUEUE, self.namespace, {"spec": {"stopPolicy": policy}})

    async def until(self, type_: str, status: str = "True", job: str = "job", *, reason: str = "") -> Object:
        """The condition of a workload, once it says so."""

        async def says() -> Object | None:
            condition = objects.condition(await self.workload(job), type_)
            assert condition is not None, f"no condition {type_}"
            assert (condition["status"], reason or condition["reason"]) == (status, condition["reason"]), condition
            return condition

        condition: Object = await self.eventually(says)
        return condition

    async def until_job(self, holds: Callable[[Object], bool], job: str = "job") -> Object:
        async def does() -> Object | None:
            body = await self.client.get(JOB, job, self.namespace)
            assert holds(body), body["status"]
            return body

        body: Object = await self.eventually(does)
        return body

    async def until_running(self, job: str = "job") -> Object:
        return await self.until_job(lambda body: bool(body.get("status", {}).get("ready")), job)

    async def until_over(self, job: str = "job") -> Object:
        """The job, once it ended and the workload says so and has let go."""

        def is_over(body: Object) -> bool:
            ends = (objects.condition(body, end) for end in ("Complete", "Failed"))
            return any(end is not None and end["status"] == "True" for end in ends)

        await self.until_job(is_over, job)
        await self.until("Finished", job=job)
        body: Object = await self.eventually(lambda: self._let_go(job))
        return body

    async def _let_go(self, job: str) -> Object | None:
        body = await self.workload(job)
        return None if body["metadata"].get("finalizers") else body

    async def until_gone(self, kind: Kind, name: str) -> None:
        async def is_gone() -> bool:
            return await self.client.find(kind, name, self.namespace) is None

        await self.eventually(is_gone)

    @staticmethod
    async def eventually(predicate: Callable[[], Awaitable[Any]]) -> Any:
        return await eventually(predicate, timeout=30)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def recorded(side: Side) -> AsyncIterator[None]:
    """Watch the side's workloads and jobs as long as the block lasts."""

    async def record(kind: Kind, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async for type_, body in side.client.watch(kind, side.namespace, on_list=task_status.started):
            side.story.see(type_, {"apiVersion": kind.api_version, "kind": kind.kind, **body})

    async with anyio.create_task_group() as tasks:
        for kind in (WORKLOAD, JOB):
            await tasks.start(record, kind)
        yield
        tasks.cancel_scope.cancel()


def _version(body: Object | None) -> str:
    return str(body["metadata"]["resourceVersion"]) if body else ""


@asynccontextmanager
async def simulated(plane: ControlPlane, *, behaviour: Behaviour = PROMPT) -> AsyncIterator[None]:
    """A simulated Kueue and what runs jobs, on a plane without either."""
    credentials = await from_kubeconfig(dump(plane.kubeconfig()))
    async with KubeClient.connect(credentials, cluster=plane.name) as client, anyio.create_task_group() as tasks:
        kueue = SimulatedKueue(client, now=_now, rng=random.Random(1), behaviour=behaviour)
        await tasks.start(kueue.run)
        await tasks.start(JobRunner(client, now=_now, rng=random.Random(2)).run)
        yield
        tasks.cancel_scope.cancel()


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def kubelet(plane: ControlPlane, namespace: str) -> AsyncIterator[None]:
    """Plays the nodes of a plane: pods of a namespace run as the annotations of their jobs say."""
    async with plane.client() as client, anyio.create_task_group() as tasks:
        nodes = _Nodes(client, namespace)

        async def follow() -> None:
            async for type_, body in client.watch(POD, namespace):
                if type_ == "ADDED":
                    tasks.start_soon(nodes.run, body)

        tasks.start_soon(follow)
        yield
        tasks.cancel_scope.cancel()


@dataclass
class _Nodes:
    client: Client
    namespace: str
    doomed: dict[str, int] = field(default_factory=dict)

    async def run(self, pod: Object) -> None:
        owner = pod["metadata"]["ownerReferences"][0]
        job = await self.client.find(JOB, owner["name"], self.namespace)
        if job is None:
            return
        annotations = job["metadata"].get("annotations") or {}
        told = annotations.get(FAIL_ANNOTATION, "0")
        left = self.doomed.setdefault(owner["uid"], 1000 if told == "true" else int(told))
        self.doomed[owner["uid"]] = left - 1
        began = now()
        await self._report(pod, "Running", {"running": {"startedAt": began}})
        await anyio.sleep(float(annotations.get(RUN_SECONDS_ANNOTATION, "1")))
        end = {"exitCode": int(left > 0), "startedAt": began, "finishedAt": now()}
        await self._report(pod, "Failed" if left > 0 else "Succeeded", {"terminated": end})

    async def _report(self, pod: Object, phase: str, state: Object) -> None:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        ready = phase == "Running"
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now()}
        shown = {"name": container["name"], "image": container["image"], "imageID": "", "ready": ready}
        status = {
            "phase": phase,
            "conditions": [condition],
            "containerStatuses": [{**shown, "restartCount": 0, "state": state}],
        }
        try:
            await self.client.patch_status(POD, name, status, self.namespace)
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise
