"""The whole life of a job of one kind on real clusters, from its submission to its end; nobody but the test plays the kind's
own controller on the worker."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from multikueue.api.kueue.workload import REPLACES_ANNOTATION
from multikueue.jobs.trees import paths
from testbed import objects
from testbed.client import Client, Kind, eventually
from testbed.objects import WORKLOAD, Object
from tests.jobs.all_kinds import drop, leaves
from tests.real.harness import Team

__all__ = [
    "AWAY",
    "HOME",
    "Life",
    "Play",
    "Shown",
    "admitted",
    "as_stored",
    "as_there",
    "contents",
    "copied",
    "in_namespace",
    "is_true",
    "refused",
    "same",
    "soon",
]

HOME, AWAY = "pool-at-home", "pool-on-the-worker"
"""Where the flavors of the manager cluster lead, and those of the workers: labels of nodes."""

PATIENCE = 100.0
STARTED = "2026-01-01T12:00:00Z"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
PATCHES_OF_KUEUE = "spec.runtimePatches[manager=kueue.x-k8s.io/manager]"

Play = Callable[[Client, str, str], Awaitable[Object]]


async def soon(predicate: Callable[[], Awaitable[Any]]) -> Any:
    """At a pace that leaves many lives room beside one another."""
    return await eventually(predicate, timeout=PATIENCE, interval=0.5)


@dataclass(frozen=True, slots=True)
class Life:
    """One object of the manager cluster, in the midst of its life."""

    crew: Team
    kind: Kind
    name: str

    async def local(self) -> Object:
        return await self.crew.manager.get(self.kind, self.name, self.crew.namespace)

    async def remotes(self) -> dict[str, Object]:
        """The objects of its kind and name on the workers, by worker; there is never more than one."""
        clients = self.crew.clients.items()
        found = {worker: await client.find(self.kind, self.name, self.crew.namespace) for worker, client in clients}
        there = {worker: body for worker, body in found.items() if body is not None}
        assert len(there) <= 1, f"{self.name} is on {sorted(there)}"
        return there

    async def on(self, worker: str) -> Object:
        there = await self.remotes()
        assert worker in there, f"{self.name} is on {[*there]} and not on {worker}"
        return there[worker]

    async def workloads(self) -> list[Object]:
        """Its Workloads on the manager cluster, those that are not over first."""
        owner = (self.kind.api_version, self.kind.kind, self.name)
        found = [
            {"status": {}, **body}
            for body in await self.crew.manager.list(WORKLOAD, self.crew.namespace)
            if owner in [(o["apiVersion"], o["kind"], o["name"]) for o in body["metadata"].get("ownerReferences", ())]
        ]
        return sorted(found, key=lambda body: is_true(body, "Finished"))

    async def workload(self) -> Object:
        """That which is not over, or the last one."""
        found = await self.workloads()
        assert found, f"{self.name} has no Workload"
        return found[0]

    async def only_copy(self) -> tuple[str, Object]:
        """The worker with the one copy of its Workload, and that: those on the others are taken back."""
        name = (await self.workload())["metadata"]["name"]
        clients = self.crew.clients.items()
        found = {worker: await client.find(WORKLOAD, name, self.crew.namespace) for worker, client in clients}
        ones = [(worker, body) for worker, body in found.items() if body is not None]
        assert len(ones) == 1, f"copies of {name} are on {[worker for worker, _ in ones]}"
        return ones[0]

    async def nothing_is_left(self, *names: str) -> bool:
        """On no worker is anything of it, nor of its Workloads."""
        assert await self.remotes() == {}, "the copy of the job is still there"
        for worker, client in self.crew.clients.items():
            left = {body["metadata"]["name"] for body in await client.list(WORKLOAD, self.crew.namespace)}
            assert not left & {*names}, f"a copy of its Workload is left on {worker}"
        return True

    async def delete(self) -> None:
        """And nothing is left of it on any cluster."""
        names = [body["metadata"]["name"] for body in await self.workloads()]
        await self.crew.manager.delete(self.kind, self.name, self.crew.namespace)

        async def gone() -> bool:
            assert await self.crew.manager.find(self.kind, self.name, self.crew.namespace) is None
            assert await self.workloads() == []
            return await self.nothing_is_left(*names)

        await soon(gone)


def is_true(body: Object, type_: str) -> bool:
    found = objects.condition(body, type_)
    return found is not None and found["status"] == "True"


def contents(spec: Any) -> dict[tuple[str | int, ...], Any]:
    """What is said in a spec, and where; but for what says nothing."""
    return {path: value for path, value in leaves(spec) if value not in ({}, [], None)}


def contents_of_spec(body: Object) -> dict[tuple[str | int, ...], Any]:
    """But for the patches of a TrainJob that are of a cluster's own Kueue."""
    seen = json.loads(json.dumps(body))
    drop(seen, PATCHES_OF_KUEUE)
    return contents(seen["spec"])


