"""The lives of Pods on real clusters, alone, in groups, and of Deployments and StatefulSets; the test plays the nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from testbed.client import Client, Kind
from testbed.objects import Object
from tests.real.harness import Team
from tests.real.lives import AWAY, HOME, Life, admitted, as_there, contents, in_namespace, is_true, same, soon
from tests.real.test_pods import RUNNING, ended, gates

__all__ = ["deployment", "grouped", "stateful_set"]

POD, DEPLOYMENT, STATEFUL_SET = Kind("v1", "Pod"), Kind("apps/v1", "Deployment"), Kind("apps/v1", "StatefulSet")


async def let_go(life: Life) -> str | None:
    """The worker on which the Pod's copy is no longer held."""
    return next((worker for worker, body in (await life.remotes()).items() if not gates(body)), None)


async def grouped(bodies: list[Object], crew: Team) -> None:
    """Pods that belong together, or one: they stay held at home, run on one worker, and end at home."""
    lives = [Life(crew, POD, body["metadata"]["name"]) for body in bodies]
    made = [await crew.manager.create(in_namespace(body, crew)) for body in bodies]
    assert all(gates(body) for body in made), "it is not held"
    workers = [await soon(partial(let_go, life)) for life in lives]
    assert len({*workers}) == 1, "its Pods are apart"
    workload = await admitted(lives[0], workers[0])
    client = crew.clients[workers[0]]
    for life, published, body in zip(lives, bodies, made, strict=True):
        remote = await life.on(workers[0])
        same_pod(published, body, remote)
        await client.patch_status(POD, life.name, RUNNING, crew.namespace)
    for life in lives:
        await soon(partial(as_there, life, workers[0]))
        assert gates(await life.local()), "it is not held any more"
    for life in lives:
        await client.patch_status(POD, life.name, ended("Succeeded", 0), crew.namespace)

    async def finished() -> bool:
        assert is_true(await lives[0].workload(), "Finished"), "the Workload is not finished"
        for life in lives:
            assert (await life.local())["status"]["phase"] == "Succeeded"
            await life.nothing_is_left(workload["metadata"]["name"])
        return True

    await soon(finished)
    for life in lives:
        await crew.manager.delete(POD, life.name, crew.namespace)


def same_pod(published: Object, made: Object, remote: Object) -> None:
    """As `same`, without what the API server of each cluster adds to its Pods."""
    assert HOME not in json.dumps(remote["spec"])
    asked, copy = (contents(each["spec"]) for each in (published, remote))
    assert asked.items() <= contents(made["spec"]).items()
    assert asked.items() <= copy.items(), dict(asked.items() - copy.items())
    assert AWAY in json.dumps(remote["spec"]), "the worker's Kueue has not said where"


async def copies_of(crew: Team, app: str) -> Iterator[tuple[Client, Object]]:
    """The Pods of an application on the workers."""
    found = [
        (client, body)
        for client in crew.clients.values()
        for body in await client.list(POD, crew.namespace, labels=f"app={app}")
    ]
    return iter(found)


async def play_nodes(crew: Team, app: str) -> None:
    """What is let go on a worker runs."""
    for client, body in await copies_of(crew, app):
        if not gates(body) and body["status"]["phase"] == "Pending" and "deletionTimestamp" not in body["metadata"]:
            await client.patch_status(POD, body["metadata"]["name"], RUNNING, crew.namespace)


async def deployment(body: Object, crew: Team) -> None:
    """It is available at home by Pods that run on workers, each on one."""
    name, app, replicas = body["metadata"]["name"], body["spec"]["template"]["metadata"]["labels"]["app"], 2
    made = await crew.manager.create(in_namespace(body, crew))

    async def available() -> bool:
        await play_nodes(crew, app)
        there = [each["metadata"]["name"] for _, each in await copies_of(crew, app)]
        assert len({*there}) == len(there) == replicas, there
        status = (await crew.manager.get(DEPLOYMENT, name, crew.namespace))["status"]
        assert status.get("readyReplicas", 0) == replicas, status
        return True

    await soon(available)
    for _, pod in await copies_of(crew, app):
        template = {"spec": made["spec"]["template"]["spec"]}
        same_pod(body["spec"]["template"], template, pod)
    assert all(gates(pod) for pod in await crew.manager.list(POD, crew.namespace, labels=f"app={app}"))
    await crew.manager.delete(DEPLOYMENT, name, crew.namespace)

    async def gone() -> bool:
        assert not [*await copies_of(crew, app)]
        assert not await crew.manager.list(POD, crew.namespace, labels=f"app={app}")
        return True

    await soon(gone)


async def stateful_set(body: Object, crew: Team) -> None:
    """It runs whole on one worker, and its Pods at home stay held."""
    name, app = body["metadata"]["name"], body["spec"]["template"]["metadata"]["labels"]["app"]
    life = Life(crew, STATEFUL_SET, name)
    made = await crew.manager.create(in_namespace(body, crew))

    async def runs() -> str:
        await play_nodes(crew, app)
        there = await life.remotes()
        assert there, "it is on no worker"
        for worker, remote in there.items():
            status = remote.get("status", {})
            assert status.get("readyReplicas", 0) == body["spec"]["replicas"], status
            return worker
        return ""

    worker = await soon(runs)
    remote = await life.on(worker)
    same(body, made, remote)
    await admitted(life, worker)

    async def held_at_home() -> bool:
        pods = await crew.manager.list(POD, crew.namespace, labels=f"app={app}")
        assert pods, "it has no Pods at home"
        assert all(gates(pod) for pod in pods)
        return True

    await soon(held_at_home)
    await life.delete()