OF_ADMISSION = ("nodeSelector", "suspend", "managedBy", "ttlSecondsAfterFinished", "podSetInfos")
OF_THE_KIND = ("schedulingGates", "submitterPodTemplate")
"""What Kueue adds there: gates of pods that come with another size, and the pod that submits a RayJob."""
OF_AN_OBJECT = ("controller-uid", "batch.kubernetes.io/controller-uid")


def is_ours_to_change(path: tuple[str | int, ...]) -> bool:
    """Whether a field says where a job may run, or whose it is, rather than what it does."""
    keys = {str(key) for key in path}
    return bool(keys & {*OF_ADMISSION, *OF_THE_KIND, *OF_AN_OBJECT}) or any(
        key.startswith("kueue.x-k8s.io/") for key in keys
    )


def same(published: Object, made: Object, remote: Object) -> None:
    """The copy does what its user wrote, all of it and nothing else, with nothing of the manager cluster."""
    assert HOME not in json.dumps(remote["spec"]), "the demands of the manager cluster's flavor went along"
    asked, local, copy = map(contents_of_spec, (published, made, remote))
    assert asked.items() <= local.items(), dict(asked.items() - local.items())
    lost = {path: value for path, value in local.items() if copy.get(path) != value and not is_ours_to_change(path)}
    assert lost == {}, f"lost on the way: {lost}"
    more = {path: value for path, value in copy.items() if path not in local and not is_ours_to_change(path)}
    assert more == {}, f"not as published: {more}"


async def admitted_somewhere(life: Life) -> Object:
    """The Workload that is admitted on the manager cluster, as is its one copy by the Kueue of that worker."""
    workload = await life.workload()
    assert is_true(workload, "Admitted"), "it is not admitted at home"
    assert not is_true(workload, "Finished"), "it is over"
    worker, copy = await life.only_copy()
    assert life.crew.worker_of(workload["status"]["clusterName"]) == worker
    assert is_true(copy, "Admitted"), "the worker's Kueue has not admitted the copy"
    ours, theirs = (contents(each["spec"]["podSets"]) for each in (workload, copy))
    if REPLACES_ANNOTATION in workload["metadata"].get(
        "annotations", {}
    ):  # Kueue makes it of the job as it runs at home
        ours, theirs = ({path: told for path, told in each.items() if not _is_of_home(path)} for each in (ours, theirs))
    assert ours == theirs, f"at home {ours}, there {theirs}"
    return workload


def _is_of_home(path: tuple[Any, ...]) -> bool:
    """Whether a part of a pod template comes from the flavor and the admission on the manager cluster."""
    return "nodeSelector" in path or path[2:3] == ("metadata",) or path[1:3] == ("template", "metadata")


async def admitted(life: Life, worker: str) -> Object:
    workload: Object = await soon(partial(admitted_somewhere, life))
    assert life.crew.worker_of(workload["status"]["clusterName"]) == worker
    return workload


@dataclass(frozen=True, slots=True)
class Shown:
    """A kind whose objects have a field that suspends them, and its own controller as the test plays it.

    `start` plays another who starts it on the worker than Kueue; `over` is None if it never ends. `sizes` are the numbers of
    workers that a Ray cluster gets while it runs.
    """

    body: Object
    suspend: str
    running: Play
    over: Play | None
    start: Play | None = None
    sizes: tuple[int, ...] = ()

    @property
    def kind(self) -> Kind:
        return Kind(self.body["apiVersion"], self.body["kind"])

    def is_suspended(self, body: Object) -> bool:
        return bool(paths.only(body, self.suspend))


def in_namespace(body: Object, crew: Team) -> Object:
    return {**body, "metadata": {**body["metadata"], "namespace": crew.namespace}}


async def copied(row: Shown, crew: Team, *, is_sliced: bool = False) -> None:
    """It runs on one worker, its status comes home, and nothing is left of it there."""
    life = Life(crew, row.kind, row.body["metadata"]["name"])
    made = await crew.manager.create(in_namespace(row.body, crew))
    assert row.is_suspended(made), "it is not held"
    worker, remote = await started(row, life)
    same(row.body, made, remote)
    await admitted(life, worker)
    assert row.start or AWAY in json.dumps(remote["spec"]), "the worker's Kueue has not said where"
    client, name = crew.clients[worker], life.name

    await row.running(client, crew.namespace, name)
    await soon(lambda: as_there(life, worker))
    for size in row.sizes:
        worker = await scaled(row, life, worker, size, is_sliced=is_sliced)
    if row.over is None:
        await life.delete()
        return
    end = (await row.over(client, crew.namespace, name))["status"]

    async def finished() -> bool:
        workload = await life.workload()
        assert is_true(workload, "Finished"), "the Workload is not finished"
        assert objects.condition(workload, "Finished")["reason"] == "Succeeded"  # type: ignore[index]
        return await life.nothing_is_left(workload["metadata"]["name"])

    await soon(finished)
    same_status(await life.local(), {"status": end})
    await life.delete()


def as_stored(status: Object) -> Object:
    """As the API server wants its conditions, and with all the counts that those must have that count their jobs."""
    counts = dict.fromkeys(("failed", "succeeded", "suspended", "ready", "active"), 0)
    counted = {key: status[key] for key in ("replicatedJobsStatus", "jobsStatus") if key in status}
    conditions = [{"lastTransitionTime": STARTED, **each} for each in status.get("conditions", ())]
    stored = status | ({"conditions": conditions} if conditions else {})
    return stored | {key: [counts | each for each in jobs] for key, jobs in counted.items()}


async def started(row: Shown, life: Life) -> tuple[str, Object]:
    """The one worker that runs it, and what it runs."""

    async def there() -> tuple[str, Object] | None:
        for worker, remote in (await life.remotes()).items():
            if not row.is_suspended(remote):
                return worker, remote
            name = remote["metadata"]["labels"][PREBUILT]
            client, namespace = life.crew.clients[worker], life.crew.namespace
            if row.start is not None and is_true(await client.get(WORKLOAD, name, namespace), "Admitted"):
                await row.start(client, namespace, life.name)
        return None

    found: tuple[str, Object] = await soon(there)
    return found


def same_status(local: Object, remote: Object) -> None:
    """A Job at home does not say that of something there is nothing."""
    ours, theirs = (
        {path: value for path, value in contents(each.get("status")).items() if value != 0} for each in (local, remote)
    )
    assert ours == theirs, f"at home {ours}, there {theirs}"


async def as_there(life: Life, worker: str) -> bool:
    """The status at home is that of the copy."""
    remote = await life.on(worker)
    same_status(await life.local(), remote)
    return True


async def scaled(row: Shown, life: Life, worker: str, workers: int, *, is_sliced: bool) -> str:
    """It has so many workers: it runs on as it was where it is sliced, and else starts over. Answers where it runs."""
    before = (await life.on(worker))["metadata"]["uid"]
    (group,) = (await life.local())["spec"]["workerGroupSpecs"]
    size = {"spec": {"workerGroupSpecs": [group | {"replicas": workers}]}}
    await life.crew.manager.patch(row.kind, life.name, size, life.crew.namespace)

    async def has_it() -> str:
        workload = await admitted_somewhere(life)
        assert sum(each["count"] for each in workload["spec"]["podSets"]) == 1 + workers
        there = life.crew.worker_of(workload["status"]["clusterName"])
        remote = await life.on(there)
        assert not row.is_suspended(remote)
        assert remote["metadata"]["labels"][PREBUILT] == workload["metadata"]["name"]
        assert remote["spec"]["workerGroupSpecs"][0]["replicas"] == workers
        assert (remote["metadata"]["uid"] == before) == is_sliced
        return there

    found: str = await soon(has_it)
    return found


async def refused(body: Object, crew: Team, words: str) -> None:
    """It waits, since no worker takes it; that is said, and nothing of it runs."""
    life = Life(crew, Kind(body["apiVersion"], body["kind"]), body["metadata"]["name"])
    await crew.manager.create(in_namespace(body, crew))

    async def told() -> bool:
        workload = await life.workload()
        said = [event["message"] for event in await crew.told(WORKLOAD, workload["metadata"]["name"])]
        checks = [check["message"] for check in workload["status"].get("admissionChecks") or ()]
        assert any(words in message for message in (*said, *checks)), (said, checks)
        return await life.remotes() == {}

    await soon(told)
    await life.delete()
